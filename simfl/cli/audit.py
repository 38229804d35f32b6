"""``simfl audit``"""

from collections.abc import Sequence
from pathlib import Path

import click

from simfl.cli.shared import as_json, print_json
from simfl.core.errors import SimflError, suggestion


@click.command("audit")
@click.argument("participation")
@as_json
@click.option(
    "--figure",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also draw the guarantees over time (.svg, .pdf or .png).",
)
@click.option(
    "--html", metavar="FILE", type=click.Path(path_type=Path), help="Also write the audit as one self-contained page."
)
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
@click.option(
    "--colluder",
    "names",
    metavar="CLIENT",
    multiple=True,
    help="A client that tells the server its own updates; may be given several times.",
)
@click.option(
    "--colluders",
    metavar="C",
    type=click.IntRange(min=1),
    help="Also say what is left against the server and any C (further) clients.",
)
@click.option("--dimension", type=click.IntRange(min=1), help="Coordinates of an update, where epsilon needs it.")
def command(
    participation: str,
    as_json: bool,
    figure: Path | None,
    html: Path | None,
    columns: str | None,
    every: int,
    noise: str | None,
    delta: float,
    names: tuple[str, ...],
    colluders: int | None,
    dimension: int | None,
) -> None:
    """Say what a participation log gave away, and from which round on.

    PARTICIPATION has one line for every client in every round, with the columns round,client[,weight] among others
    (CSV, TSV, JSON lines, Parquet), or is a matrix with one row a round (text, NPY, NPZ), or the results folder of a
    run. A client is exposed when the server, adding and subtracting the sums it saw, can compute that client's own
    update.
    """
    from dataclasses import replace

    from simfl.audit.audit_report import audit
    from simfl.audit.audit_text import text
    from simfl.audit.figure import draw
    from simfl.audit.noise import spent
    from simfl.audit.page import page
    from simfl.audit.reading import read
    from simfl.core.storage.disk import write_atomically

    if figure is not None:
        _check_output(figure, participation, picture=True)
    if html is not None:
        _check_output(html, participation)
    log = read(participation, _columns(columns))
    colluding = _positions(names, log.clients, participation)
    if noise is not None and names:
        raise SimflError("--noise: says nothing of colluders, who may know a part of the noise; leave --colluder out")
    epsilons = None if noise is None else spent(log.matrix, noise, delta, dimension)
    report = audit(
        log.matrix, log.rounds, log.clients, every, unused=log.unused, doubles=log.doubles, colluding=colluding,
        colluders=colluders,
    )  # fmt: skip
    sums = report if not colluding else audit(log.matrix, every=0, doubles=log.doubles)
    _refuse_more_than_sums(participation, sums.metrics.strong, log.strong)
    report = replace(report, spent=epsilons)
    if figure is not None:
        draw(report, figure)
        click.echo(f"Figure: {figure}", err=True)
    if html is not None:
        write_atomically(html, page(report, Path(participation).name or participation).encode())
        click.echo(f"Page: {html}", err=True)
    if as_json:
        print_json(report.to_json())
    else:
        click.echo(text(report))


def _check_output(path: Path, log: str, picture: bool = False) -> None:
    """
    Raises:
        SimflError: nothing may be written there, or no picture has such a name.
    """
    from simfl.report.saving import format_of
    from simfl.results.file_names import refuse_result_files

    if picture:
        format_of(path)
    if not path.name or path.is_dir():
        raise SimflError(f"{path}: is a folder; name a file")
    if path.resolve() == Path(log).resolve():
        raise SimflError(f"{path}: is the log itself; name another file")
    if not path.absolute().parent.is_dir():
        raise SimflError(f"{path}: there is no folder {path.parent}")
    refuse_result_files(path)


def _positions(names: tuple[str, ...], clients: Sequence[object], participation: str) -> list[int]:
    """Where clients stand that are named as in the log.

    Raises:
        SimflError: there is no client of that name.
    """
    places = {str(client): i for i, client in enumerate(clients)} if names else {}
    for name in names:
        if name not in places:
            raise SimflError(f"--colluder {name}: {participation} has no client of that name{suggestion(name, places)}")
    return [places[name] for name in names]


def _refuse_more_than_sums(participation: str, sums: int | None, run: int | None) -> None:
    """
    Args:
        participation: what is audited.
        sums: how many clients its sums hide among one another.
        run: how many the run itself says were hidden, None if it is no run.

    Raises:
        SimflError: the server saw more than these sums.
    """
    if sums is not None and run is not None and sums > run:
        raise SimflError(
            f"{participation}: its sums hide {sums} clients among one another, but more than sums was "
            f"seen, so that the run itself says {run}; audit its participation.csv for the sums alone"
        )


def _columns(text: str | None) -> dict[str, str] | None:
    """``round=iteration,client=uid`` as a mapping."""
    from simfl.audit.log import COLUMNS

    if text is None:
        return None
    columns_by_role: dict[str, str] = {}
    for part in text.split(","):
        what, equals, name = (word.strip() for word in part.partition("="))
        if what not in COLUMNS or not equals or not name:
            form = "the form is round=NAME,client=NAME,weight=NAME"
            near = suggestion(what, COLUMNS)
            raise SimflError(f"--columns: '{part}' names none of round, client and weight; {form}{near}")
        if what in columns_by_role:
            raise SimflError(f"--columns: {what} is named twice")
        columns_by_role[what] = name
    return columns_by_role
