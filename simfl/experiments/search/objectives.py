"""What a search is for: ``--maximise test_accuracy --minimise time_s --require "privacy_weak>=4"``; its runs."""

import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from simfl.core.columns import ROUND_COLUMNS, SUMMARY_COLUMNS
from simfl.core.errors import SimflError, suggestion
from simfl.core.json_data import number_of
from simfl.experiments.search.space import Space
from simfl.experiments.sweep.task import DONE
from simfl.results.tables import csv_bytes
from simfl.scenario import Scenario
from simfl.scenario.column_owners import plugin_columns

ALSO_CALLED = {"privacy_weak": "privacy_weak_lower"}
COMPARED = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_REQUIREMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*(>=|<=|>|<)\s*(\S+)\s*")

MISSED, LEAST = 1e9, 1e-9
"""How far a run without a value is from meeting a requirement; and at least one that does not meet it."""

Numbers = Mapping[str, float]
"""Final values of a run by name, as :func:`simfl.experiments.compare.run_numbers.measures` gives them."""


@dataclass(frozen=True)
class Objective:
    """A number to be made large (``sign`` 1) or small (-1)."""

    name: str
    sign: int

    def value(self, numbers: Numbers) -> float | None:
        """Of a run; None where it has none that is finite."""
        value = numbers.get(self.name, math.nan)
        return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Requirement:
    """A bound that a number of a run must keep."""

    name: str
    sign: str
    bound: float

    def __str__(self) -> str:
        return f"{self.name}{self.sign}{self.bound:g}"

    def violation(self, numbers: Numbers) -> float:
        """How far a run is from it, relative to the bound if that is beyond 1; 0 where it is met."""
        value = numbers.get(self.name, math.nan)
        if COMPARED[self.sign](value, self.bound):
            return 0.0
        far = abs(value - self.bound) / max(1.0, abs(self.bound))
        return max(far, LEAST) if math.isfinite(far) else MISSED


@dataclass(frozen=True)
class Goal:
    """What a search is for.

    Attributes:
        objectives: at least one.
        requirements: which runs are feasible.
    """

    objectives: tuple[Objective, ...]
    requirements: tuple[Requirement, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The numbers that matter, each once."""
        required = [requirement.name for requirement in self.requirements]
        return tuple(dict.fromkeys([*(objective.name for objective in self.objectives), *required]))

    def dominates(self, one: Sequence[float], other: Sequence[float]) -> bool:
        """Whether values are nowhere worse than others, and better somewhere."""
        signed = [(o.sign * a, o.sign * b) for o, a, b in zip(self.objectives, one, other, strict=True)]
        return all(a >= b for a, b in signed) and any(a > b for a, b in signed)

    def front(self, values: Mapping[int, Sequence[float]]) -> list[int]:
        """The numbers of those that no other dominates, ascending; of a single objective, the first of the best."""
        best = [number for number, one in values.items()
                if not any(self.dominates(other, one) for other in values.values())]  # fmt: skip
        return sorted(best) if len(self.objectives) > 1 else sorted(best)[:1]


def goal(maximise: Iterable[str], minimise: Iterable[str], require: Iterable[str], scenario: Scenario) -> Goal:
    """The goal, its numbers known to a scenario.

    Raises:
        SimflError: there is no objective, a number is unknown or comes twice, or a requirement has another form.
    """
    known = _known(scenario)
    objectives = [Objective(_name(name, known), sign) for names, sign in ((maximise, 1), (minimise, -1))
                  for name in names]  # fmt: skip
    if not objectives:
        raise SimflError("a search has a goal, e.g. --maximise test_accuracy or --minimise time_s")
    names = [objective.name for objective in objectives]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SimflError(f"{twice}: to be maximised or minimised once")
    return Goal(tuple(objectives), tuple(_requirement(text, known) for text in require))


def _requirement(text: str, known: Sequence[str]) -> Requirement:
    match = _REQUIREMENT.fullmatch(text)
    bound = number_of(match[3], math.nan) if match else math.nan
    if match is None or not math.isfinite(bound):
        raise SimflError(f"--require {text}: a number, >=, <=, > or <, and its bound, e.g. 'privacy_weak>=4'")
    return Requirement(_name(match[1], known), match[2], bound)


def _known(scenario: Scenario) -> list[str]:
    """The names of the final values that a run of a scenario may have."""
    columns = [column.name for column in (*ROUND_COLUMNS, *plugin_columns(scenario)) if column.final]
    finals = [column.name for plugin in (*scenario.attacks, *scenario.metrics) for column in plugin.finals]
    return [*columns, *finals, *(column.name for column in SUMMARY_COLUMNS)]


def _name(name: str, known: Sequence[str]) -> str:
    full_name = ALSO_CALLED.get(name.strip(), name.strip())
    if full_name not in known:
        parts = [each for each in (*ALSO_CALLED, *known) if full_name and f"_{full_name}" in each]
        near = f"; did you mean {' or '.join(map(repr, parts[:3]))}?" if parts else suggestion(full_name, known)
        near = near or "; docs/reference/columns.md lists them"
        raise SimflError(f"{name}: no final value of a run{near}")
    return full_name


EMPTY = "empty"
"""A run is complete without a value of an objective; else it is ``done``, ``failed`` or ``pruned``."""


@dataclass(frozen=True)
class Trial:
    """One run of a search.

    Attributes:
        number: from 0, in the order of the proposals.
        values: of the parameters, as texts.
        digest: names the run's folder.
        state: ``done``, ``failed``, ``pruned`` or ``empty``.
        numbers: final values of a complete run that the goal names.
        violations: of the requirements, 0 where one is met; of a complete run.
        note: why it failed, or where it was stopped.
    """

    number: int
    values: tuple[str, ...]
    digest: str
    state: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    violations: tuple[float, ...] = ()
    note: str = ""

    @property
    def feasible(self) -> bool:
        """Whether it is complete and meets every requirement."""
        return self.state == DONE and not any(self.violations)


def best(goal: Goal, trials: Sequence[Trial]) -> list[Trial]:
    """The best feasible trial or, of several objectives, all feasible ones that no other dominates."""
    values = {trial.number: [trial.numbers[o.name] for o in goal.objectives] for trial in trials if trial.feasible}
    front = goal.front(values)
    return [trial for trial in trials if trial.number in front]


def nearest(trials: Sequence[Trial]) -> Trial | None:
    """The complete trial that misses the requirements by least; None where none is complete."""
    return min((t for t in trials if t.state == DONE), key=lambda t: (sum(t.violations), t.number), default=None)


def trial_columns(space: Space, goal: Goal) -> list[str]:
    """The columns of ``search.csv``."""
    keys = [parameter.key for parameter in space.parameters]
    return ["number", *keys, *goal.names, "feasible", "best", "state", "run", "note"]


def trial_rows(space: Space, goal: Goal, trials: Sequence[Trial]) -> list[list[object]]:
    """The rows of ``search.csv``."""
    chosen = best(goal, trials)
    return [
        [t.number, *t.values, *(t.numbers.get(name) for name in goal.names), int(t.feasible), int(t in chosen), t.state,
         t.digest, t.note]
        for t in trials
    ]  # fmt: skip


def trials_csv(space: Space, goal: Goal, trials: Sequence[Trial]) -> bytes:
    """The content of ``search.csv``."""
    return csv_bytes([trial_columns(space, goal), *trial_rows(space, goal, trials)])


def rank(goal: Goal, trials: Sequence[Trial]) -> list[Trial]:
    """The trials, the best first: those of the front, feasible ones by the first objective, then the others."""
    chosen, first = best(goal, trials), goal.objectives[0]

    def place(trial: Trial) -> tuple[bool, bool, float, float, int]:
        value = first.sign * trial.numbers.get(first.name, -first.sign * float("inf"))
        return trial not in chosen, trial.state != DONE, sum(trial.violations), -value, trial.number

    return sorted(trials, key=place)


def table_text(space: Space, goal: Goal, trials: Sequence[Trial], rows_shown: int) -> list[str]:
    """The best trials as lines for a terminal."""
    chosen = best(goal, trials)
    columns = ["number", *(p.key for p in space.parameters), *goal.names, "feasible", "best", "state"]
    rows = [
        [str(t.number), *t.values, *(f"{t.numbers[n]:.6g}" if n in t.numbers else "–" for n in goal.names),
         "yes" if t.feasible else "no", "*" if t in chosen else "", t.state]
        for t in rank(goal, trials)[:rows_shown]
    ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (columns, *rows)]
