"""What is compared: the numbers of one finished run."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from simfl.core.columns import TARGET_COLUMNS, Column

NO_RESULT = {"name", "digest", "seed", "clients"}
"""Numbers in a summary that were chosen, not measured."""


def measures(summary: Mapping[str, object]) -> dict[str, float]:
    """The final values of a run, by name, and all its ``bytes``; what does not apply to it is left out."""
    lines = {
        name: float(value)
        for name, value in summary.items()
        if name not in NO_RESULT and isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    if "bytes_down" in lines and "bytes_up" in lines:
        lines["bytes"] = lines["bytes_down"] + lines["bytes_up"]
    return lines


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


def common_target(summaries: Iterable[Mapping[str, Any]]) -> float | None:
    """The highest whole per cent of test accuracy that every run which learned something has reached.

    A run has learned where its best whole per cent lies above what needs no training (``no_skill_accuracy``: the
    untrained model, or the commonest class), in all runs. One that has not never reaches the target. Runs that
    diverged have no say.

    Returns:
        None where a run has no accuracy, or none has learned.
    """
    summaries = [summary for summary in summaries if summary.get("diverged_round") is None]
    best = [summary.get("best_test_accuracy") for summary in summaries]
    if any(value is None for value in best):
        return None
    chance = max(map(_no_skill, summaries), default=0.0)
    reached = [math.floor(100 * float(value) + 1e-9) / 100 for value in best if value is not None]
    return min((value for value in reached if value > chance), default=None)


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
