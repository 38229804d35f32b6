"""``simfl ls``"""

from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from simfl.cli.shared import as_json, print_json
from simfl.core.errors import printable

if TYPE_CHECKING:
    from simfl.api.results_index import Entry

COLOURS = {"done": "green", "failed": "red", "damaged": "red", "diverged": "red", "running": "yellow"}
HEADINGS = ("digest", "state", "seed", "rounds", "accuracy", "what differs")
WIDTHS = (12, 8, 4, 9, 8)


@click.command("ls", short_help="List what is in the results folder.")
@click.argument("folder", metavar="[DIR]", default="results", type=click.Path(path_type=Path))
@click.option("--all", "all_runs", is_flag=True, help="Also list each run of a sweep or comparison.")
@as_json
def command(folder: Path, all_runs: bool, as_json: bool) -> None:
    """List the runs, sweeps and comparisons in a folder of results: their state, and in what they differ.

    Under each scenario's name the one that changed last comes last. Runs of a sweep are counted in its line.
    """
    from simfl.api.results_index import list_entries

    by_name = list_entries(folder)
    counted = {(name, digest) for name, entries in by_name.items() for entry in entries for digest in entry.members}
    shown = {
        name: [e for e in entries if all_runs or as_json or e.kind != "run" or (name, e.digest) not in counted]
        for name, entries in by_name.items()
    }
    if as_json:
        print_json([entry.document() for entries in shown.values() for entry in entries])
        return
    if not by_name:
        click.echo(f"{folder}: no results", err=True)
    width = get_terminal_size().columns
    for number, (name, entries) in enumerate(shown.items()):
        click.echo(("\n" if number else "") + click.style(printable(name), bold=True))
        click.echo(click.style(_fitting(_line(*HEADINGS), width), dim=True))
        for entry in entries:
            line = _fitting(_run(entry) if entry.kind == "run" else _sweep(entry), width)
            colour = COLOURS.get(entry.state)
            click.echo(line.replace(entry.state, click.style(entry.state, fg=colour), 1) if colour else line)


def _run(entry: "Entry") -> str:
    rounds = "" if entry.rounds is None else str(entry.rounds)
    if entry.planned and entry.state in ("running", "stopped", "failed"):
        rounds = f"{rounds}/{entry.planned}"
    accuracy = "" if entry.accuracy is None else f"{entry.accuracy:.1%}"
    seed = "" if entry.seed is None else str(entry.seed)
    return _line(entry.digest, entry.state, seed, rounds, accuracy, entry.error or entry.differs)


def _sweep(entry: "Entry") -> str:
    counts = ", ".join(f"{count} {status}" for status, count in sorted(entry.runs.items()))
    about = f"{sum(entry.runs.values())} runs ({counts}) {entry.differs}" if counts else ""
    return "  ".join(filter(None, (entry.path.name, entry.state, about, entry.error)))


def _line(*cells: str) -> str:
    """Digest and state to the left, numbers to the right, then what differs."""
    left = [f"{cell:<{size}}" for cell, size in zip(cells[:2], WIDTHS[:2], strict=True)]
    right = [f"{cell:>{size}}" for cell, size in zip(cells[2:-1], WIDTHS[2:], strict=True)]
    return "  ".join([*left, *right, cells[-1]])


def _fitting(line: str, width: int) -> str:
    """One line, cut where the terminal's ends."""
    line = printable(line.replace("\n", " ").rstrip())
    return line if len(line) <= width else line[: width - 1] + "…"
