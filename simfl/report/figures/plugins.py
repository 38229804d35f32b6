"""What plugins add to rounds.csv, against rounds."""

from simfl.attacks.least_squares import COLUMNS
from simfl.core.columns import ROUND_COLUMNS, unknown
from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure
from simfl.report.figures.lines import bound, filled_tables, lines, percent
from simfl.report.study import Study

ACROSS = 2
"""Panels side by side."""


@figure("plugins", "Columns of plugins", "Plugins", wide=True)
def draw(study: Study) -> Drawn:
    """Whatever plugins of the scenario report after each round, one panel a column, mean over the seeds."""
    from pandas import concat

    built_in = {column.name for column in (*ROUND_COLUMNS, *COLUMNS)}
    names = dict.fromkeys(name for run in study.runs for name in run.rounds.columns if name not in built_in)
    known = {name: column for run in study.runs for name, column in run.columns.items()}
    filled = {known.get(name) or unknown(name): table for name, table in filled_tables(study, names).items()}
    if not filled:
        raise NothingToDraw("no plugin fills a column of rounds.csv")
    rows = -(-len(filled) // ACROSS)
    fig, grid = style.figure(rows, min(len(filled), ACROSS), wide=True, height_in=0.5 + 2.3 * rows)
    for axes, (column, table) in zip(grid.flat, filled.items(), strict=False):
        lines(axes, study, table)
        style.title(axes, column.heading)
        axes.set_ylabel({"seconds": "s", "bytes": "bytes"}.get(column.unit, ""))
        if column.unit == "share":
            percent(axes.yaxis)
        elif column.unit != "number":
            bound(axes.yaxis)
    for axes in grid.flat[len(filled) :]:
        axes.remove()
    style.legend(fig, grid[0, 0])
    return fig, concat([table.assign(column=column.name) for column, table in filled.items()], ignore_index=True)
