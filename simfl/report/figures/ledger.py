"""Signal to noise of the worst client's update against simulated time, alone and against colluders."""

from typing import TYPE_CHECKING

from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure
from simfl.report.figures.lines import AXES, line, lines, tables
from simfl.report.study import Study

if TYPE_CHECKING:
    from pandas import DataFrame

WHO = {"mu_alone": "the sums alone", "mu_1": "and 1 client", "mu_2": "and 2", "mu_4": "and 4", "mu_8": "and 8",
       "mu_all": "and all others"}  # fmt: skip
COMPARED = ("mu_alone", "mu_4", "mu_all")
"""What several groups are compared by."""


@figure("ledger", "Signal to noise", "Privacy", wide=True)
def draw(study: Study) -> Drawn:
    """Largest signal to noise μ at which one client's update, the same in all rounds, is known to who sees the sums
    and any number of other clients: 0 is hidden, and a client with μ has the privacy of one Gaussian release of
    that μ. Bands reach from what a named coalition learns to what none exceeds.
    """
    x = "time_s" if any(run.rounds["time_s"].max() > 0 for group in study.groups for run in group.runs) else "round"
    table = _table(study, x)
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
            lines(axes, study, table[table.who == who], x, steps=True, bands=3)
            style.title(axes, WHO[who])
    for axes in panels:
        axes.set_xlabel(AXES[x])
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel("Signal to noise μ")
    style.legend(fig, panels[0], on_page=study.single)
    return fig, table


def _table(study: Study, x: str) -> "DataFrame":
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
