"""What is compared: the numbers of one finished run."""

import csv
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["TO_TARGET", "common_target", "measures", "to_target"]

NO_RESULT = {"name", "digest", "seed", "clients"}
"""Numbers in a summary that were chosen, not measured."""

TO_TARGET = ("rounds_to_target", "time_s_to_target", "bytes_to_target")


def measures(summary: Mapping[str, Any]) -> dict[str, float]:
    """The final values of a run, by name; what does not apply to it is left out."""
    return {
        name: float(value)
        for name, value in summary.items()
        if name not in NO_RESULT and isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def common_target(summaries: Iterable[Mapping[str, Any]]) -> float | None:
    """The highest whole per cent of test accuracy that every run has reached; None where nothing is learned."""
    best = [summary.get("best_test_accuracy") for summary in summaries]
    reached = [float(value) for value in best if value is not None]
    if not reached or len(reached) < len(best):
        return None
    return math.floor(100 * min(reached) + 1e-9) / 100


def to_target(rounds: Path, target: float) -> dict[str, float]:
    """Rounds, simulated seconds and bytes (down and up) until the test accuracy first reaches ``target``.

    Args:
        rounds: the ``rounds.csv`` of a finished run.
        target: test accuracy.

    Returns:
        Nothing where the run never reaches it.
    """
    total = 0
    with open(rounds, newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 1):
            total += int(row["bytes_down"] or 0) + int(row["bytes_up"] or 0)
            if row["test_accuracy"] and float(row["test_accuracy"]) >= target:
                return dict(zip(TO_TARGET, (float(number), float(row["time_s"]), float(total)), strict=True))
    return {}
