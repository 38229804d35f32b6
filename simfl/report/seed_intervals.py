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

BAND_SEEDS = 5
"""Seeds from which figures draw the interval of a mean; of fewer it is so wide (12.7 standard errors of two seeds) that
each seed is drawn by itself.
"""


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
    """A column of ``rounds.csv`` against the round, from 0 as there; rows: round, mean, low, high, runs and, of few
    seeds, ``seed_0`` and so on.

    Of every round in which some run of the group has a value; the others' last values hold. Of what may be infinite
    (:class:`simfl.core.columns.Column`), not after a run's last value, and of a round's own epsilons not at all. Empty
    if there are none.
    """
    from pandas import concat

    series = concat(
        [run.rounds.set_index("round").reindex(columns=[column]) for run in group.runs], axis=1, join="inner"
    )
    finals = {run.columns[column].final for run in group.runs if column in run.columns}
    if "whole_sum" not in finals:
        series = series.dropna(how="all").ffill(limit_area="inside" if "end" in finals else None)
    series = series.dropna()
    series = series.iloc[_evenly_spread(len(series))]
    return _table(group, "round", series.index.to_numpy(), series.to_numpy(dtype=np.float64).T)


def over_time(group: "Group", column: str) -> "DataFrame":
    """A column of ``rounds.csv`` against simulated time; rows: time_s, mean, low, high, runs and, of few
    seeds, ``seed_0`` and so on.

    A value holds until the next one. Several runs are read at evenly spaced times, from the first at which all have
    a value until the first of them ends.
    """
    series = [run.rounds.reindex(columns=["time_s", column]).dropna().to_numpy(dtype=np.float64) for run in group.runs]
    if any(len(s) == 0 for s in series):
        return _table(group, "time_s", np.empty(0), np.empty((len(series), 0)))
    if len(series) == 1:
        only = series[0][_evenly_spread(len(series[0]))]
        return _table(group, "time_s", only[:, 0], only[None, :, 1])
    begin, end = max(s[0, 0] for s in series), min(s[-1, 0] for s in series)
    if end < begin:
        return _table(group, "time_s", np.empty(0), np.empty((len(series), 0)))
    times = np.linspace(begin, end, min(POINTS, max(len(s) for s in series)))
    values = np.array([s[np.searchsorted(s[:, 0], times, side="right") - 1, 1] for s in series])
    return _table(group, "time_s", times, values)


def _evenly_spread(count: int) -> NDArray[np.int64]:
    """At most POINTS of the positions 0 .. count-1, evenly spread, first and last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(np.int64)) if count else np.arange(0)


def few_seeds(group: "Group") -> bool:
    """Whether a group has several seeds, but too few to draw an interval."""
    return 1 < len(group.runs) < BAND_SEEDS


def seed_column(seed: int | str) -> str:
    """The column of a figure's table that holds one seed's values."""
    return f"seed_{seed}"


def _table(group: "Group", x: str, places: NDArray[np.generic], values: NDArray[np.float64]) -> "DataFrame":
    from pandas import DataFrame

    mean, half = _intervals(values)
    table = DataFrame({x: places, "mean": mean, "low": mean - half, "high": mean + half, "runs": len(values)})
    if few_seeds(group):
        for run, its in zip(group.runs, values, strict=True):
            table[seed_column(run.seed)] = its
    return table
