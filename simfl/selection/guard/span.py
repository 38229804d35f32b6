"""The span of rows of zeros and ones, exactly, in reduced echelon form modulo two primes; and its light vectors."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import Residues, drawn_prime, inverses, matvec, modulo, negative, times


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

    @property
    def exposed(self) -> NDArray[np.bool_]:
        """Clients whose unit vectors lie in the span modulo both primes, (clients,)."""
        alone = np.zeros((2, self.forms[0].rows.shape[1]), dtype=bool)
        for flags, form in zip(alone, self.forms, strict=True):
            flags[form.pivots[np.count_nonzero(form.rows, axis=1) == 1]] = True
        return np.asarray(alone.all(axis=0))

    def with_row(self, row: NDArray[np.bool_]) -> "Span | None":
        """The span with a row, (clients,), more: itself if the row lies in it; None if the primes disagree on that."""
        one, two = self.forms
        rests = one.reduce(row.astype(np.uint64)), two.reduce(row.astype(np.uint64))
        independent = [bool(rest.any()) for rest in rests]
        if not any(independent):
            return self
        return Span((one.with_row(rests[0]), two.with_row(rests[1]))) if all(independent) else None


LARGEST = 4
"""The largest T that is checked."""

CHUNK = 2**20
"""Entries of an array at a time."""


def keeps_weak(span: Span, T: int) -> bool:
    """Whether it is proven that every vector of the span but 0 has at least ``T`` entries, 1 to 4, that are not 0.

    Let H be a parity check of the span modulo a prime: its rows are a basis of the vectors orthogonal to it, and it has
    a column h_i for each client. A vector v lies in the span if and only if the sum of v_i h_i is 0. So a vector with
    fewer than T entries is a linear dependency of T - 1 columns, or fewer. Columns that are dependent stay so under any
    linear map; here it is one onto T - 1 random coordinates. If there no T - 1 images are dependent, no light vector
    exists: that is a proof. If some are, it is chance in about one of p / C(N, T - 1) cases, and the other prime is
    asked.
    """
    return T <= 1 or any(not _dependent(_images(form, T - 1), form.prime) for form in span.forms)


def _images(form: Form, count: int) -> Residues:
    """The columns of a parity check under a random linear map, (count, clients)."""
    rng = np.random.Generator(np.random.Philox(key=[form.prime, count]))
    free = np.setdiff1d(np.arange(form.rows.shape[1]), form.pivots)
    images = np.zeros((count, form.rows.shape[1]), dtype=np.uint64)
    for image in images:
        image[free] = rng.integers(0, form.prime, len(free), dtype=np.uint64)
        image[form.pivots] = negative(matvec(form.rows[:, free], image[free], form.prime), form.prime)
    return images


def _dependent(images: Residues, p: int) -> bool:
    """Whether of the columns of (n, clients) some n may be dependent; never False where they are."""
    if not images[-1].all():
        return True  # a column of zeros, or chance
    if len(images) == 1:
        return False
    if len(images) == 2:
        return _parallel(images[0][None], images[1][None], np.zeros((1, images.shape[1]), dtype=bool), p)
    clients = np.arange(images.shape[1])
    step = max(1, CHUNK // len(clients))
    return any(
        _parallel(*_project_out(images, clients[start : start + step], p), p) for start in range(0, len(clients), step)
    )


def _project_out(images: Residues, out: NDArray[np.int64], p: int) -> tuple[Residues, Residues, NDArray[np.bool_]]:
    """The first two coordinates of all columns, (len(out), clients), once one of the columns ``out`` is projected out
    with the help of the third; and where that is the column itself.
    """
    factors = times(negative(images[:2, out], p), inverses(images[2, out], p), p)
    x, y = modulo(images[:2, None, :] + factors[:, :, None] * images[2], p)
    return x, y, out[:, None] == np.arange(images.shape[1])


def _parallel(x: Residues, y: Residues, itself: NDArray[np.bool_], p: int) -> bool:
    """Whether in a row of (x, y) two columns may be parallel, not counting those that are the row's own."""
    if ((y == 0) & ~itself).any():
        return True
    ratios = times(x, inverses(y, p), p)
    ratios[itself] = p
    ratios.sort(axis=1)
    return bool((ratios[:, 1:] == ratios[:, :-1]).any())
