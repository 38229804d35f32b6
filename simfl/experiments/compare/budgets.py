"""Runs side by side after they have spent the same: as many rounds, seconds, client updates or bytes."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simfl.core.columns import COLLUDER_COLUMNS, ROUND_COLUMNS, Column
from simfl.experiments.compare.run_numbers import measures
from simfl.privacy.ledger.ledger_scope import LEDGER_COLUMNS
from simfl.results.run_files import summarise

BUDGETS = {"rounds": "rounds", "time": "time_s", "updates": "client_updates", "bytes": "bytes"}
"""What can be spent, and the column that tells how much was."""

OPPOSITE = [
    *(column.name for column in (*ROUND_COLUMNS, *COLLUDER_COLUMNS) if column.name.startswith("privacy_weak_upper")),
    *(column.name for column in LEDGER_COLUMNS if column.name.endswith("_lower")),
]
"""The other bounds of guarantees and of signals to noise: a value that was computed earlier still holds."""


def _only_worse(column: Column) -> bool:
    """Whether it never gets better: where it was not computed, the next value holds, and the one before may not."""
    return (column.name.startswith("privacy_") or column.final == "end") and column.name not in OPPOSITE


@dataclass(frozen=True)
class Course:
    """What a run had spent, round by round.

    Attributes:
        rounds: its ``rounds.csv``.
        columns: of this table.
        spent: by the name of a budget, what had been spent after each round, float64 (rounds,); never falling.
    """

    rounds: Path
    columns: tuple[Column, ...]
    spent: dict[str, NDArray[np.float64]]

    @classmethod
    def read(cls, rounds: Path, columns: Iterable[Column]) -> "Course":
        """From a ``rounds.csv`` that has been checked, and all columns that the run may have."""
        with open(rounds, newline="", encoding="utf-8") as file:
            table = csv.DictReader(file)
            names = set(table.fieldnames or ())
            numbers = ("cardinality", "bytes_down", "bytes_up")
            each = [(1, float(row["time_s"]), *(int(row[name] or 0) for name in numbers)) for row in table]
        spent_at, times, updates, down, up = np.array(each, dtype=np.float64).reshape(-1, 5).T
        spent = {"rounds": spent_at.cumsum(), "time": times, "updates": updates.cumsum(), "bytes": (down + up).cumsum()}
        return cls(rounds, tuple(c for c in columns if (c.source or c.name) in names), spent)

    def at(self, budgets: Mapping[str, float]) -> dict[str, dict[str, float]]:
        """For each budget the run's numbers when it had spent at most so much of it, by name.

        They are what :func:`simfl.results.run_files.summarise` gives for these rounds, with the last measurement not
        after them (for guarantees, and all that never gets better, the first value computed in or after the last of
        these rounds), and what was spent of every budget. Nothing where the first round costs more.
        """
        with open(self.rounds, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return {budget: self._after(rows, budget, value) for budget, value in budgets.items()}

    def _after(self, rows: Sequence[Mapping[str, object]], budget: str, value: float) -> dict[str, float]:
        count = int(np.searchsorted(self.spent[budget], value, side="right"))
        if not count:
            return {}
        values_at = measures(summarise(rows[:count], self.columns))
        summed = any(float(str(row["cardinality"] or 0)) for row in rows[:count])
        for column in self.columns if summed else ():
            name = column.name
            if _only_worse(column):
                cell = next((row[name] for row in rows[count - 1 :] if row[name]), None)
            elif name in OPPOSITE:
                cell = next((row[name] for row in rows[count - 1 :: -1] if row.get("privacy_weak_lower")), None)
            else:
                continue
            if cell:
                values_at[name] = float(str(cell))
        values_at |= {column: float(self.spent[name][count - 1]) for name, column in BUDGETS.items()}
        return {name: value for name, value in values_at.items() if isfinite(value)}


def affordable(courses: Iterable[Course]) -> dict[str, float]:
    """For each budget the most that every run has spent; left out where one has spent nothing."""
    courses = list(courses)
    smallest = {name: min((float(curve.spent[name][-1]) for curve in courses), default=0.0) for name in BUDGETS}
    return {name: value for name, value in smallest.items() if value > 0}
