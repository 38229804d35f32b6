"""Means over seeds with confidence intervals, and paired differences."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfl.experiments.compare import intervals
from simfl.experiments.compare.intervals import Interval, half_width

if TYPE_CHECKING:
    from pandas import DataFrame

    from simfl.report.study import Group

POINTS = 240
"""Points of a drawn line; longer tables are thinned evenly."""


def interval(values: Any) -> Interval:
    """Mean and interval of independent values; None and NaN are left out."""
    numbers = [float(value) for value in values if value is not None and not np.isnan(value)]
    return intervals.mean(numbers) if numbers else Interval(float("nan"))


def paired_difference(first: dict[int, float], second: dict[int, float]) -> Interval:
    """Mean and interval of first minus second over the seeds that both have (common random numbers)."""
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        return Interval(float("nan"))
    return intervals.paired_difference([first[seed] for seed in seeds], [second[seed] for seed in seeds])


def _intervals(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and half widths of the columns of (runs, n)."""
    runs = len(values)
    mean = values.mean(axis=0)
    if runs < 2:
        return mean, np.full_like(mean, np.nan)
    return mean, half_width(values.std(axis=0, ddof=1) / np.sqrt(runs), runs - 1)


def over_rounds(group: "Group", column: str) -> "DataFrame":
    """A column of ``rounds.csv`` against the rounds so far, from 1; rows: rounds, mean, low, high, runs.

    Of every round in which some run of the group has a value; the others' last values hold. Empty if there are none.
    """
    from pandas import concat

    series = concat(
        [run.rounds.set_index("round").reindex(columns=[column]) for run in group.runs], axis=1, join="inner"
    )
    series = series.dropna(how="all").ffill().dropna()
    series = series.iloc[_evenly_spread(len(series))]
    return _table("rounds", series.index.to_numpy() + 1, series.to_numpy(dtype=np.float64).T)


def over_time(group: "Group", column: str) -> "DataFrame":
    """A column of ``rounds.csv`` against simulated time; rows: time_s, mean, low, high, runs.

    A value holds until the next one. Several runs are read at evenly spaced times, from the first at which all have
    a value until the first of them ends.
    """
    series = [run.rounds[["time_s", column]].dropna().to_numpy(dtype=np.float64) for run in group.runs]
    if any(len(s) == 0 for s in series):
        return _table("time_s", np.empty(0), np.empty((len(series), 0)))
    if len(series) == 1:
        only = series[0][_evenly_spread(len(series[0]))]
        return _table("time_s", only[:, 0], only[None, :, 1])
    begin, end = max(s[0, 0] for s in series), min(s[-1, 0] for s in series)
    if end < begin:
        return _table("time_s", np.empty(0), np.empty((len(series), 0)))
    times = np.linspace(begin, end, min(POINTS, max(len(s) for s in series)))
    values = np.array([s[np.searchsorted(s[:, 0], times, side="right") - 1, 1] for s in series])
    return _table("time_s", times, values)


def _evenly_spread(count: int) -> NDArray[np.int64]:
    """At most POINTS of the positions 0 .. count-1, evenly spread, first and last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(np.int64)) if count else np.arange(0)


def _table(x: str, places: NDArray[np.generic], values: NDArray[np.float64]) -> "DataFrame":
    from pandas import DataFrame

    mean, half = _intervals(values)
    return DataFrame({x: places, "mean": mean, "low": mean - half, "high": mean + half, "runs": len(values)})
