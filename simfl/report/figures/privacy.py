"""The multi-round guarantees, and the signal to noise of the worst client's update, alone and against colluders."""

from typing import TYPE_CHECKING

import numpy as np

from simfl.report import style
from simfl.report.figures.base import AXES, Drawn, NothingToDraw, figure, filled_tables, line, lines, tables
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


WHO = {"mu_alone": "the sums alone", "mu_1": "and 1 client", "mu_2": "and 2", "mu_4": "and 4", "mu_8": "and 8",
       "mu_all": "and all others"}  # fmt: skip
COMPARED = ("mu_alone", "mu_4", "mu_all")
"""What several groups are compared by."""


@figure("ledger", "Signal to noise", "Privacy", wide=True)
def draw_ledger(study: Study) -> Drawn:
    """Largest signal to noise μ at which one client's update, the same in all rounds, is known to who sees the sums
    and any number of other clients: 0 is hidden, and a client with μ has the privacy of one Gaussian release of
    that μ. Bands reach from what a named coalition learns to what none exceeds.
    """
    x = "time_s" if any(run.rounds["time_s"].max() > 0 for group in study.groups for run in group.runs) else "round"
    table = _ledger_table(study, x)
    if study.single:
        fig, ((axes,),) = style.figure(wide=True, height_in=2.9)
        for number, (who, label) in enumerate(WHO.items()):
            if len(rows := table[table.who == who]):
                line(axes, rows, number, label, x, steps=True)
                axes.fill_between(rows[x], rows["mean"], rows["upper"], step="post", linewidth=0, alpha=0.22,
                                  color=style.look(number)["color"], gid=f"band-{label}")  # fmt: skip
        panels = [axes]
    else:
        fig, (panels,) = style.figure(1, len(COMPARED), wide=True, height_in=2.9, sharey=True)
        for axes, who in zip(panels, COMPARED, strict=True):
            lines(axes, study, table[table.who == who], x, steps=True, bands=BANDS)
            style.title(axes, WHO[who])
    for axes in panels:
        axes.set_xlabel(AXES[x])
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel("Signal to noise μ")
    style.legend(fig, panels[0], on_page=study.single)
    return fig, table


def _ledger_table(study: Study, x: str) -> "DataFrame":
    """Rows: who, group, x, mean (of the lower bounds), low, high, runs, upper (mean of the upper bounds), seeds."""
    from pandas import concat

    parts = []
    for who in WHO:
        exact = who in ("mu_alone", "mu_all")
        try:
            lower, upper = (tables(study, who if exact else f"{who}_{end}", x) for end in ("lower", "upper"))
        except NothingToDraw:
            continue
        over = upper.set_index(["group", x])["mean"].reindex(list(zip(lower.group, lower[x], strict=True)))
        parts.append(lower.assign(who=who, upper=over.to_numpy()))
    if not parts:
        raise NothingToDraw("no run has a finite signal to noise (privacy: {ledger: true} beside Gaussian noise)")
    return concat(parts, ignore_index=True)
