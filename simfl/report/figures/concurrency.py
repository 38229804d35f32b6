"""How many clients an asynchronous server kept at work."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfl.metrics.participation import concurrency
from simfl.report import style
from simfl.report.figures.base import Drawn, asynchronous, figure
from simfl.report.study import Group, Study

if TYPE_CHECKING:
    from pandas import DataFrame

BINS = 120


@figure("concurrency", "Clients at work", "Time")
def draw(study: Study) -> Drawn:
    """Clients at work at a time, asynchronous runs; averaged over a hundredth or so of the run and over the seeds."""
    from pandas import concat

    shown = asynchronous(study, _table)
    fig, ((axes,),) = style.figure()
    for group, table in shown:
        axes.plot(table["time_s"], table["at_work"], drawstyle="steps-mid", **style.line_style(group, len(table)))
    axes.set_xlabel("Simulated time (s)")
    axes.set_ylabel("Clients at work")
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    style.legend(fig, axes)
    return fig, concat([table for _, table in shown], ignore_index=True)


def _table(group: Group) -> "DataFrame | None":
    """Rows: group, time_s (the middle of a bin), at_work; None for a synchronous group."""
    from pandas import DataFrame

    jobs = [run.jobs for run in group.runs if run.jobs is not None and len(run.jobs)]
    end = min((float(each["ended_s"].max()) for each in jobs), default=0.0)
    if not end:
        return None
    edges = np.linspace(0.0, end, BINS + 1)
    at_work = np.mean([_averages(each, edges) for each in jobs], axis=0)
    return DataFrame({"group": group.label, "time_s": (edges[1:] + edges[:-1]) / 2, "at_work": at_work})


def _averages(jobs: "DataFrame", edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean clients at work between the edges."""
    times, at_work = concurrency(jobs["started_s"].to_numpy(), jobs["ended_s"].to_numpy())
    seconds = np.append(0.0, np.cumsum(at_work[:-1] * np.diff(times)))
    return np.diff(np.interp(edges, times, seconds)) / np.diff(edges)
