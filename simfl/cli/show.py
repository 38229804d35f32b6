"""``simfl show``"""

from pathlib import Path

import click

from simfl.cli.shared import as_json, load, print_json, scenario_arguments


@click.command("show", short_help="Print a scenario with all defaults filled in.")
@scenario_arguments
@as_json
def command(file: str, overrides: tuple[str, ...], plugins: tuple[Path, ...], as_json: bool) -> None:
    """Print a scenario as it will run: overrides applied, every default filled in.

    What is printed is a scenario again; its data files are named as seen from the working directory.
    """
    scenario = load(file, overrides, plugins)
    if as_json:
        print_json(scenario.plain(Path()))
    else:
        click.echo(scenario.to_yaml(Path()), nl=False)
