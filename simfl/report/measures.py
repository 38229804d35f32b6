"""The numbers by which runs are judged, and how they are written."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.columns import GUARANTEES, TARGET_COLUMNS, Column, order_columns, unknown
from simfl.experiments.compare import intervals
from simfl.experiments.compare.intervals import Interval, half_width, p_value
from simfl.experiments.compare.run_numbers import baseline_target, target_text
from simfl.report.study import Group, Run, Study

if TYPE_CHECKING:
    from pandas import DataFrame


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


def over_rounds(group: Group, column: str) -> "DataFrame":
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
    return _seed_table(group, "round", series.index.to_numpy(), series.to_numpy(dtype=np.float64).T)


def over_time(group: Group, column: str) -> "DataFrame":
    """A column of ``rounds.csv`` against simulated time; rows: time_s, mean, low, high, runs and, of few
    seeds, ``seed_0`` and so on.

    A value holds until the next one. Several runs are read at evenly spaced times, from the first at which all have
    a value until the first of them ends.
    """
    series = [run.rounds.reindex(columns=["time_s", column]).dropna().to_numpy(dtype=np.float64) for run in group.runs]
    if any(len(s) == 0 for s in series):
        return _seed_table(group, "time_s", np.empty(0), np.empty((len(series), 0)))
    if len(series) == 1:
        only = series[0][_evenly_spread(len(series[0]))]
        return _seed_table(group, "time_s", only[:, 0], only[None, :, 1])
    begin, end = max(s[0, 0] for s in series), min(s[-1, 0] for s in series)
    if end < begin:
        return _seed_table(group, "time_s", np.empty(0), np.empty((len(series), 0)))
    times = np.linspace(begin, end, min(POINTS, max(len(s) for s in series)))
    values = np.array([s[np.searchsorted(s[:, 0], times, side="right") - 1, 1] for s in series])
    return _seed_table(group, "time_s", times, values)


def _evenly_spread(count: int) -> NDArray[np.int64]:
    """At most POINTS of the positions 0 .. count-1, evenly spread, first and last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(np.int64)) if count else np.arange(0)


def few_seeds(group: Group) -> bool:
    """Whether a group has several seeds, but too few to draw an interval."""
    return 1 < len(group.runs) < BAND_SEEDS


def seed_column(seed: int | str) -> str:
    """The column of a figure's table that holds one seed's values."""
    return f"seed_{seed}"


def _seed_table(group: Group, x: str, places: NDArray[np.generic], values: NDArray[np.float64]) -> "DataFrame":
    from pandas import DataFrame

    mean, half = _intervals(values)
    table = DataFrame({x: places, "mean": mean, "low": mean - half, "high": mean + half, "runs": len(values)})
    if few_seeds(group):
        for run, its in zip(group.runs, values, strict=True):
            table[seed_column(run.seed)] = its
    return table


ROUNDING = 1e-9
"""Half-widths below this share of the mean are rounding errors."""


@dataclass(frozen=True)
class UnitScale:
    """How values of a column are written: value / divisor, with so many decimals and, but for plain numbers, a unit."""

    divisor: float
    unit: str
    decimals: int

    def text(self, value: float | None) -> str:
        """The number without its unit; a dash where there is none."""
        if value is None or math.isnan(value):
            return "–"
        return f"{value / self.divisor:,.{self.decimals}f}".replace("-", "−").replace(",", "\u2009")

    def interval(self, values: Interval) -> str:
        """``mean ± half``, the half only where it is known."""
        half = "" if math.isnan(values.half_width) else f" ± {self.text(values.half_width)}"
        return self.text(values.estimate) + half

    def half(self, mean: float, half: float) -> str:
        """``± half``; empty where it is not known, or a rounding error."""
        return f"±\u202f{self.text(half)}" if half > ROUNDING * abs(mean) else ""

    def quantity(self, value: float | None) -> str:
        """The number with its unit."""
        return self.text(value) + (f"\u202f{self.unit}" if self.unit else "")


@dataclass(frozen=True)
class StudyMeasure:
    """A number ``of`` every run, None where a run has none."""

    column: Column
    of: Callable[[Run], float | None]

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def label(self) -> str:
        return self.column.heading

    @property
    def better(self) -> int:
        return self.column.better

    @property
    def noun(self) -> str:
        """The label inside a sentence."""
        return self.column.noun

    def by_seed(self, group: Group) -> dict[int, float]:
        """Its values for a group's runs; none where one of them is infinite, as their mean is."""
        values = {run.seed: value for run in group.runs if (value := self.of(run)) is not None}
        return {} if len(values) < len(group.runs) and self.column.may_be_infinite else values

    def over(self, group: Group) -> Interval:
        """Mean and confidence interval over a group's seeds."""
        return interval(self.by_seed(group).values())

    def scale(self, values: Iterable[float | int | None]) -> UnitScale:
        """How to write such values, in one unit for all of them."""
        sizes = [abs(float(value)) for value in values if value is not None and not math.isnan(value)]
        if self.column.unit == "number" and all(value.is_integer() for value in sizes):
            return UnitScale(1.0, "", 0)
        return _scale(self.column.unit, max(sizes, default=0.0))


def quantities(kind: str, values: Iterable[float]) -> UnitScale:
    """How to write values of a column's unit, in one unit for all of them."""
    return _scale(kind, max(map(abs, values), default=0.0))


def _scale(kind: str, largest: float) -> UnitScale:
    if kind == "share":
        return UnitScale(0.01, "%", 1)
    if kind == "seconds":
        divisor, unit = next(
            ((d, u) for d, u in ((86400, "d"), (3600, "h"), (60, "min")) if largest >= 3 * d), (1, "s")
        )
        size = largest / divisor
        return UnitScale(divisor, unit, max(0, 2 - int(math.log10(size))) if size >= 1 else 3)
    if kind == "bytes":
        power = min(int(math.log10(max(largest, 1)) // 3), 5)
        return UnitScale(1000.0**power, ("B", "kB", "MB", "GB", "TB", "PB")[power], 1 if power else 0)
    return UnitScale(1.0, "", 0 if kind == "count" else 2)


def measures(study: Study) -> tuple[StudyMeasure, ...]:
    """The measures of a study, the most telling first: every column that one of its runs has, plugins' too."""
    names = dict.fromkeys(name for run in study.runs for name in run.finals)
    known = study.columns
    all_measures = [StudyMeasure(known.get(name) or unknown(name), partial(_final_value, name)) for name in names]
    target, rule = study.target, study.target_rule
    if target is None:
        base = study.group(study.baseline)
        target, rule = baseline_target([[run.summary for run in base.runs]]), target_text(base.label)
    if target is not None:
        share = f"{100 * target:.0f}\u202f%"
        for column in TARGET_COLUMNS:
            texts = {key: getattr(column, key).replace("the target", share).replace("target", share)
                    for key in ("heading", "sentence")}  # fmt: skip
            texts["sentence"] += f" {share} is {rule}." if rule else ""
            all_measures.append(StudyMeasure(column._replace(**texts), partial(_at_target, column.name, target)))
    order = {column.name: place for place, column in enumerate(order_columns(m.column for m in all_measures))}
    return tuple(sorted(all_measures, key=lambda measure: order[measure.name]))


def _final_value(name: str, run: Run) -> float | None:
    return run.finals.get(name)


def _at_target(name: str, target: float, run: Run) -> float | None:
    return run.to_target(target).get(name)


def with_values(study: Study, hidden: bool = False) -> tuple[StudyMeasure, ...]:
    """The measures that tables show, and with ``hidden`` the others, that at least one run has.

    The test loss is shown where there is no accuracy.
    """
    known = [measure for measure in measures(study) if any(measure.of(run) is not None for run in study.runs)]
    known = [measure for measure in known if measure.name != "waiting_s" or any(map(measure.of, study.runs))]
    instead = {"test_loss"} if all(measure.name != "test_accuracy" for measure in known) else set[str]()
    return tuple(measure for measure in known if measure.column.shown or hidden or measure.name in instead)


PROMISED = {column.name for column in GUARANTEES}
"""What theory knows of a policy."""


@dataclass(frozen=True)
class MeasureChange:
    """What another configuration does to a measure.

    In a few words: ``3.1 ± 0.9 points less accuracy``, its name where nothing can be said; and as a verdict: +1 better,
    -1 worse, 0 not significant.
    """

    measure: StudyMeasure
    words: str
    verdict: int


def compare_with_baseline(measure: StudyMeasure, group: Group, baseline: Group, level: float) -> MeasureChange | None:
    """What a group does to a measure against the baseline, None where one has none; p-values up to ``level`` count."""
    ours, theirs = measure.by_seed(group), measure.by_seed(baseline)
    if not ours or not theirs:
        return None
    seeds = common_seeds(measure, group, baseline)
    after, before = (interval(values[seed] for seed in seeds or values).estimate for values in (ours, theirs))
    if measure.name in PROMISED:  # known, not measured
        difference, significant = Interval(after - before, count=len(seeds)), after != before
    else:
        difference, significant = paired_difference(ours, theirs), paired_p_value(measure, group, baseline) <= level
    verdict = int(math.copysign(1, difference.estimate * measure.better)) if significant and measure.better else 0
    some = f" (in {len(ours)} of {len(group.runs)} seeds)" if len(ours) < len(group.runs) else ""
    return MeasureChange(measure, _words(measure, difference, before, after, significant) + some, verdict)


def common_seeds(measure: StudyMeasure, first: Group, second: Group) -> list[int]:
    """The seeds for which both have a value."""
    return sorted(measure.by_seed(first).keys() & measure.by_seed(second).keys())


def paired_p_value(measure: StudyMeasure, first: Group, second: Group) -> float:
    """How probable a mean difference at least so large is between equals, over the seeds that both have."""
    ours, theirs = measure.by_seed(first), measure.by_seed(second)
    seeds = common_seeds(measure, first, second)
    return p_value([ours[seed] for seed in seeds], [theirs[seed] for seed in seeds])


def _words(measure: StudyMeasure, difference: Interval, before: float, after: float, significant: bool) -> str:
    name = measure.noun
    if measure.column.unit == "share":
        points = UnitScale(0.01, "", 1)
        size = points.interval(replace(difference, estimate=abs(difference.estimate)))
        if not significant:
            sign = "+" if difference.estimate > 0 else ""
            return f"{name} ({sign}{points.interval(difference)} points)" if difference.count > 1 else name
        return f"{size} points {'more' if difference.estimate > 0 else 'less'} {name}"
    scale = measure.scale((before, after))
    if not significant:
        return name
    if measure.column.unit in ("seconds", "bytes") and before > 0:
        ratio = after / before
        if ratio >= 2:
            return f"{ratio:.1f} times the {name}"
        return f"{100 * abs(ratio - 1):.0f}\u202f% {'more' if ratio > 1 else 'less'} {name}"
    return f"a {name} of {scale.text(after)} instead of {scale.text(before)}"
