"""What the aggregates of a deployment gave away: the guarantees over time, and the clients they expose."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.audit.exposure import Exposure, exposures
from simfl.privacy.budget import BUDGET, Budget
from simfl.privacy.metrics import MultiRound, final
from simfl.privacy.study import Study, Trace

__all__ = ["Report", "audit"]


@dataclass(frozen=True)
class Report:
    """The audit of a participation log.

    Attributes:
        rounds, clients: their labels.
        metrics: rank and guarantees after the last round, with witnesses.
        trace: the same over time.
        exposed: who is exposed, in order of time.
        known: number of rounds for which rank and exposure are known; fewer than all if the budget ended.
    """

    rounds: Sequence[Any]
    clients: Sequence[Any]
    metrics: MultiRound
    trace: Trace
    exposed: tuple[Exposure, ...]
    known: int

    def exposed_by_round(self) -> NDArray[np.int64]:
        """How many clients are exposed after each round, shape (J,)."""
        since = np.array([exposure.round for exposure in self.exposed], dtype=np.int64)
        return np.cumsum(np.bincount(since, minlength=len(self.rounds)))

    def to_json(self) -> dict[str, Any]:
        """The report as plain data; null where there is no aggregate or a value is beyond the budget."""
        found = self.metrics
        return {
            "clients": len(self.clients),
            "rounds": len(self.rounds),
            "rank": found.rank,
            "strong": found.strong,
            "semi_strong": found.semi_strong,
            "weak": {
                "lower": found.weak_lower,
                "upper": found.weak_upper,
                "exact": None if found.weak_lower is None else found.weak_exact,
            },
            "known_rounds": self.known,
            "exposed": [self._exposure(exposure) for exposure in self.exposed],
            "trace": {
                "round": list(self.rounds),
                **{
                    name: [None if np.isnan(value) else float(value) for value in getattr(self.trace, name)]
                    for name in ("rank", "strong", "semi_strong", "weak_lower", "weak_upper")
                },
            },
        }

    def _exposure(self, exposure: Exposure) -> dict[str, Any]:
        combined = exposure.coefficients
        return {
            "client": self.clients[exposure.client],
            "round": self.rounds[exposure.round],
            "largest": [{"round": self.rounds[t], "coefficient": value} for t, value in exposure.largest()],
            "combination": None
            if combined is None
            else {"rounds": [self.rounds[t] for t in combined], "coefficients": [float(z) for z in combined.values()]},
            "residual": exposure.residual,
            "exact": exposure.exact,
        }


def audit(
    P: Any,
    rounds: Sequence[Any] | None = None,
    clients: Sequence[Any] | None = None,
    every: int = 1,
    budget: int = BUDGET,
) -> Report:
    """Audits a participation matrix.

    Args:
        P: weights, shape (J, N), non-negative; dense or scipy-sparse.
        rounds, clients: labels; None numbers them from 0.
        every: rounds between evaluations of the semi-strong and weak guarantees; exposure is found for every round.
        budget: work of each stage, in modular multiplications (10**9 is a few seconds).

    Raises:
        SimflError: P is no participation matrix.
    """
    study = Study.of(P, budget)
    n_rounds, n_clients = study.rounds.shape
    labels = range(n_rounds) if rounds is None else rounds, range(n_clients) if clients is None else clients
    evaluation = study.evaluate(every)
    exposed = tuple(exposures(study, Budget(budget)))
    return Report(*labels, final(study, evaluation), study.trace(evaluation), exposed, study.basis.known)
