"""What further sums give away, exactly: rank, exposed clients and classes of equal columns, added to those of the past.

Ranks are taken modulo one prime below 2**32, drawn from the seed, or from weights that vary (it holds their roots). It
misses a rise with a chance of some 2**-31, far below what the futures leave open.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from simfl.api.certificates import Residues, drawn_prime, modulo, primes, times
from simfl.deployment.forecasting.past import Past

Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class PastSpan:
    """The span of all past sums whose weights are sure.

    Attributes:
        form: reduced echelon form modulo p, shape (rank, N); pivots: its columns, (rank,).
        exposed: bool (N,): whose update is a combination of these sums.
        keys: uint64 (N,): equal for columns that are equal in the whole past, for certain; 0 for clients in no sum.
        codes: uint64 (N,): equal for equal weights of clients, where each has one.
        generic: weights of coming rounds are unlike each other; else they are those that each client had.
    """

    form: Residues
    pivots: NDArray[np.int64]
    exposed: NDArray[np.bool_]
    keys: NDArray[np.uint64]
    codes: NDArray[np.uint64]
    p: int
    generic: bool


def past_span(past: Past, rng: np.random.Generator) -> PastSpan:
    """The span of a log's sums; one with weights that are not sure tells nothing for certain."""
    n, sure = past.rows.shape[1], past.reading.sure
    residues, p = _residues(past) if past.varying else (None, drawn_prime(rng))
    codes = 1 + np.unique(past.weights, return_inverse=True)[1].astype(np.uint64)
    start = PastSpan(np.zeros((0, n), np.uint64), np.zeros(0, np.int64), np.zeros(n, bool), np.zeros(n, np.uint64),
                     codes, p, past.varying)  # fmt: skip
    grown = _Growth(start, np.full(n, -1))
    grown.extend(past.rows[sure], None if residues is None else residues[sure])
    weights = past.rows * codes if residues is None else residues
    keys = (rng.integers(1, 2**64, len(past.rows), dtype=np.uint64)[:, None] * weights).sum(axis=0, dtype=np.uint64)
    keys = np.where(past.rows.any(axis=0), keys | np.uint64(1), np.uint64(0))
    rough = past.reading.with_rough_weights()
    if rough.any():
        keys[rough] = rng.integers(1, 2**64, np.count_nonzero(rough), dtype=np.uint64) | np.uint64(1)
    return PastSpan(grown.form[: grown.rank].copy(), np.array(grown.pivots, np.int64), grown.since >= 0, keys, codes,
                    p, past.varying)  # fmt: skip


def _residues(past: Past) -> tuple[Residues, int]:
    """The weights modulo a prime that holds them, drawn from the weights."""
    matrix = past.reading
    values = matrix.values
    candidates = primes(list(values.numbers.roots.values()), [matrix.indptr, matrix.clients, matrix.codes])
    p = next(filter(values.has_residues, islice(candidates, 1, None)))  # the first is no drawn one
    dense: Residues = values.residues(p)[matrix.dense(np.arange(len(past.rows)))]
    return np.where(past.rows, dense, np.uint64(0)), p


def exposures(start: PastSpan, rows: Rows, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """From which coming round on each client is exposed, (N,), and the rank after each of them, (H,).

    -1 = already in the past; H = not within these rounds.
    """
    since = np.where(start.exposed, -1, len(rows))
    growth = _Growth(start, since)
    weights: Residues | None = None
    if start.generic:
        weights = np.where(rows, rng.integers(1, start.p, rows.shape, dtype=np.uint64), np.uint64(0))
    ranks = growth.extend(rows, weights)
    return growth.since.astype(np.int32), ranks


class _Growth:
    """An echelon form that grows."""

    def __init__(self, start: PastSpan, since: NDArray[np.integer]) -> None:
        n = start.form.shape[1]
        self.p, self.rank, self.pivots = start.p, len(start.form), start.pivots.tolist()
        self.form = np.zeros((n, n), np.uint64)
        self.form[: self.rank] = start.form
        self.since = since.astype(np.int64)
        self._known = since < 0 if len(start.form) else np.zeros(n, bool)

    def extend(self, rows: Rows, weights: Residues | None) -> NDArray[np.int32]:
        """The rank after each row, (H,)."""
        values = rows.astype(np.uint64) if weights is None else weights
        ranks = np.zeros(len(rows), np.int32)
        rng = np.random.Generator(np.random.Philox(key=self.p))
        t = 0
        while t < len(rows):
            rise = self._next_rise(values, t, rng)
            ranks[t:rise] = self.rank
            if rise < len(rows):
                self._add(values[rise], rise)
                ranks[rise] = self.rank
            t = rise + 1
        return ranks

    def _next_rise(self, values: Residues, t: int, rng: np.random.Generator) -> int:
        """The first row from t on outside the span: one whose product with a random null vector is not 0."""
        n = self.form.shape[1]
        if self.rank == n:
            return len(values)
        null = rng.integers(0, self.p, n, dtype=np.uint64)
        null[self.pivots] = 0
        image = times(self.form[: self.rank], null, self.p).sum(axis=1, dtype=np.uint64)
        null[self.pivots] = modulo(np.uint64(self.p) - modulo(image, self.p), self.p)
        step = 8
        while t < len(values):
            block = values[t : t + step]
            outside_span = np.flatnonzero(modulo(times(block, null, self.p).sum(axis=1, dtype=np.uint64), self.p))
            if len(outside_span):
                return t + int(outside_span[0])
            t, step = t + step, 2 * step
        return len(values)

    def _add(self, row: Residues, t: int) -> None:
        p, r = self.p, self.rank
        factors = row[self.pivots]
        used = np.flatnonzero(factors)
        if len(used):
            reduced = times(factors[used, None], self.form[used], p).sum(axis=0, dtype=np.uint64)
            row = modulo(row + np.uint64(p) - modulo(reduced, p), p)
        if not row.any():
            return
        pivot = int(np.flatnonzero(row)[0])
        row = times(row, np.uint64(pow(int(row[pivot]), -1, p)), p)
        hit = np.flatnonzero(self.form[:r, pivot])
        self.form[hit] = modulo(self.form[hit] + (np.uint64(p) - self.form[hit, pivot])[:, None] * row, p)
        self.form[r] = row
        self.pivots.append(pivot)
        self.rank += 1
        touched = np.append(hit, r)
        alone = np.array(self.pivots)[touched[np.count_nonzero(self.form[touched], axis=1) == 1]]
        fresh = alone[~self._known[alone]]
        self._known[fresh] = True
        self.since[fresh] = t


def smallest_class(start: PastSpan, rows: Rows, rng: np.random.Generator) -> NDArray[np.int32]:
    """The strong guarantee after each coming round, (H,): the smallest class of clients with equal columns."""
    numbers = rng.integers(1, 2**64, rows.shape if start.generic else (len(rows), 1), dtype=np.uint64)
    keys = start.keys + np.cumsum(rows * numbers * (1 if start.generic else start.codes), axis=0, dtype=np.uint64)
    in_sums = np.cumsum(rows, axis=0, dtype=np.int32).astype(bool) | (start.keys > 0)
    keys = np.sort(np.where(in_sums, keys, np.uint64(0)), axis=1)
    smallest = np.zeros(len(rows), np.int32)
    for t, row in enumerate(keys):
        ends = np.flatnonzero(np.append(row[1:] != row[:-1], True))
        sizes = np.diff(np.append(-1, ends))[row[ends] > 0]
        smallest[t] = sizes.min(initial=len(row) + 1)
    return smallest
