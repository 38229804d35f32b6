"""The span of rows of zeros and ones, exactly: in reduced echelon form modulo two primes."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import Residues, drawn_prime, modulo, times


@dataclass(frozen=True)
class Form:
    """A reduced echelon form modulo a prime.

    Attributes:
        prime: below 2**32.
        rows: residues, (rank, clients): 1 at the row's own pivot, 0 at those of the others.
        pivots: int64 (rank,).
    """

    prime: int
    rows: Residues
    pivots: NDArray[np.int64]

    def reduce(self, row: Residues) -> Residues:
        """What is left of a row of zeros and ones, (clients,), once its entries at the pivots are eliminated."""
        used = self.rows[row[self.pivots] > 0].sum(axis=0, dtype=np.uint64)
        return modulo(row + np.uint64(self.prime) - modulo(used, self.prime), self.prime)

    def with_row(self, reduced: Residues) -> Self:
        """With a row that :meth:`reduce` has left, not all of it 0."""
        p, pivot = self.prime, int(np.flatnonzero(reduced)[0])
        row = times(reduced, np.uint64(pow(int(reduced[pivot]), -1, p)), p)
        factors = modulo(np.uint64(p) - self.rows[:, pivot], p)
        rows = modulo(self.rows + times(factors[:, None], row[None, :], p), p)
        return replace(self, rows=np.vstack([rows, row]), pivots=np.append(self.pivots, pivot))


@dataclass(frozen=True)
class Span:
    """A linear span of rows of zeros and ones.

    A row that is independent of others modulo one prime is independent of them. One that is dependent may only seem so,
    where the prime divides a minor; so a row counts as dependent if both primes say it, and where they disagree nothing
    is said.
    """

    forms: tuple[Form, Form]

    @classmethod
    def empty(cls, clients: int, seed: int) -> Self:
        """The span of no row; its primes are drawn from a seed."""
        rng = np.random.Generator(np.random.Philox(key=[clients, seed]))
        one = drawn_prime(rng)
        two = next(p for p in iter(lambda: drawn_prime(rng), None) if p != one)
        nothing = np.zeros((0, clients), dtype=np.uint64), np.zeros(0, dtype=np.int64)
        return cls((Form(one, *nothing), Form(two, *nothing)))

    @property
    def rank(self) -> int:
        return len(self.forms[0].pivots)

    def with_row(self, row: NDArray[np.bool_]) -> "Span | None":
        """The span with a row, (clients,), more: itself if the row lies in it; None if the primes disagree on that."""
        one, two = self.forms
        rests = one.reduce(row.astype(np.uint64)), two.reduce(row.astype(np.uint64))
        independent = [bool(rest.any()) for rest in rests]
        if not any(independent):
            return self
        return Span((one.with_row(rests[0]), two.with_row(rests[1]))) if all(independent) else None
