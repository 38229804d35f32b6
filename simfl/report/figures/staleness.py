"""How old updates were when they were aggregated."""

from typing import TYPE_CHECKING

import numpy as np

from simfl.report import style
from simfl.report.figures.base import Drawn, asynchronous, figure
from simfl.report.figures.lines import percent
from simfl.report.study import Group, Study

if TYPE_CHECKING:
    from pandas import DataFrame


@figure("staleness", "Staleness of updates", "Time")
def draw(study: Study) -> Drawn:
    """Share of the aggregated updates by staleness: how many times the model had changed since its download."""
    from pandas import concat

    shown = asynchronous(study, _table)
    fig, ((axes,),) = style.figure()
    for group, table in shown:
        if len(shown) == 1:
            color = style.look(group.number)["color"]
            axes.bar(table["staleness"], table["share"], width=0.8, color=color, gid=style.tag(group))
        else:
            axes.plot(table["staleness"], table["share"], **style.line_style(group, len(table)))
    axes.set_xlabel("Staleness (model versions)")
    axes.set_ylabel("Share of updates")
    axes.set_ylim(bottom=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    percent(axes.yaxis)
    style.legend(fig, axes)
    return fig, concat([table for _, table in shown], ignore_index=True)


def _table(group: Group) -> "DataFrame | None":
    """Rows: group, staleness, updates, share; None for a synchronous group."""
    from pandas import DataFrame

    ages = [
        run.jobs.loc[run.jobs["outcome"] == "aggregated", "staleness"].to_numpy(dtype=np.int64)
        for run in group.runs
        if run.jobs is not None
    ]
    counts = np.bincount(np.concatenate(ages)) if ages and sum(map(len, ages)) else None
    if counts is None:
        return None
    staleness = np.arange(len(counts))
    return DataFrame({"group": group.label, "staleness": staleness, "updates": counts, "share": counts / counts.sum()})
