"""The numbers by which runs are judged, and how they are written."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from simfl.core.columns import TARGET_COLUMNS, Column, order_columns, unknown
from simfl.experiments.compare.intervals import Interval
from simfl.experiments.compare.run_numbers import common_target
from simfl.report.finished_run import Run
from simfl.report.seed_intervals import interval
from simfl.report.study import Group, Study

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
        return UnitScale(divisor, unit, _decimals(largest / divisor))
    if kind == "bytes":
        power = min(int(math.log10(max(largest, 1)) // 3), 5)
        return UnitScale(1000.0**power, ("B", "kB", "MB", "GB", "TB", "PB")[power], 1 if power else 0)
    return UnitScale(1.0, "", 0 if kind == "count" else 2)


def _decimals(largest: float) -> int:
    return max(0, 2 - int(math.log10(largest))) if largest >= 1 else 3


def measures(study: Study) -> tuple[StudyMeasure, ...]:
    """The measures of a study, the most telling first: every column that one of its runs has, plugins' too."""
    names = dict.fromkeys(name for run in study.runs for name in run.finals)
    known = study.columns
    all_measures = [StudyMeasure(known.get(name) or unknown(name), partial(_final_value, name)) for name in names]
    target = common_target([run.summary for run in study.runs]) if study.target is None else study.target
    if target is not None:
        share = f"{100 * target:.0f}\u202f%"
        for column in TARGET_COLUMNS:
            texts = {key: getattr(column, key).replace("the target", share).replace("target", share)
                    for key in ("heading", "sentence")}  # fmt: skip
            all_measures.append(StudyMeasure(column._replace(**texts), partial(_at_target, column.name, target)))
    order = {column.name: place for place, column in enumerate(order_columns(m.column for m in all_measures))}
    return tuple(sorted(all_measures, key=lambda measure: order[measure.name]))


def _final_value(name: str, run: Run) -> float | None:
    return run.finals.get(name)


def _at_target(name: str, target: float, run: Run) -> float | None:
    return run.to_target(target).get(name)


def with_values(study: Study, hidden: bool = False) -> tuple[StudyMeasure, ...]:
    """The measures that tables show, and with ``hidden`` the others, that at least one run has."""
    known = (measure for measure in measures(study) if measure.column.shown or hidden)
    return tuple(measure for measure in known if any(measure.of(run) is not None for run in study.runs))
