"""Multi-round privacy of a participation matrix: three nested guarantees with witnesses.

References: J. So et al., Securing Secure Aggregation: Mitigating Multi-Round Privacy Leakage in Federated Learning,
arXiv 2106.03328 (strong: eq. 5 and App. C; weak: Remark 1); On Multi-Round Privacy in Federated Learning (semi-strong).
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from simfl.privacy.multiround.analysis import MatrixAnalysis, MatrixEvaluation, bounds_for_any_weights
from simfl.privacy.multiround.budget import BUDGET, Budget
from simfl.privacy.multiround.guarantee_trace import Trace
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix
from simfl.privacy.multiround.semi_strong import GAP
from simfl.privacy.multiround.witness import Witness, of_round, on_support


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
            any weights there (:mod:`simfl.privacy.multiround.analysis`).
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
