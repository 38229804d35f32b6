"""``simfl show schema``"""

from pathlib import Path

import click

from simfl.cli.shared import load_plugins, plugin_option, print_json


@click.command("schema", short_help="Print the JSON Schema of scenario files.")
@plugin_option
def command(plugins: tuple[Path, ...]) -> None:
    """Print the JSON Schema of scenario files, for completion and hover text in editors.

    \b
    simfl show schema > scenario.schema.json, and as a scenario's first line:
    # yaml-language-server: $schema=scenario.schema.json
    """
    from simfl.scenario.schema import schema

    load_plugins(plugins)
    print_json(schema())
