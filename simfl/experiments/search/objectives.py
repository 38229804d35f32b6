"""What a search is for: ``--maximise test_accuracy --minimise time_s --require "privacy_weak>=4"``."""

import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from simfl.core.columns import ROUND_COLUMNS, SUMMARY_COLUMNS
from simfl.core.errors import SimflError, suggestion
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
    try:
        bound = float(match[3]) if match else math.nan
    except ValueError:
        bound = math.nan
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
