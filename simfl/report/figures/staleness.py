"""How old updates were when they were aggregated."""

from typing import Any

import numpy as np

from simfl.report import style
from simfl.report.figures.base import asynchronous, figure
from simfl.report.figures.lines import percent
from simfl.report.study import Group, Study


@figure("staleness", "Staleness of updates", "Time")
def draw(study: Study) -> Any:
    """Share of the aggregated updates by staleness: how many times the model had changed since its download."""
    from pandas import concat

    shown = asynchronous(study, _table)
    fig, ((axes,),) = style.figure()
    for group, table in shown:
        if len(shown) == 1:
            color = style.look(group.number)["color"]
            axes.bar(table["staleness"], table["share"], width=0.8, color=color, gid=style.tag(group))
        else:
            axes.plot(table["staleness"], table["share"], **style.styled(group, len(table)))
    axes.set_xlabel("Staleness (model versions)")
    axes.set_ylabel("Share of updates")
    axes.set_ylim(bottom=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    percent(axes.yaxis)
    style.legend(fig, axes)
    return fig, concat([table for _, table in shown], ignore_index=True)


def _table(group: Group) -> Any:
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
    ages = np.arange(len(counts))
    return DataFrame({"group": group.label, "staleness": ages, "updates": counts, "share": counts / counts.sum()})
