"""The metrics over the rounds of a participation matrix: what every prefix of it gives away."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.basis import Basis, basis
from simfl.privacy.budget import BUDGET, Budget
from simfl.privacy.classes import identical
from simfl.privacy.rounds import Rounds
from simfl.privacy.semi_strong import Enclosure, ratios, semi_strong
from simfl.privacy.weak import Weak, weak

__all__ = ["Evaluation", "Study", "Trace", "trace"]


@dataclass(frozen=True)
class Trace:
    """The metrics after every round, float64, shape (J,); NaN before the first aggregate and where not evaluated.

    Attributes:
        rank: of the participation matrix so far; NaN beyond the budget.
        strong: size of the smallest class of identical non-zero columns.
        semi_strong: least ratio of sum to largest magnitude in the row space; NaN beyond the budget.
        weak_lower, weak_upper: bounds of the least number of non-zeros in the row space.
    """

    rank: NDArray[np.float64]
    strong: NDArray[np.float64]
    semi_strong: NDArray[np.float64]
    weak_lower: NDArray[np.float64]
    weak_upper: NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """What was found out at some rounds.

    Attributes:
        times: the rounds, with an aggregate at or before them.
        semi: the semi-strong metric by rank.
        weak: bounds of the weak metric by rank.
    """

    times: NDArray[np.int64]
    semi: dict[int, Enclosure]
    weak: Weak


@dataclass(frozen=True)
class Study:
    """A participation matrix with what all its metrics share: classes of clients and rising ranks.

    Args:
        basis: see :func:`simfl.privacy.basis.basis`.
        budget: of each stage, in work.
        seed: of the search for light vectors.
    """

    basis: Basis
    budget: int
    seed: int

    @classmethod
    def of(cls, P: Any, budget: int = BUDGET, seed: int = 0) -> "Study":
        """Reads a (J, N) array, dense or scipy-sparse.

        Raises:
            SimflError: see :meth:`simfl.privacy.rounds.Rounds.of`.
        """
        rounds = P if isinstance(P, Rounds) else Rounds.of(P)
        return cls(basis(rounds, identical(rounds), budget), budget, seed)

    @property
    def rounds(self) -> Rounds:
        """The participation matrix."""
        return self.basis.of

    def last(self) -> dict[int, int]:
        """For each rank the last round at which the matrix has it."""
        ends = np.append(self.basis.rounds[1:], self.basis.known) - 1
        return {r + 1: int(t) for r, t in enumerate(ends)} if len(self.basis.rounds) else {}

    def evaluate(self, every: int = 1) -> "Evaluation":
        """The semi-strong and weak metrics at the ranks that the matrix has at the rounds that are due."""
        n_rounds = self.rounds.shape[0]
        times = np.flatnonzero((self.basis.classes.count > 0) & _due(n_rounds, every))
        last, rank = self.last(), self.basis.rank()
        ranks = sorted({int(r) for r in rank[times[times < self.basis.known]]})
        semi = semi_strong(self.basis, ranks, last, Budget(self.budget))
        known = {r: enclosure.lower for r, enclosure in semi.items()}
        return Evaluation(times, semi, weak(self.basis, ranks, last, known, self.budget, self.seed))

    def trace(self, evaluation: "Evaluation") -> Trace:
        """The columns of an evaluation."""
        basis, times = self.basis, evaluation.times
        columns = Trace(*(np.full(self.rounds.shape[0], np.nan) for _ in range(5)))
        rank = basis.rank()
        columns.rank[: basis.known] = np.where(rank > 0, rank, np.nan)
        started = basis.classes.count > 0
        columns.strong[started] = basis.classes.smallest[started]
        for t in times[times < basis.known]:
            r = int(rank[t])
            value = evaluation.semi[r].value
            columns.semi_strong[t] = np.nan if value is None else value
            columns.weak_lower[t], columns.weak_upper[t] = evaluation.weak.lower[r], evaluation.weak.upper[r]
        self._beyond(columns, times[times >= basis.known])
        columns.weak_upper[times] = np.minimum.accumulate(columns.weak_upper[times])
        held = times[~np.isnan(columns.semi_strong[times])]
        semi = np.minimum(columns.semi_strong[held], columns.weak_upper[held])
        columns.semi_strong[held] = np.minimum.accumulate(semi)  # monotone to the last bit
        return columns

    def _beyond(self, columns: Trace, times: NDArray[np.int64]) -> None:
        """Where the rank is out of budget: what the rounds themselves and the classes say."""
        if not len(times):
            return
        counts = np.diff(self.rounds.indptr)
        lightest = np.minimum.accumulate(np.where(counts > 0, counts, self.rounds.shape[1] + 1))
        ratio, _ = ratios(self.basis)
        strong = columns.strong[times]
        columns.weak_lower[times], columns.weak_upper[times] = strong, lightest[times]
        columns.semi_strong[times] = np.where(ratio[times] <= strong * (1 + 1e-9), strong, np.nan)


def trace(P: Any, every: int = 1, budget: int = BUDGET, seed: int = 0) -> Trace:
    """The metrics of every prefix of a participation matrix.

    All three can only fall, and only when the rank rises, so most rounds cost nothing.

    Args:
        P: weights, shape (J, N), non-negative; dense or scipy-sparse.
        every: semi-strong and weak are evaluated after rounds every - 1, 2 * every - 1, ... and the last one;
            0 = after the last round only. The rank and the strong metric come for every round.
        budget: work each stage may take, in modular multiplications (10**9 is a few seconds).
        seed: of the search for light vectors.

    Raises:
        SimflError: a weight is negative, infinite or NaN, or P is not two-dimensional.
    """
    study = Study.of(P, budget, seed)
    return study.trace(study.evaluate(every))


def _due(n_rounds: int, every: int) -> NDArray[np.bool_]:
    due = np.zeros(n_rounds, dtype=bool)
    if every:
        due[every - 1 :: every] = True
    due[-1:] = True
    return due
