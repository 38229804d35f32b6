"""``simfl audit``"""

from pathlib import Path

import click

from simfl.cli.shared import as_json, print_json

__all__ = ["command"]


@click.command("audit")
@click.argument("participation")
@as_json
@click.option("--figure", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Also draw the guarantees over time (.svg, .pdf or .png).")  # fmt: skip
@click.option(
    "--every",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Rounds between evaluations of the semi-strong and weak guarantees; 0 = the last one only.",
)
def command(participation: str, as_json: bool, figure: Path | None, every: int) -> None:
    """Say what a participation log gave away, and from which round on.

    PARTICIPATION is a CSV file with the columns round,client[,weight], a matrix with one row a round (CSV, NPY, NPZ),
    or the results folder of a run. A client is exposed when the server, adding and subtracting the sums it saw, can
    compute that client's own update.
    """
    from simfl.audit.figure import draw
    from simfl.audit.reading import read
    from simfl.audit.report import audit
    from simfl.audit.text import text
    from simfl.disk import write_atomically
    from simfl.report import style
    from simfl.report.saving import format_of, picture
    from simfl.stored import refuse_own

    if figure is not None:
        format_of(figure)  # refused before the work, not after it
        refuse_own(figure)
    log = read(participation)
    report = audit(log.matrix, log.rounds, log.clients, every)
    if figure is not None:
        with style.settings():
            data = picture(draw(report), format_of(figure))
        write_atomically(figure, data)
        click.echo(str(figure), err=True)
    if as_json:
        print_json(report.to_json())
    else:
        click.echo(text(report))
