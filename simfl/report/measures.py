"""The numbers by which runs are judged, and how they are written."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.columns import GUARANTEES, TARGET_COLUMNS, Column, order_columns, unknown
from simfl.core.json_data import JsonObject
from simfl.experiments.compare.differences import difference_rows
from simfl.experiments.compare.intervals import Interval, student_ends
from simfl.experiments.compare.run_numbers import baseline_target, target_text
from simfl.experiments.compare.shapes import FEWEST_RUNS, collapse_sentence, find_collapses, mean_intervals, premises
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
    """Mean and interval of independent values, the only ones of their measure; None and NaN are left out."""
    numbers = _present(dict(enumerate(values)))
    return group_intervals({"": numbers}).get("", Interval(float("nan")))


def _present(values: Mapping[int, float | None]) -> dict[int, float]:
    return {seed: float(value) for seed, value in values.items() if value is not None and not np.isnan(value)}


def group_intervals(samples: Mapping[str, Mapping[int, float]]) -> dict[str, Interval]:
    """Mean and interval of each group's values by seed, in the light of the others'; groups without any have none."""
    samples = {label: values for label, values in samples.items() if values}
    arrays = [np.array([*values.values()]) for values in samples.values()]
    return dict(zip(samples, mean_intervals(arrays, bool(find_collapses(samples))), strict=True))


def over_rounds(group: Group, column: str) -> "DataFrame":
    """A column of ``rounds.csv`` against the round, from 0 as there; rows: round, mean, low, high (Student's interval),
    runs and, of few seeds or where one of less than ten has collapsed in the end, ``seed_0`` and so on.

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

    ends = dict(enumerate(values[:, -1].tolist())) if values.size else {}
    lone = 1 < len(values) < FEWEST_RUNS and bool(find_collapses({group.label: ends}))
    low, high = student_ends(values.T) if len(values) > 1 and not lone else (np.nan, np.nan)
    table = DataFrame({x: places, "mean": values.mean(axis=0), "low": low, "high": high, "runs": len(values)})
    if few_seeds(group) or lone:
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
    """A number ``of`` every run, None where a run has none; ``groups`` are all that are compared in it."""

    column: Column
    of: Callable[[Run], float | None]
    groups: tuple[Group, ...] = field(default=(), compare=False, repr=False)

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

    @cached_property
    def samples(self) -> dict[str, dict[int, float]]:
        """The values of those groups that have any, by label and seed."""
        samples = {group.label: _present(self.by_seed(group)) for group in self.groups}
        return {label: values for label, values in samples.items() if values}

    @cached_property
    def collapses(self) -> dict[str, list[int]]:
        """By label, the seeds whose values lie far from all others of their group."""
        return find_collapses(self.samples)

    @cached_property
    def _means(self) -> dict[str, Interval]:
        return group_intervals(self.samples)

    def over(self, group: Group) -> Interval:
        """Mean and confidence interval over a group's seeds; no ends where a run has collapsed and seeds are few."""
        return self._means.get(group.label) or interval(self.by_seed(group).values())

    def shows_dots(self, group: Group) -> bool:
        """Whether figures draw the group's seeds by themselves: they are few, or there is no interval."""
        mean = self.over(group)
        return few_seeds(group) or (mean.count > 1 and mean.lower is None)

    def against(self, group: Group, baseline: Group) -> tuple[Interval, float]:
        """The mean difference over the seeds that both have, and how probable such a large one is between equals."""
        rows = self._beside.get(baseline.label)
        if rows is None:
            ours = {each.label: _present(self.by_seed(each)) for each in self.groups or (group,)}
            rows = self._beside[baseline.label] = dict(
                difference_rows(ours, _present(self.by_seed(baseline)), bool(self.collapses))
            )
        if (row := rows.get(group.label)) is None:
            return Interval(float("nan")), 1.0
        return Interval(row["difference"], row["lower"], row["upper"], row["pairs"]), row["p_value"]

    @cached_property
    def _beside(self) -> dict[str, dict[str, JsonObject]]:
        return {}

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
    all_measures = [
        StudyMeasure(known.get(name) or unknown(name), partial(_final_value, name), study.groups) for name in names
    ]
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
            all_measures.append(
                StudyMeasure(column._replace(**texts), partial(_at_target, column.name, target), study.groups)
            )
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


def spread_sentences(study: Study) -> list[str]:
    """What intervals take for granted, and which runs have collapsed; nothing of studies of one seed."""
    if study.seeds < 2:
        return []
    sentences = [premises(study.seeds)]
    for measure in with_values(study):
        if far := measure.collapses:
            scale = measure.scale(value for values in measure.samples.values() for value in values.values())
            written = {label: {seed: scale.quantity(values[seed]) for seed in sorted(values, key=lambda s: values[s])}
                       for label, values in measure.samples.items()}  # fmt: skip
            sentences.append(f"{collapse_sentence(measure.label, written, far)}.")
    return sentences


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
    seeds = sorted(ours.keys() & theirs.keys())
    after, before = (interval(values[seed] for seed in seeds or values).estimate for values in (ours, theirs))
    if measure.name in PROMISED:  # known, not measured
        difference, significant = Interval(after - before, count=len(seeds)), after != before
    else:
        difference, p = measure.against(group, baseline)
        significant = p <= level
    verdict = int(math.copysign(1, difference.estimate * measure.better)) if significant and measure.better else 0
    some = f" (in {len(ours)} of {len(group.runs)} seeds)" if len(ours) < len(group.runs) else ""
    return MeasureChange(measure, _words(measure, difference, before, after, significant) + some, verdict)


def _words(measure: StudyMeasure, difference: Interval, before: float, after: float, significant: bool) -> str:
    name = measure.noun
    if not significant:
        return f"{name}{_limits(measure, difference)}"
    if measure.column.unit == "share":
        points = UnitScale(0.01, "", 1)
        size = points.interval(difference).removeprefix("−")
        return f"{size} points {'more' if difference.estimate > 0 else 'less'} {name}"
    scale = measure.scale((before, after))
    if measure.column.unit in ("seconds", "bytes") and before > 0:
        ratio = after / before
        if ratio >= 2:
            return f"{ratio:.1f} times the {name}"
        return f"{100 * abs(ratio - 1):.0f}\u202f% {'more' if ratio > 1 else 'less'} {name}"
    return f"a {name} of {scale.text(after)} instead of {scale.text(before)}"


def _limits(measure: StudyMeasure, difference: Interval) -> str:
    """What a difference that is not significant may be, in brackets; nothing of a single pair."""
    if difference.count < 2:
        return ""
    if difference.lower is None:
        return " (no interval: runs have collapsed)"
    scale = measure.scale((difference.estimate, difference.half_width))
    if measure.column.unit == "share":
        scale = UnitScale(0.01, "points", 1)
    sign = "+" if difference.estimate > 0 else ""
    return f" ({sign}{scale.interval(difference)}{' ' * bool(scale.unit)}{scale.unit})"
