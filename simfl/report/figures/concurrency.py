"""How many clients an asynchronous server kept at work."""

from typing import Any

import numpy as np

from simfl.metrics import concurrency
from simfl.report import style
from simfl.report.figures.base import asynchronous, figure
from simfl.report.study import Group, Run, Study

BINS = 120


@figure("concurrency", "Clients at work", "Time")
def draw(study: Study) -> Any:
    """Clients at work at a time, asynchronous runs; averaged over a hundredth or so of the run and over the seeds."""
    from pandas import concat

    shown = asynchronous(study, _table)
    fig, ((axes,),) = style.figure()
    for group, table in shown:
        axes.plot(table["time_s"], table["at_work"], drawstyle="steps-mid", **style.styled(group, len(table)))
    axes.set_xlabel("Simulated time (s)")
    axes.set_ylabel("Clients at work")
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    style.legend(fig, axes)
    return fig, concat([table for _, table in shown], ignore_index=True)


def _table(group: Group) -> Any:
    """Rows: group, time_s (the middle of a bin), at_work; None for a synchronous group."""
    from pandas import DataFrame

    runs = [run for run in group.runs if run.jobs is not None and len(run.jobs)]
    end = min((float(run.jobs["ended_s"].max()) for run in runs), default=0.0)
    if not end:
        return None
    edges = np.linspace(0.0, end, BINS + 1)
    at_work = np.mean([_averages(run, edges) for run in runs], axis=0)
    return DataFrame({"group": group.label, "time_s": (edges[1:] + edges[:-1]) / 2, "at_work": at_work})


def _averages(run: Run, edges: Any) -> Any:
    """Mean clients at work between the edges."""
    times, at_work = concurrency(run.jobs["started_s"].to_numpy(), run.jobs["ended_s"].to_numpy())
    seconds = np.append(0.0, np.cumsum(at_work[:-1] * np.diff(times)))
    return np.diff(np.interp(edges, times, seconds)) / np.diff(edges)
