"""What became of the runs of a search, and the table of them, ``search.csv``."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simfl.experiments.search.objectives import Goal
from simfl.experiments.search.space import Space

DONE, FAILED, PRUNED, EMPTY = "done", "failed", "pruned", "empty"
"""A run is complete, has failed, was stopped early, or is complete without a value of an objective."""


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


def header(space: Space, goal: Goal) -> list[str]:
    """The columns of ``search.csv``."""
    keys = [parameter.key for parameter in space.parameters]
    return ["number", *keys, *goal.names, "feasible", "best", "state", "run", "note"]


def table(space: Space, goal: Goal, trials: Sequence[Trial]) -> list[list[object]]:
    """The rows of ``search.csv``."""
    chosen = best(goal, trials)
    return [
        [t.number, *t.values, *(t.numbers.get(name) for name in goal.names), int(t.feasible), int(t in chosen), t.state,
         t.digest, t.note]
        for t in trials
    ]  # fmt: skip


def csv_bytes(space: Space, goal: Goal, trials: Sequence[Trial]) -> bytes:
    """The content of ``search.csv``."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header(space, goal))
    writer.writerows(table(space, goal, trials))
    return text.getvalue().encode()


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
