"""Families of rows: which sets of clients a policy may select, and all that follows from it before the first round.

A policy says what its family is (:meth:`simfl.selection.base.Policy.family`); a policy whose family is none of these
makes one of its own with the same members, or says None. One that cannot be asked (``contains``) gives no guarantee.

References:
    MR (arXiv 2106.03328) and HP ("On Multi-Round Privacy in Federated Learning", Half Partitioning).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb, exp, lgamma, log, log1p
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Floats
from simfl.selection.base import CanBeAsked
from simfl.selection.theory.cardinality import at_least, each_for_itself, of_blocks, pairs_at_least, share
from simfl.selection.units.sizes import Problem, at_most_clients, unit_problems


class Family(CanBeAsked, Protocol):
    """The rows that a policy may select over all rounds.

    Attributes:
        clients: their number; rows are 0/1 vectors of so many.
        independent: whether what is expected needs clients that are unavailable independently of one another.
    """

    @property
    def clients(self) -> int: ...

    @property
    def independent(self) -> bool: ...

    def units(self) -> NDArray[np.int32]:
        """Every unit, shape (units, unit_size); two of them may share clients."""

    def size(self) -> int:
        """The number of rows, exact."""

    def size_log10(self) -> float:
        """Its logarithm, also where the number would have millions of digits."""

    def rows(self) -> Iterator[NDArray[np.integer]]:
        """The clients of each row, in the order of the rows' first units."""

    def cardinality(self, present: Floats) -> float:
        """Mean number of clients selected, before failures, who are there with probability ``present``, (clients,)."""

    def aggregated_cardinality(self, present: Floats, survive: Floats, on_failure: str, uniform: bool) -> float | None:
        """Mean number of clients aggregated in a round, where selected clients fail independently; None = not known.

        Args:
            present: as above.
            survive: probability of not failing, float64 (clients,).
            on_failure: ``drop_unit``, ``abort`` or ``partial``.
            uniform: every available row is selected with the same probability, whatever happened before.
        """

    def guarantee(self, present: Floats | None) -> tuple[int, int]:
        """(strong, semi-strong, weak) privacy that holds for any number of rounds; ``present`` None = not known."""

    def full_rank(self, present: Floats) -> float | None:
        """Lower bound on the probability that as many rounds as clients reveal everybody; None = not known."""


@dataclass(frozen=True)
class DisjointUnits:
    """K/T of N/T fixed units of T clients: batches; T = 1 is random selection, T = K a partition into groups.

    Unit b is the clients bT .. bT+T-1. MR equation 8 and Theorem 1. MR Table 1 prints 91389 for C(40, 4) = 91390.

    Args:
        clients: N, at least 1.
        k: K, clients in an aggregation.
        unit: T, which divides both.

    Raises:
        ValueError: they do not fit together.
    """

    clients: int
    k: int
    unit: int = 1

    independent = True

    def __post_init__(self) -> None:
        _fit(self.clients, self.k, self.unit, halves=False)

    def units(self) -> NDArray[np.int32]:
        return np.arange(self.clients, dtype=np.int32).reshape(-1, self.unit)

    def size(self) -> int:
        return comb(self.clients // self.unit, self.k // self.unit)

    def size_log10(self) -> float:
        return _log_comb(self.clients // self.unit, self.k // self.unit) / log(10)

    def rows(self) -> Iterator[NDArray[np.integer]]:
        units = self.units()
        for chosen in combinations(range(len(units)), self.k // self.unit):
            yield units[list(chosen)].reshape(-1)

    def cardinality(self, present: Floats) -> float:
        return self.k * at_least(present.reshape(-1, self.unit).prod(axis=1), self.k // self.unit)

    def aggregated_cardinality(self, present: Floats, survive: Floats, on_failure: str, uniform: bool) -> float | None:
        here = present.reshape(-1, self.unit).prod(axis=1)
        return of_blocks(here, survive.reshape(-1, self.unit), self.k // self.unit, on_failure, uniform)

    def contains(self, clients: NDArray[np.integer], losses: bool) -> bool:
        whole = np.isin(np.bincount(clients // self.unit), (0, self.unit)).all()
        return (losses or len(clients) == self.k) and bool(whole)

    def guarantee(self, present: Floats | None) -> tuple[int, int]:
        everybody = self.k == self.clients
        return (self.clients, self.clients) if everybody else (self.unit, self.unit)

    def full_rank(self, present: Floats) -> float | None:
        return None


@dataclass(frozen=True)
class NeighbourPairs:
    """K/T pairs of neighbouring half-batches, none in common, of 2N/T half-batches of T/2 clients on a circle (HP).

    Rows are counted as choices of starts: with K = N the two choices cover the same clients.

    Args:
        k: K, clients in an aggregation.
        unit: T, even, which divides both.

    Raises:
        ValueError: they do not fit together.
    """

    clients: int
    k: int
    unit: int

    independent = True

    def __post_init__(self) -> None:
        _fit(self.clients, self.k, self.unit, halves=True)

    @property
    def circle(self) -> int:
        """Half-batches."""
        return 2 * self.clients // self.unit

    def units(self) -> NDArray[np.int32]:
        first = np.arange(self.circle)[:, None] * (self.unit // 2)
        return ((first + np.arange(self.unit)) % self.clients).astype(np.int32)

    def size(self) -> int:  # multiplied out first: the quotient 2n/k alone need not be whole
        pairs = self.k // self.unit
        return 2 * self.clients * comb(self.circle - pairs - 1, pairs - 1) // self.k

    def size_log10(self) -> float:
        pairs = self.k // self.unit
        return (log(2 * self.clients / self.k) + _log_comb(self.circle - pairs - 1, pairs - 1)) / log(10)

    def rows(self) -> Iterator[NDArray[np.integer]]:
        units, pairs = self.units(), self.k // self.unit
        for chosen in combinations(range(self.circle - pairs + 1), pairs):
            starts = [start + i for i, start in enumerate(chosen)]  # gaps of at least two
            if not (starts[0] == 0 and starts[-1] == self.circle - 1):  # adjacent around the end
                yield units[starts].reshape(-1)

    def cardinality(self, present: Floats) -> float:
        return self.k * pairs_at_least(present.reshape(-1, self.unit // 2).prod(axis=1), self.k // self.unit)

    def aggregated_cardinality(self, present: Floats, survive: Floats, on_failure: str, uniform: bool) -> float | None:
        surviving = share(survive, self.unit, self.k, on_failure)
        return None if surviving is None else self.cardinality(present) * surviving

    def contains(self, clients: NDArray[np.integer], losses: bool) -> bool:
        half = self.unit // 2
        counts = np.bincount(clients // half, minlength=self.circle)
        gaps = np.flatnonzero(counts == 0)
        runs = np.diff(gaps, append=gaps[:1] + self.circle) - 1  # of half-batches side by side, around the circle
        return (losses or len(clients) == self.k) and bool(np.isin(counts, (0, half)).all() and (runs % 2 == 0).all())

    def guarantee(self, present: Floats | None) -> tuple[int, int]:
        everybody = self.k == self.clients
        return (self.clients, self.clients) if everybody else (self.unit // 2, self.unit)

    def full_rank(self, present: Floats) -> float | None:
        return None


@dataclass(frozen=True)
class AllAvailable:
    """Everybody who is available, in every round; where that is always everyone, they all hide each other."""

    clients: int

    independent = False

    def units(self) -> NDArray[np.int32]:
        return np.arange(self.clients, dtype=np.int32).reshape(-1, 1)

    def size(self) -> int:
        return 2**self.clients

    def size_log10(self) -> float:
        return self.clients * log(2) / log(10)

    def rows(self) -> Iterator[NDArray[np.integer]]:
        for row in range(self.size()):
            yield np.flatnonzero(row >> np.arange(self.clients) & 1)

    def cardinality(self, present: Floats) -> float:
        return float(present.sum())

    def aggregated_cardinality(self, present: Floats, survive: Floats, on_failure: str, uniform: bool) -> float | None:
        return each_for_itself(present, survive, on_failure)

    def contains(self, clients: NDArray[np.integer], losses: bool) -> bool:
        return losses or len(clients) == self.clients

    def guarantee(self, present: Floats | None) -> tuple[int, int]:
        always = present is not None and bool((present == 1).all())
        return (self.clients, self.clients) if always else (1, 1)

    def full_rank(self, present: Floats) -> float | None:
        return None


@dataclass(frozen=True)
class Coins(AllAvailable):
    """Every available client with the same probability, independently (MR Appendix G): any set of clients.

    Args:
        clients: N.
        k: clients in an aggregation on average.
        probability: of an available client's selection; None = as much as makes k on average, where that is possible.
    """

    k: int
    probability: float | None = None

    def __post_init__(self) -> None:
        _fit(self.clients, self.k, 1, halves=False)

    def cardinality(self, present: Floats) -> float:
        mean = float(present.sum())
        return min(float(self.k), mean) if self.probability is None else mean * self.probability

    def aggregated_cardinality(self, present: Floats, survive: Floats, on_failure: str, uniform: bool) -> float | None:
        mean = float(present.sum())
        selected = present * (self.cardinality(present) / mean if mean else 0.0)
        return each_for_itself(selected, survive, on_failure)

    def contains(self, clients: NDArray[np.integer], losses: bool) -> bool:
        return True

    def guarantee(self, present: Floats | None) -> tuple[int, int]:
        return 1, 1

    def full_rank(self, present: Floats) -> float | None:
        alike = bool((present == present[0]).all())
        return full_rank_probability(self.clients, self.cardinality(present)) if alike else None


def _fit(clients: int, k: int, unit: int, halves: bool) -> None:
    if min(clients, k, unit) < 1:
        raise ValueError("clients, k and the unit must be at least 1")
    problems: list[Problem] = (
        unit_problems(k, unit, clients, halves) if unit > 1 or halves else at_most_clients(k, clients)
    )
    if problems:
        raise ValueError("; ".join(f"{field} {message}" for field, message in problems))


def _log_comb(a: int, b: int) -> float:
    return lgamma(a + 1) - lgamma(b + 1) - lgamma(a - b + 1)


def full_rank_probability(n: int, k: float) -> float:
    """Lower bound on the probability that n rounds of independent selection reveal every client's model; 0 = it says
    nothing.

    1 - 2n(1-s)^n - n(n-1)(s^2 + (1-s)^2)^n with s = k/n: the probability that two rows or columns of the n x n
    participation matrix coincide or one is zero. Asymptotic: the paper multiplies the last term by 1 + o(1), taken as 1
    here, for a fixed s < 1/2. For selection of exactly K clients the paper proves 1 - 2 exp(-c'n) without giving c', so
    there is no number to return. Of n clients, each takes part with probability k/n, whatever its dropout.

    Raises:
        ValueError: not 0 <= k <= n, or n < 1.

    References:
        MR (arXiv 2106.03328) Theorem 3, equation 32, after Jain et al. 2020.
    """
    if n < 1 or not 0 <= k <= n:
        raise ValueError("needs n >= 1 and 0 <= k <= n")
    s = k / n
    if s in (0.0, 1.0):
        return float(n == 1 and s == 1.0)
    zero = 2 * n * exp(n * log1p(-s))
    same = n * (n - 1) * exp(n * log(s * s + (1 - s) ** 2))
    return max(0.0, 1.0 - zero - same)
