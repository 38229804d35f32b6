"""``simfl verify``"""

from pathlib import Path

import click

from simfl.cli.shared import as_json, print_json

__all__ = ["command"]

MISMATCH = 4


@click.command("verify", short_help="Play a finished run again and compare.")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@as_json
@click.pass_context
def command(context: click.Context, directory: Path, as_json: bool) -> None:
    """Play the run in a results folder again, elsewhere, and compare every table."""
    from simfl import run

    tables = run.verify(directory)
    identical = bool(tables) and all(tables.values())  # nothing compared is nothing verified
    if as_json:
        print_json({"directory": str(directory), "identical": identical, "tables": tables})
    else:
        for name, same in tables.items():
            click.echo(f"{name}: {'identical' if same else 'differs'}")
        click.echo(f"{directory}: {'verified' if identical else 'not reproduced'}")
    context.exit(0 if identical else MISMATCH)
