"""The metrics over the rounds, the rounds at which they are due, and the work that they may take."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BUDGET = 5_000_000_000
"""Default budget of one stage, in modular multiplications or what costs as much: some ten seconds."""


@dataclass
class Budget:
    """Counts work against a limit, never seconds: an answer may not depend on how fast the machine is."""

    limit: int
    spent: int = 0

    def affords(self, work: float | int) -> bool:
        """Whether this much more work would stay within the limit."""
        return self.spent + work <= self.limit

    def take(self, work: float | int) -> bool:
        """Books the work if it is affordable and says whether it was."""
        if not self.affords(work):
            return False
        self.spent += int(work)
        return True


@dataclass(frozen=True)
class Trace:
    """The metrics after every round, float64, shape (J,); NaN before the first aggregate and where not evaluated.

    Attributes:
        rank: of the participation matrix so far; NaN beyond the budget and where weights are not sure.
        strong: size of the smallest class of identical non-zero columns.
        semi_strong: least ratio of sum to largest magnitude in the row space; NaN beyond the budget and where weights
            that are not sure leave it open.
        semi_strong_lower: certified lower bounds of it, equal to it where it is known.
        weak_lower, weak_upper: bounds of the least number of non-zeros in the row space.
    """

    rank: NDArray[np.float64]
    strong: NDArray[np.float64]
    semi_strong: NDArray[np.float64]
    semi_strong_lower: NDArray[np.float64]
    weak_lower: NDArray[np.float64]
    weak_upper: NDArray[np.float64]


def held_before(lower: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lower bounds of what can only fall: one of a later round is one of every earlier round, too; NaN stays NaN."""
    highest = np.fmax.accumulate(lower[::-1])[::-1]
    return np.where(np.isnan(lower), np.nan, highest)


def evaluation_rounds(n_rounds: int, every: int) -> NDArray[np.bool_]:
    """Rounds every - 1, 2 * every - 1, ... and the last one; 0 = the last one only. Shape (J,)."""
    evaluated = np.zeros(n_rounds, dtype=bool)
    if every:
        evaluated[every - 1 :: every] = True
    evaluated[-1:] = True
    return evaluated


LOWER_BOUNDS = (
    "the weak and semi-strong guarantees are lower bounds: privacy.budget did not suffice, weights are not exact, "
    "clip factors change from sum to sum, a stage does not say what it does to updates (maps), or agents or learning "
    "may send more than an update says, or tell other samples"
)
"""Is said where :func:`are_bounds`."""


def are_bounds(numbers: Mapping[str, Any]) -> bool:
    """Whether only bounds of the weak guarantee are known, by a run's final values or their means, by name."""
    lower, upper = (numbers.get(f"privacy_weak_{end}") for end in ("lower", "upper"))
    return lower is not None and upper is not None and lower < upper


def reduce_by(metric: NDArray[np.float64], colluders: int) -> NDArray[np.float64]:
    """A metric, or its bound, against the server and any of so many clients; NaN stays NaN."""
    return np.maximum(metric - colluders, 1.0)
