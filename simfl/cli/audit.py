"""``simfl audit``"""

from pathlib import Path

import click

from simfl.cli.shared import as_json, print_json
from simfl.errors import SimflError, suggestion

__all__ = ["command"]


@click.command("audit")
@click.argument("participation")
@as_json
@click.option("--figure", metavar="FILE", help="Also draw the guarantees over time (.svg, .pdf or .png).")
@click.option("--html", metavar="FILE", help="Also write the audit as one self-contained page.")
@click.option(
    "--columns",
    metavar="round=NAME,client=NAME[,weight=NAME]",
    help="Which columns of the log hold the round, the client and the weight.",
)
@click.option(
    "--every",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Rounds between evaluations of the semi-strong and weak guarantees; 0 = the last one only.",
)
@click.option(
    "--noise", metavar="STAGE[:KEY=VALUE,...]", help="Also say what epsilon such noise in the sums leaves each client."
)
@click.option(
    "--delta", type=float, default=1e-5, show_default=True, help="Of that epsilon; well below one in the clients."
)
@click.option("--dimension", type=click.IntRange(min=1), help="Coordinates of an update, where epsilon needs it.")
def command(
    participation: str,
    as_json: bool,
    figure: str | None,
    html: str | None,
    columns: str | None,
    every: int,
    noise: str | None,
    delta: float,
    dimension: int | None,
) -> None:
    """Say what a participation log gave away, and from which round on.

    PARTICIPATION has one line for every client in every round, with the columns round,client[,weight] among others
    (CSV, TSV, JSON lines, Parquet), or is a matrix with one row a round (text, NPY, NPZ), or the results folder of a
    run. A client is exposed when the server, adding and subtracting the sums it saw, can compute that client's own
    update.
    """
    from dataclasses import replace

    from simfl.audit.figure import checked, draw
    from simfl.audit.noise import spent
    from simfl.audit.page import page
    from simfl.audit.reading import read
    from simfl.audit.report import audit
    from simfl.audit.text import text
    from simfl.disk import write_atomically
    from simfl.stored import refuse_own

    target = None if figure is None else checked(Path(figure))
    for wanted in (target, None if html is None else Path(html)):
        if wanted is not None and not wanted.absolute().parent.is_dir():
            raise SimflError(f"{wanted}: there is no folder {wanted.parent}")
        if wanted is not None:
            refuse_own(wanted)
    log = read(participation, _columns(columns))
    left = None if noise is None else spent(log.matrix, noise, delta, dimension)
    report = audit(log.matrix, log.rounds, log.clients, every, unused=log.unused, doubles=log.doubles)
    hiding = report.metrics.strong
    if hiding is not None and log.strong is not None and hiding > log.strong:
        raise SimflError(
            f"{participation}: its sums hide {hiding} clients among one another, but more than sums was "
            f"seen, so that the run itself says {log.strong}; audit its participation.csv for the sums alone"
        )
    report = replace(report, spent=left)
    if target is not None:
        draw(report, target)
        click.echo(f"Figure: {target}", err=True)
    if html is not None:
        write_atomically(Path(html), page(report, Path(participation).name or participation).encode())
        click.echo(f"Page: {html}", err=True)
    if as_json:
        print_json(report.to_json())
    else:
        click.echo(text(report))


def _columns(text: str | None) -> dict[str, str] | None:
    """``round=iteration,client=uid`` as a mapping."""
    from simfl.audit.log import COLUMNS

    if text is None:
        return None
    found: dict[str, str] = {}
    for part in text.split(","):
        what, equals, name = (word.strip() for word in part.partition("="))
        if what not in COLUMNS or not equals or not name:
            near = suggestion(what, COLUMNS) or "; the form is round=NAME,client=NAME,weight=NAME"
            raise SimflError(f"--columns: '{part}' names none of round, client and weight{near}")
        if what in found:
            raise SimflError(f"--columns: {what} is named twice")
        found[what] = name
    return found
