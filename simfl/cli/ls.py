"""``simfl ls``"""

from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from simfl.cli.shared import as_json, print_json
from simfl.core.errors import amount, printable

if TYPE_CHECKING:
    from simfl.api.results_index import Entry

COLOURS = {"done": "green", "failed": "red", "damaged": "red", "diverged": "red", "running": "yellow"}
HEADINGS = ("state", "seed", "rounds", "accuracy", "run", "digest")
MIN_DIGITS, MIN_WORDS = 6, 12


@click.command("ls", short_help="List what is in the results folder.")
@click.argument("folder", metavar="[DIR]", default="results", type=click.Path(path_type=Path))
@click.option("--all", "all_runs", is_flag=True, help="Also list each run of a sweep or comparison.")
@click.option("--tag", "tags", multiple=True, metavar="WORD", help="Only what has this tag; may be repeated.")
@as_json
def command(folder: Path, all_runs: bool, tags: tuple[str, ...], as_json: bool) -> None:
    """List the runs, sweeps and comparisons in a folder of results: their state, and in what they differ.

    Under each scenario's name the one that changed last comes last. Runs of a sweep are counted in its line. A run is
    called by its name, by the keys in which it differs from the others of its scenario, and by its tags. Name and
    digits of the digest stand for the folder in other commands.

    `simfl ls tag RUN` changes names, tags and notes, `simfl ls rm RUN` removes; `simfl ls ./tag` is a folder.
    """
    from simfl.api.results_index import list_entries

    by_name = {
        name: [entry for entry in entries if set(tags) <= set(entry.tags)]
        for name, entries in list_entries(folder).items()
    }
    counted = {(name, digest) for name, entries in by_name.items() for entry in entries for digest in entry.members}
    shown = {
        name: [e for e in entries if all_runs or as_json or e.kind != "run" or (name, e.digest) not in counted]
        for name, entries in by_name.items()
        if entries
    }
    if as_json:
        print_json([entry.document() for entries in shown.values() for entry in entries])
        return
    if not shown:
        click.echo(f"{folder}: no results" + "".join(f" with the tag {tag}" for tag in tags), err=True)
    digests = {entry.digest for entries in shown.values() for entry in entries}
    digits = next((n for n in range(MIN_DIGITS, 12) if len({d[:n] for d in digests}) == len(digests)), 12)
    for number, (name, entries) in enumerate(shown.items()):
        click.echo(("\n" if number else "") + click.style(printable(name), bold=True))
        rows = [HEADINGS, *((*_cells(entry), _words(entry), entry.digest[:digits]) for entry in entries)]
        for entry, line in zip([None, *entries], _lines(rows, get_terminal_size().columns), strict=True):
            if entry is None:
                line = click.style(line, dim=True)
            elif colour := COLOURS.get(entry.state):
                line = line.replace(entry.state, click.style(entry.state, fg=colour), 1)
            click.echo(line)


def _cells(entry: "Entry") -> tuple[str, str, str, str]:
    """State, seed, rounds and accuracy; of a sweep, the number of its runs stands for the rounds."""
    if entry.kind != "run":
        done, runs = entry.runs.get("done", 0), sum(entry.runs.values())
        count = amount(runs, "run") if done == runs else f"{done}/{amount(runs, 'run')}"
        pruned = f", {entry.runs['pruned']} pruned" if entry.runs.get("pruned") else ""
        return entry.state, "", count + pruned if runs else "", ""
    rounds = "" if entry.rounds is None else str(entry.rounds)
    if entry.planned and entry.state in ("running", "stopped", "failed"):
        rounds = f"{rounds}/{entry.planned}"
    accuracy = "" if entry.accuracy is None else f"{entry.accuracy:.1%}"
    return entry.state, "" if entry.seed is None else str(entry.seed), rounds, accuracy


def _words(entry: "Entry") -> str:
    """What a user calls a run: its name, in what it differs, its tags, what is wrong with it."""
    kind = "" if entry.kind == "run" else entry.kind
    name = entry.run_name and f'"{entry.run_name}"'
    tags = (f"#{tag}" for tag in entry.tags)
    return " ".join(filter(None, [kind, name, entry.error or entry.differs, *tags]))


def _lines(rows: Sequence[tuple[str, ...]], width: int) -> list[str]:
    """The rows, aligned and as wide as the terminal at most: what is too long in the words is left out."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS) - 2)]
    digits = max(len(row[-1]) for row in rows)
    left = max(MIN_WORDS, width - sum(widths) - digits - 2 * (len(widths) + 1))
    texts = [printable(row[-2].replace("\n", " ").rstrip()) for row in rows]
    most = min(left, max(map(len, texts)))
    lines = []
    for row, text in zip(rows, texts, strict=True):
        numbers = [f"{cell:>{size}}" for cell, size in zip(row[1:-2], widths[1:], strict=True)]
        words = text if len(text) <= most else text[: most - 1] + "…"
        lines.append("  ".join([f"{row[0]:<{widths[0]}}", *numbers, f"{words:<{most}}", row[-1]])[:width])
    return lines
