"""What is compared: the numbers of one finished run."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.columns import COLLUDER_COLUMNS, ROUND_COLUMNS, TARGET_COLUMNS, Column
from simfl.privacy.ledger.ledger_scope import LEDGER_COLUMNS
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import read_rows, summarise

NO_RESULT = {"name", "digest", "seed", "clients"}
"""Numbers in a summary that were chosen, not measured."""


def measures(summary: Mapping[str, object], rows: Iterable[Mapping[str, Any]] | None = None) -> dict[str, float]:
    """The final values of a run, by name, all its ``bytes`` and :data:`simfl.core.columns.DERIVED_COLUMNS`.

    What does not apply to it is left out.

    Args:
        summary: of the run.
        rows: its ``rounds.csv``, of text or numbers, for what the summary does not say; None = not known.
    """
    lines = {
        name: float(value)
        for name, value in summary.items()
        if name not in NO_RESULT and isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    if "bytes_down" in lines and "bytes_up" in lines:
        lines["bytes"] = lines["bytes_down"] + lines["bytes_up"]
    summed = lines.get("rounds", 0.0) - lines.get("skipped", 0.0)
    if "skipped" in lines:
        lines["aggregations"] = summed
    if rows is not None and (waited_s := waiting_s(rows)) is not None:
        lines["waiting_s"] = waited_s
    if summed > 0 and "mean_cardinality" in lines and not summary.get("observers"):  # a round is one server's sum
        lines["clients_in_sum"] = lines["mean_cardinality"] * lines["rounds"] / summed
        clients = summary.get("clients")
        if "fairness_gap" in lines and isinstance(clients, int):
            chance = chance_range(clients, int(summed), min(1.0, lines["clients_in_sum"] / clients)) / lines["rounds"]
            lines["fairness_excess"] = lines["fairness_gap"] - chance
    return lines


def measures_of(results: ResultsFolder) -> dict[str, float]:
    """The :func:`measures` of a finished run.

    Raises:
        IntegrityError: its rounds.csv is damaged.
    """
    return measures(results.summary, read_rows(results.file("rounds.csv")) if "rounds.csv" in results else None)


def waiting_s(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """Simulated seconds of the rounds that summed nothing; None where updates may be stale: such rounds overlap.

    Args:
        rows: of ``rounds.csv``, of text or numbers, from the first.
    """
    before, lengths_s = 0.0, []
    for row in rows:
        if row.get("staleness_mean") not in (None, ""):
            return None
        ended_s = float(row["time_s"])
        lengths_s += [ended_s - before] * (not float(row["cardinality"] or 0))
        before = ended_s
    return math.fsum(lengths_s)


def chance_range(clients: int, sums: int, share: float) -> float:
    """Expected difference between the most and the fewest sums that any client is in, where chance alone decides.

    Each client is in each sum with the same probability, so that their numbers of sums are binomial. The expected range
    of n independent values with distribution function F is the sum of 1 - F^n - (1 - F)^n (L. H. C. Tippett, Biometrika
    17, 1925). Sums of fixed sizes correlate two clients by -1 / (n - 1), which widens all differences by the root of
    n / (n - 1).

    Args:
        clients: n.
        sums: how many.
        share: of the clients, mean over the sums.
    """
    from scipy.special import bdtr

    below = bdtr(np.arange(sums), sums, share)
    return float(np.sum(1 - below**clients - (1 - below) ** clients)) * math.sqrt(clients / max(1, clients - 1))


FEW = 0.1
"""Share of skipped rounds, or of the time that they took, from which on words say so."""


def skipped_text(numbers: Mapping[str, float]) -> str:
    """In words, how many rounds were skipped and how much of the time they took; empty of few.

    Args:
        numbers: means or totals of ``skipped``, ``rounds``, ``waiting_s`` and ``time_s``, as far as they are known.
    """
    skipped, rounds = (numbers.get(name, 0.0) for name in ("skipped", "rounds"))
    waited_s, time_s = (numbers.get(name, 0.0) for name in ("waiting_s", "time_s"))
    if not skipped or (skipped < FEW * rounds and (not waited_s or waited_s < FEW * time_s)):
        return ""
    text = f"skipped {skipped:.4g} of {rounds:.4g} rounds: nothing was aggregated in them"
    text += "; its model is untrained" * (skipped == rounds)
    if waited_s:
        each = f"{waited_s / skipped:.4g} s each (training.skipped_round_s, or until a sum was given up)"
        text += f"; of {time_s:.4g} s of simulated time {waited_s:.4g} passed waiting in them, {each}"
    return text


def unequal_sums(aggregations: Mapping[str, float | None]) -> str:
    """In words, that configurations learn from unequal numbers of sums, by label; empty if these hardly differ."""
    known = {label: count for label, count in aggregations.items() if count is not None}
    if not known or max(known.values()) - min(known.values()) <= FEW * max(known.values()):
        return ""
    least, most = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    counts = f"{known[least]:.4g} ({least}) to {known[most]:.4g} ({most})"
    return f"runs have {counts} sums each, and who has more has learned longer; training.aggregations makes them equal"


def without_infinite(
    results: Mapping[int, Mapping[str, float]], columns: Mapping[str, Column]
) -> dict[int, dict[str, float]]:
    """A configuration's numbers, by seed and name, without those that are infinite in some of its runs: so is the mean.

    Args:
        results: of every run of the configuration.
        columns: by name.
    """
    every = dict.fromkeys(name for numbers in results.values() for name in numbers)
    shown = [name for name in every if name not in columns or not columns[name].may_be_infinite
             or all(name in numbers for numbers in results.values())]  # fmt: skip
    return {seed: {name: numbers[name] for name in shown if name in numbers} for seed, numbers in results.items()}


def divergence_text(rounds: Sequence[int], runs: int) -> str:
    """In words, in which rounds, ascending, how many of a configuration's runs diverged."""
    if runs == 1:
        return f"diverged at round {rounds[0]}: a loss is no finite number"
    when = f"round {rounds[0]}" if rounds[0] == rounds[-1] else f"rounds {rounds[0]} to {rounds[-1]}"
    return f"diverged in {len(rounds)} of {runs} seeds, at {when}: a loss is no finite number; it is never best"


TARGET_SHARE = 0.95
"""Of what the baseline's best model is right on, mean over its runs: the target accuracy, if nobody gives one."""


def baseline_target(worlds: Iterable[Sequence[Mapping[str, Any]]]) -> float | None:
    """The highest whole per cent of test accuracy not above :data:`TARGET_SHARE` of what the baseline reaches.

    No other configuration has a say: which others are compared changes nobody's time to the target. A baseline of
    several worlds has one target, of the world in which it reaches least. Runs that diverged have no say, and neither
    has a world in which the target does not lie above what needs no training (``no_skill_accuracy``: the untrained
    model, or the commonest class).

    Args:
        worlds: the summaries of the baseline's runs, by world.

    Returns:
        None where a run has no accuracy, or the baseline has learned in no world.
    """
    targets = []
    for summaries in worlds:
        left = [summary for summary in summaries if summary.get("diverged_round") is None]
        best = [summary.get("best_test_accuracy") for summary in left]
        if None in best:
            return None
        mean = math.fsum(float(value or 0) for value in best) / max(1, len(best))
        target = math.floor(100 * TARGET_SHARE * mean + 1e-9) / 100
        targets += [target] * (target > max(map(_no_skill, left), default=0.0))
    return min(targets, default=None)


def target_text(baseline: str) -> str:
    """In words, what :func:`baseline_target` is."""
    return f"{100 * TARGET_SHARE:g} % of the best of {baseline}, mean over its runs"


def _no_skill(summary: Mapping[str, Any]) -> float:
    """The accuracy that a run shows to need no training; a run that skipped every round has an untrained model."""
    untrained = summary.get("skipped") is not None and summary.get("skipped") == summary.get("rounds")
    best = float(summary["best_test_accuracy"]) if untrained else 0.0
    return max(float(summary.get("no_skill_accuracy") or 0.0), best)


def to_target(rounds: Path, target: float) -> dict[str, float]:
    """Rounds, simulated seconds and bytes (down and up) until the test accuracy first reaches ``target``.

    Args:
        rounds: the ``rounds.csv`` of a finished run.
        target: test accuracy.

    Returns:
        Values of :data:`simfl.core.columns.TARGET_COLUMNS`; nothing where the run never reaches it.
    """
    total = 0
    with open(rounds, newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 1):
            total += int(row["bytes_down"] or 0) + int(row["bytes_up"] or 0)
            if row["test_accuracy"] and float(row["test_accuracy"]) >= target:
                reached = {"time_to_target_s": row["time_s"], "rounds_to_target": number, "bytes_to_target": total}
                return {column.name: float(reached[column.name]) for column in TARGET_COLUMNS}
    return {}


BUDGETS = {"rounds": "rounds", "aggregations": "aggregations", "time": "time_s", "updates": "client_updates",
           "bytes": "bytes"}  # fmt: skip
"""What can be spent, and the column that tells how much was."""

OPPOSITE = [
    *(column.name for column in (*ROUND_COLUMNS, *COLLUDER_COLUMNS) if column.name.startswith("privacy_weak_upper")),
    *(column.name for column in LEDGER_COLUMNS if column.name.endswith("_lower")),
]
"""The other bounds of guarantees and of signals to noise: a value that was computed earlier still holds."""


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
        spent = {"rounds": spent_at.cumsum(), "aggregations": (updates > 0).cumsum().astype(np.float64), "time": times,
                 "updates": updates.cumsum(), "bytes": (down + up).cumsum()}  # fmt: skip
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
        values_at = measures(summarise(rows[:count], self.columns), rows[:count])
        summed = any(float(str(row["cardinality"] or 0)) for row in rows[:count])
        for column in self.columns if summed else ():
            name = column.name
            if (name.startswith("privacy_") or column.final == "end") and name not in OPPOSITE:  # never gets better
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
    """For each budget the most that every run has spent, so that any run may lower it; left out where one has spent
    nothing.
    """
    courses = list(courses)
    smallest = {name: min((float(curve.spent[name][-1]) for curve in courses), default=0.0) for name in BUDGETS}
    return {name: value for name, value in smallest.items() if value > 0}
