"""The numbers by which runs are judged, and how they are written."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from simfl.compare.measures import common_target
from simfl.report.statistics import Interval, interval
from simfl.report.study import Group, Run, Study

__all__ = ["Measure", "Scale", "measures", "target_of", "with_values"]


@dataclass(frozen=True)
class Scale:
    """How values of a column are written: value / divisor, with so many decimals.

    Attributes:
        unit: "" for plain numbers.
    """

    divisor: float
    unit: str
    decimals: int

    def text(self, value: float | None) -> str:
        """The number without its unit; a dash where there is none."""
        if value is None or math.isnan(value):
            return "–"
        return f"{value / self.divisor:,.{self.decimals}f}".replace("-", "−").replace(",", "\u2009")

    def interval(self, found: Interval) -> str:
        """``mean ± half``, the half only where it is known."""
        half = "" if math.isnan(found.half) else f" ± {self.text(found.half)}"
        return self.text(found.mean) + half

    def quantity(self, value: float | None) -> str:
        """The number with its unit."""
        return self.text(value) + (f"\u202f{self.unit}" if self.unit else "")


@dataclass(frozen=True)
class Measure:
    """A number that every run has, or lacks.

    Attributes:
        name: column of tables.
        label: its heading.
        kind: ``share``, ``seconds``, ``bytes``, ``count`` or ``number``: how it is written.
        better: +1 if more is better, -1 if less is, 0 if neither.
        of: its value for a run, None where the run has none.
        about: what it is, in a sentence.
        words: what a sentence calls it, if not by its label.
    """

    name: str
    label: str
    kind: str
    better: int
    of: Callable[[Run], float | None]
    about: str = ""
    words: str = ""

    @property
    def noun(self) -> str:
        """The label inside a sentence."""
        return self.words or self.label[0].lower() + self.label[1:]

    def by_seed(self, group: Group) -> dict[int, float]:
        """Its values for a group's runs."""
        return {run.seed: value for run in group.runs if (value := self.of(run)) is not None}

    def over(self, group: Group) -> Interval:
        """Mean and confidence interval over a group's seeds."""
        return interval(self.by_seed(group).values())

    def scale(self, values: Iterable[float | int | None]) -> Scale:
        """How to write such values, in one unit for all of them."""
        found = [abs(float(value)) for value in values if value is not None and not math.isnan(value)]
        if self.kind == "number" and all(value.is_integer() for value in found):
            return Scale(1.0, "", 0)
        return _scale(self.kind, max(found, default=0.0))


def _scale(kind: str, largest: float) -> Scale:
    if kind == "share":
        return Scale(0.01, "%", 1)
    if kind == "seconds":
        divisor, unit = next(
            ((d, u) for d, u in ((86400, "d"), (3600, "h"), (60, "min")) if largest >= 3 * d), (1, "s")
        )
        return Scale(divisor, unit, _decimals(largest / divisor))
    if kind == "bytes":
        power = min(int(math.log10(max(largest, 1)) // 3), 5)
        return Scale(1000.0**power, ("B", "kB", "MB", "GB", "TB", "PB")[power], 1 if power else 0)
    return Scale(1.0, "", 0 if kind == "count" else 2)


def _decimals(largest: float) -> int:
    return max(0, 2 - int(math.log10(largest))) if largest >= 1 else 3


def _final(name: str, run: Run) -> float | None:
    value = run.summary.get(name)
    return None if value is None else float(value)


def _bytes(run: Run) -> float | None:
    down, up = _final("bytes_down", run), _final("bytes_up", run)
    return None if down is None or up is None else down + up


def _reached(column: str, target: float, run: Run) -> float | None:
    """The column's value in the first round in which the accuracy is at the target."""
    at = (run.rounds["test_accuracy"] >= target).to_numpy()
    return float(run.rounds[column].iloc[at.argmax()]) if at.any() else None


def _rounds_to(target: float, run: Run) -> float | None:
    found = _reached("round", target, run)
    return None if found is None else found + 1


def _bytes_to(target: float, run: Run) -> float | None:
    last = _reached("round", target, run)
    spent = run.rounds.loc[run.rounds["round"] <= last, ["bytes_down", "bytes_up"]] if last is not None else None
    return None if spent is None else float(spent.sum().sum())


def target_of(study: Study) -> float | None:
    """The study's target accuracy, else the highest whole per cent that every run reached; None without accuracies."""
    return common_target([run.summary for run in study.runs]) if study.target is None else study.target


def measures(study: Study) -> tuple[Measure, ...]:
    """The measures of a study, the most telling first; the target is one that all of its runs reach."""
    target = target_of(study)
    reach: tuple[Measure, ...] = ()
    if target is not None:
        share = f"{100 * target:.0f}\u202f%"
        reach = (
            Measure("time_to_target_s", f"Time to {share}", "seconds", -1, partial(_reached, "time_s", target),
                    f"Simulated time until the test accuracy is {share}."),
            Measure("rounds_to_target", f"Rounds to {share}", "count", -1, partial(_rounds_to, target),
                    f"Rounds until the test accuracy is {share}, skipped ones included."),
            Measure("bytes_to_target", f"Traffic to {share}", "bytes", -1, partial(_bytes_to, target),
                    f"Bytes sent by the server and the clients until the test accuracy is {share}."),
        )  # fmt: skip
    final = [
        Measure("test_accuracy", "Accuracy", "share", 1, partial(_final, "test_accuracy"),
                "Test accuracy of the model after the last round."),
        Measure("best_test_accuracy", "Best accuracy", "share", 1, partial(_final, "best_test_accuracy"),
                "Highest test accuracy after any round."),
        *reach,
        Measure("time_s", "Simulated time", "seconds", -1, partial(_final, "time_s"), "Simulated time of all rounds."),
        Measure("privacy_semi_strong", "Semi-strong", "number", 1, partial(_final, "privacy_semi_strong"),
                "Fewest clients behind which each one hides in every linear combination, weighted.",
                words="semi-strong guarantee"),
        Measure("privacy_weak_lower", "Weak", "number", 1, partial(_final, "privacy_weak_lower"),
                "Fewest clients in any linear combination of the aggregates; a lower bound where not exact.",
                words="weak guarantee"),
        Measure("privacy_strong", "Strong", "number", 1, partial(_final, "privacy_strong"),
                "Smallest set of clients that always took part together.", words="strong guarantee"),
        Measure("mean_cardinality", "Cardinality", "number", 1, partial(_final, "mean_cardinality"),
                "Updates aggregated per round, mean over all rounds."),
        Measure("expected_cardinality", "Expected", "number", 0, partial(_final, "expected_cardinality"),
                "Cardinality that theory expects of the selection alone."),
        Measure("fairness_gap", "Fairness gap", "number", -1, partial(_final, "fairness_gap"),
                "Largest minus smallest share of the rounds in which a client took part."),
        Measure("skipped", "Skipped rounds", "count", -1, partial(_final, "skipped"),
                "Rounds in which nothing was aggregated."),
        Measure("bytes", "Traffic", "bytes", -1, _bytes, "Bytes sent by the server and by the clients."),
    ]  # fmt: skip
    return tuple(final)


def with_values(study: Study) -> tuple[Measure, ...]:
    """The measures that at least one run has."""
    return tuple(m for m in measures(study) if any(m.of(run) is not None for run in study.runs))
