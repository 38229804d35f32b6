"""Asynchronous runs: how many clients the server kept at work, and how old updates were when they were aggregated."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from simfl.metrics.participation import concurrency
from simfl.report import style
from simfl.report.figures.base import Drawn, NothingToDraw, figure, percent
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
    averages = []  # of each run, between the edges
    for each in jobs:
        times, working = concurrency(each["started_s"].to_numpy(), each["ended_s"].to_numpy())
        seconds = np.append(0.0, np.cumsum(working[:-1] * np.diff(times)))
        averages.append(np.diff(np.interp(edges, times, seconds)) / np.diff(edges))
    at_work = np.mean(averages, axis=0)
    return DataFrame({"group": group.label, "time_s": (edges[1:] + edges[:-1]) / 2, "at_work": at_work})


@figure("staleness", "Staleness of updates", "Time")
def draw_staleness(study: Study) -> Drawn:
    """Share of the aggregated updates by staleness: how many times the model had changed since its download."""
    from pandas import concat

    shown = asynchronous(study, _staleness_table)
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


def _staleness_table(group: Group) -> "DataFrame | None":
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


def asynchronous(study: Study, table: "Callable[[Group], DataFrame | None]") -> "list[tuple[Group, DataFrame]]":
    """The groups of asynchronous runs, each with the table that ``table`` makes from its ``jobs.csv``, None without
    one.

    Raises:
        NothingToDraw: no run was asynchronous.
    """
    shown = [(group, its_table) for group in study.groups if (its_table := table(group)) is not None]
    if not shown:
        raise NothingToDraw("no run was asynchronous (no jobs.csv)")
    return shown
