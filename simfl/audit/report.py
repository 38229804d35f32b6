"""What the aggregates of a deployment gave away: the guarantees over time, and the clients they expose."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simfl.privacy.budget import BUDGET, Budget
from simfl.privacy.metrics import MultiRound, final
from simfl.privacy.study import Study, Trace
from simfl.privacy.witness import Witness, isolating

__all__ = ["Exposure", "Report", "audit"]

NAMED = 5
"""Coefficients of a combination that reports name, the largest first."""


@dataclass(frozen=True)
class Exposure:
    """A client whose own update the server can compute.

    Attributes:
        client: its position.
        round: position of the round from which on it can.
        combination: the combination of rounds that gives it, exact; None if the fractions are beyond the budget.
    """

    client: int
    round: int
    combination: Witness | None

    def largest(self) -> list[tuple[int, float]]:
        """(round position, coefficient) of the largest coefficients, at most :data:`NAMED`."""
        if self.combination is None:
            return []
        ranked = sorted(self.combination.coefficients.items(), key=lambda item: (-abs(item[1]), item[0]))
        return [(t, float(value)) for t, value in ranked[:NAMED]]

    @property
    def residual(self) -> float | None:
        """What the combination leaves of all other clients, largest magnitude; exact, so 0 where it is known."""
        if self.combination is None:
            return None
        rest = {i: abs(value) for i, value in self.combination.values.items() if i != self.client}
        own = abs(self.combination.values.get(self.client, 0) - 1)
        return float(max([own, *rest.values()]))


@dataclass(frozen=True)
class Report:
    """The audit of a participation log.

    Attributes:
        rounds, clients: their labels.
        metrics: rank and guarantees after the last round, with witnesses.
        trace: the same over time.
        exposed: who is exposed, in order of time.
    """

    rounds: Sequence[Any]
    clients: Sequence[Any]
    metrics: MultiRound
    trace: Trace
    exposed: tuple[Exposure, ...]

    def to_json(self) -> dict[str, Any]:
        """The report as plain data; null where there is no aggregate or a value is beyond the budget."""
        found = self.metrics
        return {
            "clients": len(self.clients),
            "rounds": len(self.rounds),
            "rank": found.rank,
            "strong": found.strong,
            "semi_strong": found.semi_strong,
            "weak": {"lower": found.weak_lower, "upper": found.weak_upper, "exact": found.weak_exact},
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
        return {
            "client": self.clients[exposure.client],
            "round": self.rounds[exposure.round],
            "rounds_combined": None if exposure.combination is None else len(exposure.combination.coefficients),
            "largest": [{"round": self.rounds[t], "coefficient": value} for t, value in exposure.largest()],
            "residual": exposure.residual,
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
    return Report(*labels, final(study, evaluation), study.trace(evaluation), tuple(_exposed(study, budget)))


def _exposed(study: Study, budget: int) -> list[Exposure]:
    basis, left = study.basis, Budget(budget)
    alone = np.flatnonzero((basis.size == 1) & (basis.isolated > 0))
    client_of = np.full(len(basis.size), -1)
    client_of[basis.classes.label[basis.classes.label >= 0]] = np.flatnonzero(basis.classes.label >= 0)
    found: list[Exposure] = []
    for rank in np.unique(basis.isolated[alone]).tolist():
        classes = alone[basis.isolated[alone] == rank].tolist()
        combinations = isolating(basis, rank, classes, left) or [None] * len(classes)
        t = int(basis.rounds[rank - 1])
        found += [
            Exposure(int(client_of[c]), t, combination) for c, combination in zip(classes, combinations, strict=True)
        ]
    return sorted(found, key=lambda exposure: (exposure.round, exposure.client))
