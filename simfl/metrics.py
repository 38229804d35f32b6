"""Cardinality and fairness over the rounds so far (science: Multi-RoundSecAgg, arXiv 2106.03328, section 3.3)."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["Tally"]


class Tally:
    """Counts who was aggregated, a round at a time.

    Attributes:
        rounds: rounds counted, skipped ones included.
        aggregated: client updates aggregated in all of them.
        participation: int64 (clients,): aggregations each client took part in.
    """

    def __init__(self, clients: int) -> None:
        self.rounds = 0
        self.aggregated = 0
        self.participation: NDArray[np.int64] = np.zeros(clients, dtype=np.int64)

    def add(self, clients: NDArray[np.integer]) -> None:
        """Counts one round in which ``clients`` (distinct, maybe none) were aggregated."""
        self.rounds += 1
        self.aggregated += len(clients)
        self.participation[clients] += 1

    @property
    def mean_cardinality(self) -> float:
        """Aggregation cardinality C(t): aggregated updates per round so far."""
        return self.aggregated / self.rounds

    @property
    def fairness_gap(self) -> float:
        """F(t): largest minus smallest share of the rounds so far in which a client took part."""
        return float(self.participation.max() - self.participation.min()) / self.rounds
