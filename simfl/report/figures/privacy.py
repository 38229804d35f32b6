"""The three multi-round guarantees against rounds."""

from typing import TYPE_CHECKING

import numpy as np

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure
from simfl.report.figures.lines import AXES, filled_tables, line, lines, tables
from simfl.report.study import Group, Study, most_clients

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

NOTIONS = {"privacy_strong": "Strong", "privacy_semi_strong": "Semi-strong", "privacy_weak_lower": "Weak"}


BANDS = 3
"""Groups up to which confidence bands are drawn."""


@figure("privacy", "Multi-round privacy", "Privacy", wide=True)
def draw(study: Study) -> Drawn:
    """The fewest clients whose updates the server can separate from all others by combining every aggregate so far, in
    the worst case of updates that stay the same: larger is more private, 1 means that one client stands exposed. Strong
    ≤ semi-strong ≤ weak; where the weak guarantee is only known to lie in an interval, the interval is hatched, and the
    semi-strong line is a lower bound.
    """
    table = _table(study)
    if study.single:
        fig, ((axes,),) = style.figure(wide=True, height_in=2.7)
        for number, (notion, name) in enumerate(NOTIONS.items()):
            line(axes, table[table.notion == notion], number, name, steps=True)
        _open_ends(axes, table, study.groups[0], style.SERIES[2])
        panels = [axes]
    else:
        fig, (panels,) = style.figure(1, 3, wide=True, height_in=2.9, sharey=True)
        for axes, (notion, name) in zip(panels, NOTIONS.items(), strict=True):
            lines(axes, study, table[table.notion == notion], steps=True, bands=BANDS)
            style.title(axes, name)
        for group in study.groups:
            if group.number is not None:
                _open_ends(panels[2], table, group, style.look(group.number)["color"])
    doubling(panels[0], most_clients(study))
    for axes in panels:
        axes.set_xlabel(AXES["round"])
    panels[0].set_ylabel("Clients")
    style.legend(fig, panels[0], on_page=study.single)
    return fig, table


def _table(study: Study) -> "DataFrame":
    """Rows: notion, group, round, mean, low, high, runs, upper (of the weak guarantee), seeds."""
    from pandas import concat

    parts = [table.assign(notion=notion, upper=np.nan) for notion, table in filled_tables(study, NOTIONS).items()]
    if not parts:
        raise NothingToDraw("the runs have no privacy metrics (privacy: none)")
    upper = tables(study, "privacy_weak_upper").set_index(["group", "round"])["mean"]
    weak = parts[-1]
    weak["upper"] = upper.reindex(list(zip(weak.group, weak["round"], strict=True))).to_numpy()
    return concat(parts, ignore_index=True)


def _open_ends(axes: "Axes", table: "DataFrame", group: Group, color: str) -> None:
    """Shades what lies between the weak guarantee's bounds."""
    rows = table[(table.notion == "privacy_weak_lower") & (table.group == group.label)]
    if (rows["upper"] > rows["mean"]).any():
        axes.fill_between(rows["round"], rows["mean"], rows["upper"], step="post", color=color, alpha=0.22,
                          linewidth=0, hatch="////", gid=style.tag(group))  # fmt: skip


def doubling(axes: "Axes", clients: int) -> None:
    """A scale on which every doubling of the guarantee is one step; none exceeds the number of clients."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_locator(LogLocator(2, numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(0.9, min(max(axes.get_ylim()[1], 2.2), 1.1 * clients))
