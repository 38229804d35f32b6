"""``simfl ls rm``"""

from pathlib import Path

import click

from simfl.cli.shared import out_option
from simfl.core.errors import printable

SHOWN = 20


@click.command("rm", short_help="Remove runs, sweeps and comparisons.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--with-runs", is_flag=True, help="Of a sweep or comparison, also the runs that no other one has.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@out_option
def command(runs: tuple[str, ...], with_runs: bool, yes: bool, out: Path) -> None:
    """Remove results from the folder OUT: a RUN is a path, a name, or the first digits of a digest.

    All that lies in the folders is removed, exports and figures too. Nothing is removed outside OUT, through links, or
    while a process is at work there. A sweep's own folder holds its tables; its runs lie beside it and stay, without
    --with-runs.
    """
    from simfl.api.results_index import check_removable, find_results, list_entries, only_here, remove

    folders = [check_removable(find_results(run, out), out) for run in runs]
    if with_runs:
        for folder in list(folders):
            entries = list_entries(folder.parent).get(folder.parent.name, [])
            swept = [entry for entry in entries if entry.path.name == folder.name and entry.members]
            folders += [check_removable(path, out) for sweep in swept for path in only_here(sweep, entries)]
    folders = list(dict.fromkeys(folders))
    if not yes:
        for folder in folders[:SHOWN]:
            click.echo(printable(f"{folder.parent.name}/{folder.name}"), err=True)
        if len(folders) > SHOWN:
            click.echo(f"... and {len(folders) - SHOWN} more", err=True)
        what = "this folder" if len(folders) == 1 else f"these {len(folders)} folders"
        click.confirm(f"remove {what} with all that is in it?", abort=True, err=True)
    for folder in folders:
        remove(folder)
        click.echo(printable(f"removed {folder.parent.name}/{folder.name}"))
