"""``simfl new``"""

from pathlib import Path

import click

from simfl.cli import completing
from simfl.core.errors import SimflError, suggestion

FIRST = "quickstart"


@click.command("new", short_help="Write a commented scenario to start from.")
@click.argument("name")
@click.option(
    "--from",
    "builtin",
    default=FIRST,
    show_default=True,
    metavar="BUILTIN",
    shell_complete=completing.builtin_names,
    help="The built-in scenario whose values it gets.",
)
def command(name: str, builtin: str) -> None:
    """Write NAME.yaml: a scenario that can be run as it is, with every key explained.

    What is there already is not overwritten.
    """
    from simfl.scenario.builtin import builtins
    from simfl.scenario.scaffold import draft

    path = Path(name) if Path(name).suffix in (".yaml", ".yml") else Path(f"{name}.yaml")
    if builtin not in builtins():
        near = suggestion(builtin, builtins()) or f"; there are {', '.join(builtins())}"
        raise click.UsageError(f"--from {builtin}: no built-in scenario{near}")
    text = draft(path.stem, builtin)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SimflError(f"{path}: is there already; choose another name") from None
    click.echo(path)
    click.echo(f"run it: simfl run {path}", err=True)
