"""What least squares over all sums recovers, against rounds, beside theory."""

from typing import Any

from simfl.report import style
from simfl.report.figures.base import NothingToDraw, figure
from simfl.report.figures.lines import lines, tables
from simfl.report.study import Study

COLUMNS = {
    "recovery_error": "-",
    "recovery_expected": "--",
    "recovery_uncorrelated": ":",
    "recovery_floor": ":",
}
"""Drawn over one another, with the dashes of theory's; the last one is what older runs call the one before it."""


@figure("recovery", "Recovered updates", "Attacks")
def draw(study: Study) -> Any:
    """Squared error of the updates that a server recovers by solving all sums so far, relative to their own length: 0
    is recovered, 1 no better than guessing nothing. Dashed: what theory expects of the updates and their drift; dotted:
    1 − rank / clients, for uncorrelated updates of equal length without noise; updates that point the same way are
    recovered better.
    """
    from pandas import concat

    measured = tables(study, "recovery_error").assign(column="recovery_error")
    parts = [measured]
    for column in (name for name in COLUMNS if name != "recovery_error"):
        try:
            parts.append(tables(study, column).assign(column=column))
        except NothingToDraw:
            continue
    table = concat(parts, ignore_index=True)
    fig, ((axes,),) = style.figure()
    lines(axes, study, measured)
    for group in study.groups:
        for column, found in table[table.group == group.label].groupby("column", sort=False):
            if column != "recovery_error" and group.number is not None:
                colour = style.look(group.number)["color"]
                axes.plot(found["rounds"], found["mean"], COLUMNS[str(column)], color=colour, linewidth=0.9, alpha=0.8,
                          gid=style.tag(group))  # fmt: skip
    axes.set_ylabel("Squared error, relative")
    top = float(table["mean"].max())
    if top > 3:
        axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    style.legend(fig, axes)
    return fig, table
