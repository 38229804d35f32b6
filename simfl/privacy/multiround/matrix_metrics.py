"""Multi-round privacy of a participation matrix: three nested guarantees, of each prefix and, with witnesses, of all.

References: J. So et al., Securing Secure Aggregation: Mitigating Multi-Round Privacy Leakage in Federated Learning,
arXiv 2106.03328 (strong: eq. 5 and App. C; weak: Remark 1); On Multi-Round Privacy in Federated Learning (semi-strong).
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.multiround.basis import Basis, basis
from simfl.privacy.multiround.guarantee_trace import BUDGET, Budget, Trace, evaluation_rounds, held_before
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix, identical
from simfl.privacy.multiround.semi_strong import GAP, Enclosure, semi_strong
from simfl.privacy.multiround.weak import Weak, weak
from simfl.privacy.multiround.witness import Witness, of_round, on_support


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


@dataclass(frozen=True)
class MultiRound:
    """What the aggregates of all rounds give away; with R the row space of P, strong <= semi-strong <= weak.

    Attributes:
        rank: of P; None beyond the budget and where weights are not sure.
        strong: the size of the smallest class of identical non-zero columns. None without an aggregate.
        semi_strong: min of |v|_1 / |v|_inf over 0 != v in R; the guarantee is its floor. None without an aggregate
            or beyond the budget, or where weights that are not sure leave it open.
        semi_strong_bound: a lower bound of it from dual solutions, certified in floating point.
        weak_lower, weak_upper: bounds of min |v|_0 over 0 != v in R.
        semi_strong_witness: a vector of R whose ratio is ``semi_strong``, in exact fractions.
        weak_witness: a vector of R with ``weak_upper`` non-zeros, in exact fractions; None if the fractions are
            beyond the budget (the bound then rests on two primes).
        sure: whether all weights are certain to be the numbers that they were read as; else the bounds are those that
            hold for any weights there (see :func:`multi_round`).
        read: number of weights by how they were read, see :data:`simfl.privacy.multiround.weight_reading.KINDS`.
    """

    rounds: int
    clients: int
    rank: int | None
    strong: int | None = None
    semi_strong: float | None = None
    semi_strong_bound: float | None = None
    weak_lower: int | None = None
    weak_upper: int | None = None
    semi_strong_witness: Witness | None = None
    weak_witness: Witness | None = None
    sure: bool = True
    read: dict[str, int] = field(default_factory=dict)

    @property
    def weak_exact(self) -> bool:
        """Whether the weak metric is known exactly."""
        return self.weak_lower is not None and self.weak_lower == self.weak_upper


def multi_round(
    P: object, budget: int = BUDGET, seed: int = 0, trust: bool = False, doubles: bool = False
) -> MultiRound:
    """The multi-round privacy of a participation matrix.

    Args:
        P: weights of the clients in each aggregate, shape (J, N), non-negative; dense or scipy-sparse. A double
            counts as the simple fraction or root of one that it is the rounding of, if there is one.
        budget: work each stage may take, in modular multiplications (10**9 is a few seconds).
        seed: of the search for light vectors.
        trust: take weights that cannot be read for sure as they stand; else the metrics are intervals that hold for
            any weights there.
        doubles: the weights are doubles with all their digits, as a run's are; else whether they were rounded is
            found out.

    Raises:
        SimflError: a weight is negative, infinite or NaN, or P is not two-dimensional.
    """
    rounds = P if isinstance(P, ParticipationMatrix) else ParticipationMatrix.of(P, doubles)
    if trust or rounds.sure.all():
        study = MatrixAnalysis.of(rounds, budget, seed)
        return final_metrics(study, study.evaluate(every=0))
    study = MatrixAnalysis.of(rounds.certain(), budget, seed)
    return bounded_metrics(rounds, study, study.evaluate(every=0))


def bounded_metrics(rounds: ParticipationMatrix, study: MatrixAnalysis, evaluation: MatrixEvaluation) -> MultiRound:
    """The metrics after the last of some rounds of which not all are sure; the study is of those that are."""
    columns = bounds_for_any_weights(rounds, study.trace(evaluation), every=0)
    part = final_metrics(study, evaluation)
    witness = part.weak_witness if part.weak_upper == columns.weak_upper[-1] else None
    return _without_rank(rounds, columns, witness, False)


def final_metrics(study: MatrixAnalysis, evaluation: MatrixEvaluation) -> MultiRound:
    """The metrics after the last round of a study, out of an evaluation that contains it."""
    basis = study.basis
    n_rounds, n_clients = study.rounds.shape
    if not len(basis.classes.size):
        return MultiRound(n_rounds, n_clients, 0)
    strong = int(basis.classes.smallest[-1])
    if basis.known < n_rounds:
        return _beyond(study, study.trace(evaluation))
    rank = len(basis.rounds)
    enclosure, weak = evaluation.semi[rank], evaluation.weak
    value, witness = enclosure.value, None
    if value is not None:
        witness = _witness(study, rank, enclosure.source)
        if witness is not None and abs(float(witness.ratio) - value) <= GAP * value:
            value = float(witness.ratio)
        else:
            witness = None
    same = witness is not None and np.array_equal(enclosure.source, weak.source[rank])
    return MultiRound(
        n_rounds,
        n_clients,
        rank,
        strong,
        value,
        min(enclosure.lower, np.inf if value is None else value),
        int(weak.lower[rank]),
        int(weak.upper[rank]),
        witness,
        witness if same else _witness(study, rank, weak.source[rank]),
        bool(study.rounds.sure.all()),
        study.rounds.values.kinds(study.rounds.codes),
    )


def _beyond(study: MatrixAnalysis, columns: Trace) -> MultiRound:
    """Where the rank is beyond the budget."""
    counts = np.diff(study.rounds.indptr)
    smallest = of_round(study.basis, int(np.argmin(np.where(counts > 0, counts, study.rounds.shape[1] + 1))))
    witness = smallest if len(smallest.values) == columns.weak_upper[-1] else None
    return _without_rank(study.rounds, columns, witness, bool(study.rounds.sure.all()))


def _without_rank(rounds: ParticipationMatrix, columns: Trace, witness: Witness | None, sure: bool) -> MultiRound:
    """The bounds after the last round; the witness is of the weak one."""
    strong, semi, lower, upper = (
        column[-1] for column in (columns.strong, columns.semi_strong, columns.weak_lower, columns.weak_upper)
    )
    value, read = None if np.isnan(semi) else float(semi), rounds.values.kinds(rounds.codes)
    return MultiRound(
        *rounds.shape, None, int(strong), value, float(strong), int(lower), int(upper), None, witness, sure, read
    )


def _witness(study: MatrixAnalysis, rank: int, source: Any) -> Witness | None:
    if isinstance(source, int):
        return of_round(study.basis, source)
    return on_support(study.basis, rank, source, Budget(study.budget))


class ColludedGuarantees(NamedTuple):
    """What is left against the server and any c clients, None where it is not known.

    Attributes:
        colluders: c.
        semi_strong: a lower bound.
    """

    colluders: int
    strong: int | None
    semi_strong: float | None
    weak_lower: int | None
    weak_upper: int | None


def against_any(metrics: MultiRound, colluders: int) -> ColludedGuarantees:
    """The guarantees against the server and any of so many clients.

    A client knows its own update, so that it can be taken off every sum. Against named colluders the metrics are those
    of the matrix without their columns (:func:`simfl.privacy.multiround.participation_matrix.without_clients`). Against
    any c of them:

    * strong: max(1, strong - c), met by c members of a smallest class,
    * weak: max(1, weak - c), met by c clients of a lightest combination,
    * semi-strong: at least max(1, semi-strong - c); the bound need not be met.

    The proofs are in docs/explanation/colluders.md.
    """
    semi = metrics.semi_strong_bound if metrics.semi_strong is None else metrics.semi_strong
    return ColludedGuarantees(
        colluders,
        None if metrics.strong is None else max(1, metrics.strong - colluders),
        None if semi is None else max(1.0, semi - colluders),
        None if metrics.weak_lower is None else max(1, metrics.weak_lower - colluders),
        None if metrics.weak_upper is None else max(1, metrics.weak_upper - colluders),
    )
