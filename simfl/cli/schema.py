"""``simfl schema``"""

import click

from simfl.cli.shared import print_json


@click.command("schema", short_help="Print the JSON Schema of scenario files.")
def command() -> None:
    """Print the JSON Schema of scenario files, for completion and hover text in editors.

    \b
    simfl schema > scenario.schema.json, and as a scenario's first line:
    # yaml-language-server: $schema=scenario.schema.json
    """
    from simfl.scenario.schema import schema

    print_json(schema())
