"""The row space of a participation matrix as it grows: which rounds raise the rank, and whom they isolate."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import Residues, matvec, modulo, times
from simfl.privacy.multiround.guarantee_trace import Budget
from simfl.privacy.multiround.participation_matrix import Classes, ParticipationMatrix
from simfl.privacy.multiround.roots import primes


@dataclass(frozen=True)
class Basis:
    """The rounds that raise the rank, over the classes of identical clients (a vector of the row space is
    constant on a class).

    Attributes:
        rounds: int64, shape (R,): the rounds that raise the rank, ascending.
        codes: int32, shape (R, M): their weights' numbers, one column a class.
        isolated: int64, shape (M,): the rank from which on the class's unit vector lies in the row space; 0 = never.
        known: rounds whose rank is known; fewer than J if the budget ended.
        primes: two primes modulo which these rounds are independent; the second was drawn from the matrix.
    """

    rounds: NDArray[np.int64]
    codes: NDArray[np.int32]
    of: ParticipationMatrix
    classes: Classes
    isolated: NDArray[np.int64]
    known: int
    primes: tuple[int, int]

    @property
    def size(self) -> NDArray[np.int64]:
        """Clients in each class, shape (M,)."""
        return self.classes.size

    def rank(self) -> NDArray[np.int64]:
        """Rank of the first t + 1 rounds, shape (known,)."""
        return np.searchsorted(self.rounds, np.arange(self.known), side="right")

    def residues(self, rank: int, p: int) -> Residues:
        """The first ``rank`` rows mod p, shape (rank, M)."""
        return self.of.values.residues(p)[self.codes[:rank]]

    def floats(self, rank: int) -> NDArray[np.float64]:
        """The first ``rank`` rows, float64, shape (rank, M)."""
        return self.of.values.floats[self.codes[:rank]]

    def present(self, rank: int) -> NDArray[np.int64]:
        """The classes that the first ``rank`` rows touch."""
        return np.flatnonzero(self.codes[:rank].any(axis=0))

    def merged_classes(self, rank: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The touched classes that the first ``rank`` rows cannot tell apart, merged: the touched classes, the merged
        class of each, and the clients in each merged class.
        """
        present = self.present(rank)
        _, label = np.unique(self.codes[:rank, present], axis=1, return_inverse=True)
        label = label.ravel()
        return present, label, np.bincount(label, weights=self.size[present]).astype(np.int64)


def basis(rounds: ParticipationMatrix, classes: Classes, budget: int) -> Basis:
    """Finds the rounds that raise the rank.

    Ranks are taken modulo two primes below 2**32. A prime can only miss a rise, where it divides a minor of the matrix;
    then the two disagree, and the one that missed it is replaced by another prime. All primes but the first are drawn
    from the content of the matrix, so that both miss the same rise with a chance of about 2**-50 a round, even in a
    matrix made for it.
    """
    class_of, representative = np.unique(classes.label, return_index=True)
    representative = representative[class_of >= 0]
    chosen = np.isin(rounds.clients, representative)
    counts = np.append(0, np.cumsum(chosen))
    reduced = _Entries(counts[rounds.indptr], classes.label[rounds.clients[chosen]], rounds.codes[chosen])
    values = rounds.values
    roots = list(values.numbers.roots.values())
    candidates = filter(
        values.has_residues, primes(roots, [rounds.indptr, rounds.clients, rounds.codes, values.floats])
    )

    def grown() -> _Growth:
        p = next(candidates)
        return _grow(reduced, rounds, len(classes.size), p, Budget(budget // 2))

    one, two = grown(), grown()
    while one.before(min(one.known, two.known)) != two.before(min(one.known, two.known)):
        known = min(one.known, two.known)
        one, two = max(one, two, key=lambda growth: [-t for t in growth.before(known)]), grown()
    known = min(one.known, two.known)
    rises = np.array(one.before(known), dtype=np.int64)
    isolated = np.where((one.isolated > 0) & (two.isolated > 0), np.maximum(one.isolated, two.isolated), 0)
    codes = np.zeros((len(rises), len(classes.size)), dtype=np.int32)
    for row, t in zip(codes, rises, strict=True):
        span = reduced.row(t)
        row[reduced.classes[span]] = reduced.codes[span]
    return Basis(rises, codes, rounds, classes, np.where(isolated <= len(rises), isolated, 0), known, (one.p, two.p))


@dataclass(frozen=True)
class _Entries:
    """The matrix with one column a class, in compressed rows."""

    indptr: NDArray[np.int64]
    classes: NDArray[np.int64]
    codes: NDArray[np.int32]

    def row(self, t: int) -> slice:
        return slice(self.indptr[t], self.indptr[t + 1])


@dataclass(frozen=True)
class _Growth:
    """Rounds that raise the rank mod p, the rank at which each class is isolated (0 = never), and rounds looked at."""

    p: int
    rises: list[int]
    isolated: NDArray[np.int64]
    known: int

    def before(self, t: int) -> list[int]:
        """The rises before round t."""
        return [rise for rise in self.rises if rise < t]


def _grow(entries: _Entries, rounds: ParticipationMatrix, width: int, p: int, budget: Budget) -> _Growth:
    n_rounds = rounds.shape[0]
    residues = rounds.values.residues(p)[entries.codes]
    form = np.zeros((min(n_rounds, width, 64), width), dtype=np.uint64)  # reduced echelon form of the rounds so far
    pivots = np.zeros(min(n_rounds, width), dtype=np.int64)
    isolated = np.zeros(width, dtype=np.int64)
    rises: list[int] = []
    rng = np.random.Generator(np.random.Philox(key=p))
    t = 0
    while t < n_rounds:
        r = len(rises)
        if r == width:
            return _Growth(p, rises, isolated, n_rounds)
        if not budget.take(2 * (r + 1) * width):
            break
        row = np.zeros(width, dtype=np.uint64)
        row[entries.classes[entries.row(t)]] = residues[entries.row(t)]
        factors = row[pivots[:r]]
        used = np.flatnonzero(factors)
        if len(used):
            reduced = times(factors[used, None], form[used], p).sum(axis=0, dtype=np.uint64)
            row = modulo(row + np.uint64(p) - modulo(reduced, p), p)
        if not row.any():
            t = _next_rise(entries, residues, form[:r], pivots[:r], t + 1, rng, p)
            continue
        pivot = int(np.flatnonzero(row)[0])
        row = times(row, np.uint64(pow(int(row[pivot]), -1, p)), p)
        hit = np.flatnonzero(form[:r, pivot])
        form[hit] = modulo(form[hit] + (np.uint64(p) - form[hit, pivot])[:, None] * row, p)
        if r == len(form):
            form = np.concatenate([form, np.zeros_like(form)])
        form[r], pivots[r] = row, pivot
        rises.append(t)
        changed = np.append(hit, r)
        alone = pivots[changed[np.count_nonzero(form[changed], axis=1) == 1]]
        isolated[alone] = r + 1
        t += 1
    return _Growth(p, rises, isolated, t)


def _next_rise(
    entries: _Entries,
    residues: Residues,
    form: Residues,
    pivots: NDArray[np.int64],
    start: int,
    rng: np.random.Generator,
    p: int,
) -> int:
    """The first round from ``start`` on outside the span: one whose product with a random null vector is not 0."""
    null = np.asarray(rng.integers(0, p, form.shape[1], dtype=np.uint64))
    null[pivots] = 0
    null[pivots] = modulo(np.uint64(p) - matvec(form, null, p), p)
    n_rounds = len(entries.indptr) - 1
    step = 64
    while start < n_rounds:
        stop = min(n_rounds, start + step)
        span = slice(entries.indptr[start], entries.indptr[stop])
        products = np.append(0, np.cumsum(times(residues[span], null[entries.classes[span]], p), dtype=np.uint64))
        bounds = entries.indptr[start : stop + 1] - entries.indptr[start]
        independent = np.flatnonzero(modulo(products[bounds[1:]] - products[bounds[:-1]], p))
        if len(independent):
            return start + int(independent[0])
        start, step = stop, 2 * step
    return n_rounds
