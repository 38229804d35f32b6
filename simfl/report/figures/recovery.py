"""What least squares over all sums recovers, against rounds, beside theory."""

from simfl.report import style
from simfl.report.figures.base import Drawn, figure
from simfl.report.figures.lines import filled_tables, lines, tables
from simfl.report.study import Study

THEORY = {"recovery_expected": "--", "recovery_uncorrelated": ":", "recovery_floor": ":"}
"""Theory's columns and their dashes; the last one is what older runs call the one before it."""


@figure("recovery", "Recovered updates", "Attacks")
def draw(study: Study) -> Drawn:
    """Squared error of the updates that a server recovers by solving all sums so far, relative to their own length: 0
    is recovered, 1 no better than guessing nothing. Dashed: what theory expects of the updates and their drift; dotted:
    1 − rank / clients, for uncorrelated updates of equal length without noise; updates that point the same way are
    recovered better.
    """
    from pandas import concat

    measured = tables(study, "recovery_error").assign(column="recovery_error")
    expected = [table.assign(column=column) for column, table in filled_tables(study, THEORY).items()]
    table = concat([measured, *expected], ignore_index=True)
    fig, ((axes,),) = style.figure()
    lines(axes, study, measured)
    for group in study.groups:
        for column, rows in table[table.group == group.label].groupby("column", sort=False):
            if column != "recovery_error" and group.number is not None:
                colour = style.look(group.number)["color"]
                axes.plot(rows["round"], rows["mean"], THEORY[str(column)], color=colour, linewidth=0.9, alpha=0.8,
                          gid=style.tag(group))  # fmt: skip
    axes.set_ylabel("Squared error, relative")
    top = float(table["mean"].max())
    if top > 3:
        axes.set_yscale("symlog", linthresh=1)
        axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(bottom=0)
    style.legend(fig, axes)
    return fig, table
