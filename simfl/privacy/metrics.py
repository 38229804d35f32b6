"""Multi-round privacy of a participation matrix: three nested guarantees with witnesses.

References: J. So et al., Securing Secure Aggregation: Mitigating Multi-Round Privacy Leakage in Federated Learning,
arXiv 2106.03328 (strong: eq. 5 and App. C; weak: Remark 1); On Multi-Round Privacy in Federated Learning (semi-strong).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simfl.privacy.budget import BUDGET, Budget
from simfl.privacy.semi_strong import GAP
from simfl.privacy.study import Study
from simfl.privacy.witness import Witness, of_round, on_support

__all__ = ["MultiRound", "multi_round"]


@dataclass(frozen=True)
class MultiRound:
    """What the aggregates of all rounds give away; with R the row space of P, strong <= semi-strong <= weak.

    Attributes:
        rounds, clients: the shape of P.
        rank: of P; None beyond the budget.
        strong: the size of the smallest class of identical non-zero columns. None without an aggregate.
        semi_strong: min of |v|_1 / |v|_inf over 0 != v in R; the guarantee is its floor. None without an aggregate
            or beyond the budget.
        semi_strong_bound: a lower bound of it from dual solutions, certified in floating point.
        weak_lower, weak_upper: bounds of min |v|_0 over 0 != v in R.
        semi_strong_witness: a vector of R whose ratio is ``semi_strong``, in exact fractions.
        weak_witness: a vector of R with ``weak_upper`` non-zeros, in exact fractions; None if the fractions are
            beyond the budget (the bound then rests on two primes).
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

    @property
    def weak_exact(self) -> bool:
        """Whether the weak metric is known exactly."""
        return self.weak_lower is not None and self.weak_lower == self.weak_upper


def multi_round(P: Any, budget: int = BUDGET, seed: int = 0) -> MultiRound:
    """The multi-round privacy of a participation matrix.

    Args:
        P: weights of the clients in each aggregate, shape (J, N), non-negative; dense or scipy-sparse. A double
            counts as the fraction with denominator up to 2**20 that rounds to it, if there is one.
        budget: work each stage may take, in modular multiplications (10**9 is a few seconds).
        seed: of the search for light vectors.

    Raises:
        SimflError: a weight is negative, infinite or NaN, or P is not two-dimensional.
    """
    return final(Study.of(P, budget, seed))


def final(study: Study) -> MultiRound:
    """The metrics after the last round of a study."""
    basis = study.basis
    n_rounds, n_clients = study.rounds.shape
    if not len(basis.classes.size):
        return MultiRound(n_rounds, n_clients, 0)
    strong = int(basis.classes.smallest[-1, 0])
    if basis.known < n_rounds:
        columns = study.trace(every=0)
        lightest = int(np.argmin(np.where(np.diff(study.rounds.indptr) > 0, np.diff(study.rounds.indptr), n_clients + 1)))
        semi = columns.semi_strong[-1]
        return MultiRound(
            n_rounds,
            n_clients,
            None,
            strong,
            None if np.isnan(semi) else float(semi),
            float(strong),
            int(columns.weak_lower[-1]),
            int(columns.weak_upper[-1]),
            None,
            of_round(basis, lightest),
        )
    rank = len(basis.rounds)
    semi, bounds = study.evaluate([rank])
    enclosure, value = semi[rank], semi[rank].value
    semi_witness = None
    if value is not None:
        semi_witness = _witness(study, rank, enclosure.source)
        if semi_witness is not None and abs(float(semi_witness.ratio) - value) <= GAP * value:
            value = float(semi_witness.ratio)
        else:
            semi_witness = None
    return MultiRound(
        n_rounds,
        n_clients,
        rank,
        strong,
        value,
        min(enclosure.lower, np.inf if value is None else value),
        int(bounds.lower[rank]),
        int(bounds.upper[rank]),
        semi_witness,
        _witness(study, rank, bounds.source[rank]),
    )


def _witness(study: Study, rank: int, source: Any) -> Witness | None:
    if isinstance(source, int):
        return of_round(study.basis, source)
    return on_support(study.basis, rank, source, Budget(study.budget))
