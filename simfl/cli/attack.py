"""``simfl attack``"""

import re
from pathlib import Path

import click

from simfl.cli.shared import as_json, print_json
from simfl.errors import SimflError

__all__ = ["command"]


@click.command("attack")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("name")
@click.argument("overrides", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option("--rounds", metavar="FIRST:STOP", help="Rounds FIRST .. STOP - 1 only; either may be left out.")
@as_json
def command(folder: Path, name: str, overrides: tuple[str, ...], rounds: str | None, as_json: bool) -> None:
    """Attack a finished run with what its server saw.

    FOLDER is the results folder of a run played with trace=aggregates; NAME one of `simfl list attack`. The truth that
    the attack is measured against is trained anew: by all clients, from the model in the middle of the window.
    """
    from simfl.attacking.replay import attack

    found = attack(folder, name, overrides, *_window(rounds))
    if as_json:
        print_json(found.to_json())
        return
    window = f"rounds {found.first} to {found.last}, {found.aggregations} aggregations"
    click.echo(f"{name}: {window}; truth trained from the model before round {found.middle}")
    for key, value in found.errors.items():
        click.echo(f"{key:<32}{value:.6g}")


def _window(text: str | None) -> tuple[int, int | None]:
    """``100:150`` as (100, 150)."""
    if text is None:
        return 0, None
    if not (found := re.fullmatch(r"(\d{0,9}):(\d{0,9})", text)):
        raise SimflError(f"--rounds: '{text}' is no FIRST:STOP, e.g. 100:150")
    first, stop = found.groups()
    return int(first or 0), int(stop) if stop else None
