"""``simfl ls tag``"""

from pathlib import Path

import click

from simfl.cli.shared import out_option
from simfl.core.errors import SimflError


@click.command("tag", short_help="Change name, tags and note of results.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--tag", "tags", multiple=True, metavar="WORD", help="Add a tag; may be repeated.")
@click.option("--untag", "gone", multiple=True, metavar="WORD", help="Take a tag away; may be repeated.")
@click.option("--name", "run_name", metavar="TEXT", help="The name; an empty text takes it away.")
@click.option("--note", metavar="TEXT", help="The note; an empty text takes it away.")
@out_option
def command(
    runs: tuple[str, ...],
    tags: tuple[str, ...],
    gone: tuple[str, ...],
    run_name: str | None,
    note: str | None,
    out: Path,
) -> None:
    """Change name, tags and note of runs, sweeps and comparisons, and print them.

    A RUN is a path, a name, or the first digits of a digest. No result changes, and runs in progress go on.
    """
    from simfl.api.results_index import find_results, holds_results
    from simfl.results.notes import Notes, read_notes, write_notes

    Notes(run_name or "", tags, note or "")  # before the first is changed
    folders = [find_results(run, out) for run in runs]
    for folder in folders:
        if not holds_results(folder):
            raise SimflError(f"{folder}: no run, sweep or comparison here")
    for folder in folders:
        earlier = read_notes(folder)
        name = earlier.name if run_name is None else run_name
        notes = Notes(name, tuple({*earlier.tags, *tags} - set(gone)), earlier.note if note is None else note)
        if notes != earlier:
            write_notes(folder, notes)
        click.echo(f"{folder}\n{notes.to_text()}".rstrip())
