"""What plugins add to rounds.csv, against rounds."""

from typing import Any

from simfl.attacks.least_squares import COLUMNS
from simfl.columns import ROUND_COLUMNS, unknown
from simfl.report import style
from simfl.report.figures.base import NothingToDraw, figure
from simfl.report.figures.lines import lines, percent, tables
from simfl.report.study import Study

ACROSS = 2
"""Panels side by side."""


@figure("plugins", "Columns of plugins", "Plugins", wide=True)
def draw(study: Study) -> Any:
    """Whatever plugins of the scenario report after each round, one panel a column, mean over the seeds."""
    from pandas import concat

    own = {column.name for column in (*ROUND_COLUMNS, *COLUMNS)}
    names = dict.fromkeys(name for run in study.runs for name in run.rounds.columns if name not in own)
    known = {name: column for run in study.runs for name, column in run.columns.items()}
    found = {}
    for name in names:
        try:
            found[known.get(name) or unknown(name)] = tables(study, name)
        except NothingToDraw:
            continue
    if not found:
        raise NothingToDraw("no plugin fills a column of rounds.csv")
    rows = -(-len(found) // ACROSS)
    fig, grid = style.figure(rows, min(len(found), ACROSS), wide=True, height_in=0.5 + 2.3 * rows)
    for axes, (column, table) in zip(grid.flat, found.items(), strict=False):
        lines(axes, study, table)
        style.title(axes, column.heading)
        axes.set_ylabel({"seconds": "s", "bytes": "bytes"}.get(column.unit, ""))
        if column.unit == "share":
            percent(axes.yaxis)
    for axes in grid.flat[len(found) :]:
        axes.remove()
    style.legend(fig, grid[0, 0])
    return fig, concat([table.assign(column=column.name) for column, table in found.items()], ignore_index=True)
