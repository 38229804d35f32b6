"""The metrics over the rounds of a participation matrix: what every prefix of it gives away."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.multiround.basis import Basis, basis
from simfl.privacy.multiround.budget import BUDGET, Budget
from simfl.privacy.multiround.guarantee_trace import Trace, evaluation_rounds, held_before
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix, identical
from simfl.privacy.multiround.semi_strong import Enclosure, semi_strong
from simfl.privacy.multiround.weak import Weak, weak

__all__ = ["MatrixEvaluation", "MatrixAnalysis", "Trace", "trace"]


@dataclass(frozen=True)
class MatrixEvaluation:
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
class MatrixAnalysis:
    """A participation matrix with what all its metrics share: classes of clients and rising ranks.

    ``budget`` is the work of each stage, ``seed`` that of the search for light vectors.
    """

    basis: Basis
    budget: int
    seed: int

    @classmethod
    def of(cls, P: object, budget: int = BUDGET, seed: int = 0) -> "MatrixAnalysis":
        """Reads a (J, N) array, dense or scipy-sparse.

        Raises:
            SimflError: see :meth:`simfl.privacy.multiround.participation_matrix.ParticipationMatrix.of`.
        """
        rounds = P if isinstance(P, ParticipationMatrix) else ParticipationMatrix.of(P)
        return cls(basis(rounds, identical(rounds), budget), budget, seed)

    @property
    def rounds(self) -> ParticipationMatrix:
        """The participation matrix."""
        return self.basis.of

    def last(self) -> dict[int, int]:
        """For each rank the last round at which the matrix has it."""
        ends = np.append(self.basis.rounds[1:], self.basis.known) - 1
        return {r + 1: int(t) for r, t in enumerate(ends)} if len(self.basis.rounds) else {}

    def evaluate(self, every: int = 1) -> "MatrixEvaluation":
        """The semi-strong and weak metrics at the ranks that the matrix has at the rounds that are due."""
        n_rounds = self.rounds.shape[0]
        times = np.flatnonzero((self.basis.classes.count > 0) & evaluation_rounds(n_rounds, every))
        last, rank = self.last(), self.basis.rank()
        ranks = sorted({int(r) for r in rank[times[times < self.basis.known]]})
        semi = semi_strong(self.basis, ranks, last, Budget(self.budget))
        known = {r: enclosure.lower for r, enclosure in semi.items()}
        return MatrixEvaluation(times, semi, weak(self.basis, ranks, last, known, self.budget, self.seed))

    def trace(self, evaluation: "MatrixEvaluation") -> Trace:
        """The columns of an evaluation."""
        basis, times = self.basis, evaluation.times
        columns = Trace(*(np.full(self.rounds.shape[0], np.nan) for _ in range(6)))
        rank = basis.rank()
        columns.rank[: basis.known] = np.where(rank > 0, rank, np.nan)
        started = basis.classes.count > 0
        columns.strong[started] = basis.classes.smallest[started]
        for t in times[times < basis.known]:
            r = int(rank[t])
            value = evaluation.semi[r].value
            columns.semi_strong[t] = np.nan if value is None else value
            columns.semi_strong_lower[t] = max(columns.strong[t], _rounded_down(evaluation.semi[r].lower))
            columns.weak_lower[t], columns.weak_upper[t] = evaluation.weak.lower[r], evaluation.weak.upper[r]
        self._beyond(columns, times[times >= basis.known])
        columns.weak_upper[times] = np.minimum.accumulate(columns.weak_upper[times])
        known = times[~np.isnan(columns.semi_strong[times])]
        semi = np.minimum(columns.semi_strong[known], columns.weak_upper[known])
        columns.semi_strong[known] = np.minimum.accumulate(semi)  # monotone to the last bit
        columns.semi_strong_lower[known] = columns.semi_strong[known]
        columns.semi_strong_lower[:] = held_before(columns.semi_strong_lower)
        return columns

    def _beyond(self, columns: Trace, times: NDArray[np.int64]) -> None:
        """Where the rank is out of budget: what the rounds themselves and the classes say."""
        if not len(times):
            return
        fewest = self.rounds.fewest_clients()
        ratio, _ = self.rounds.ratios()
        strong = columns.strong[times]
        columns.weak_lower[times], columns.weak_upper[times] = strong, fewest[times]
        columns.semi_strong[times] = np.where(ratio[times] <= strong * (1 + 1e-9), strong, np.nan)
        columns.semi_strong_lower[times] = strong


def _rounded_down(value: float) -> float:
    """To nine digits: further ones are the processor's."""
    nearest = float(f"{value:.9g}")
    return nearest if nearest <= value else float(f"{value * (1 - 1e-9):.9g}")


def trace(
    P: object, every: int = 1, budget: int = BUDGET, seed: int = 0, trust: bool = False, doubles: bool = False
) -> Trace:
    """The metrics of every prefix of a participation matrix.

    All three can only fall, and only when the rank rises, so most rounds cost nothing. What is found at a later round
    serves the earlier ones, so that an interval can be narrower (never contradict) than the one that
    :func:`simfl.privacy.multiround.matrix_metrics.multi_round` finds from the same rounds alone.

    Args:
        P: weights, shape (J, N), non-negative; dense or scipy-sparse.
        every: semi-strong and weak are evaluated after rounds every - 1, 2 * every - 1, ... and the last one;
            0 = after the last round only. The rank and the strong metric come for every round.
        budget, seed, trust, doubles: as for ``multi_round``.

    Raises:
        SimflError: a weight is negative, infinite or NaN, or P is not two-dimensional.
    """
    rounds = P if isinstance(P, ParticipationMatrix) else ParticipationMatrix.of(P, doubles)
    sure = trust or bool(rounds.sure.all())
    study = MatrixAnalysis.of(rounds if sure else rounds.certain(), budget, seed)
    columns = study.trace(study.evaluate(every))
    return columns if sure else bounds_for_any_weights(rounds, columns, every)


def bounds_for_any_weights(rounds: ParticipationMatrix, certain: Trace, every: int) -> Trace:
    """The metrics of a matrix of which some rounds are not sure; ``certain`` are those of ``rounds.certain()``.

    Rounds whose weights are sure span a part of the row space, so what is found there exists. Every round is in the row
    space. And no vector of the row space tells clients with identical columns apart (equal numbers are taken to stand
    for equal weights, unless they have too few digits). That holds whatever the other weights are.
    """
    n_rounds, n_clients = rounds.shape
    first = rounds.first_unsure
    open_ = np.arange(n_rounds) >= first
    classes = identical(rounds)
    strong = np.where(classes.count > 0, np.where(rounds.rough, 1, classes.smallest), np.nan)
    at = open_ & evaluation_rounds(n_rounds, every) & (classes.count > 0)
    fewest = np.fmin(rounds.fewest_clients(), certain.weak_upper)
    ratio = np.fmin(rounds.ratios()[0], certain.semi_strong)
    met = at & (ratio <= strong * (1 + 1e-9))
    return Trace(
        np.where(open_, np.nan, certain.rank),
        strong,
        np.where(met, strong, np.where(open_, np.nan, certain.semi_strong)),
        held_before(np.where(at, strong, np.where(open_, np.nan, certain.semi_strong_lower))),
        np.where(at, strong, np.where(open_, np.nan, certain.weak_lower)),
        np.where(at, fewest, np.where(open_, np.nan, certain.weak_upper)),
    )
