"""Uniformly random disjoint pairs of neighbours in runs: exact, without a table of runs times pairs.

A run of length L holds j disjoint neighbouring pairs in C(L-j, j) ways. To spread ``pairs`` of them over many runs
with probability proportional to the product of these numbers, every run draws its own j with weight
C(L-j, j) exp(x j), and a draw is kept if the sum is right: x cancels from the law of a kept draw, whatever it is, and
is chosen so that the expected sum is right. Runs of one length are exchangeable, so a draw costs one multinomial for
each distinct length. Matching numbers have only real roots (Heilmann and Lieb 1972), so the sum is distributed like
one of independent coins, and about one draw in sqrt(2 pi pairs), or more, is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer]
Floats = NDArray[np.float64]

BATCH = 16
"""Draws made at a time."""

LIMIT = 80.0
"""Bound on |x|: a weight of exp(80) for one pair more outdoes every number of ways to place it."""


def draw_pairs(alternatives: Sequence[Integers], pairs: int, rng: np.random.Generator) -> tuple[int, Integers]:
    """How many pairs each run holds when (alternative, placement of all pairs) is uniformly random: the alternative's
    number and the pairs of each of its runs, int64 (runs,).

    At least one of the alternatives, run lengths of shape (runs,), has room for all pairs.
    """
    lengths = [_Lengths.of(each, pairs) for each in alternatives]
    x = max(lengths, key=lambda each: each.capacity).balance(pairs)
    laws = [each.laws(x) for each in lengths]
    weight = np.array([each.tilt(x)[1] for each in lengths])
    share = np.exp(weight - weight.max())
    while True:
        which = rng.choice(len(laws), size=BATCH, p=share / share.sum())
        total = np.empty(BATCH, dtype=np.int64)
        draws = []
        for number, law in enumerate(laws):
            mine = which == number
            draws.append([rng.multinomial(n, p, size=np.count_nonzero(mine)) for n, p in law])
            total[mine] = sum(counts @ np.arange(counts.shape[1]) for counts in draws[number])
        right = np.flatnonzero(total == pairs)
        if len(right):
            number = int(which[right[0]])
            row = np.count_nonzero(which[: right[0]] == number)
            return number, lengths[number].spread([counts[row] for counts in draws[number]], rng)


def place_pairs(lengths: Integers, counts: Integers, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Uniformly random places for ``counts[r]`` disjoint neighbouring pairs in run r, at most half its length: for each
    pair its run and the offset of its first element there, both (counts.sum(),).
    """
    filled = np.flatnonzero(counts)
    kinds, kind = np.unique(np.stack([lengths[filled], counts[filled]]), axis=1, return_inverse=True)
    runs, offsets = [], []
    for number, (length, j) in enumerate(kinds.T):
        mine = filled[kind.ravel() == number]
        runs.append(np.repeat(mine, j))
        # j of length - j places in ascending order; each pair pushes what follows it on by one
        offsets.append((np.sort(_subsets(len(mine), length - j, j, rng), axis=1) + np.arange(j)).ravel())
    none = np.empty(0, dtype=np.int64)
    return np.concatenate([none, *runs]), np.concatenate([none, *offsets])


def _subsets(n: int, of: int, size: int, rng: np.random.Generator) -> Integers:
    """``n`` independent uniformly random ``size``-subsets of 0 .. of-1, shape (n, size)."""
    if of < 500:
        return np.argpartition(rng.random((n, of)), size - 1, axis=1)[:, :size]
    return np.stack([rng.choice(of, size, replace=False, shuffle=False) for _ in range(n)])


@dataclass(frozen=True)
class _Lengths:
    """Runs grouped by length; the numbers of ways of all lengths lie in one flat array.

    Attributes:
        group: group of each run, shape (runs,).
        size: runs in each group.
        entries: numbers of pairs a run of the group can hold, 0 included.
        first: where the group's part of the flat arrays starts.
        j: number of pairs, flat.
        log_ways: log C(L-j, j), flat.
    """

    group: Integers
    size: Integers
    entries: Integers
    first: Integers
    j: Integers
    log_ways: Floats

    @classmethod
    def of(cls, lengths: Integers, most: int) -> Self:
        from scipy.special import gammaln

        length, group, size = np.unique(lengths, return_inverse=True, return_counts=True)
        entries = np.minimum(length // 2, most) + 1
        first = np.cumsum(entries) - entries
        j = np.arange(entries.sum()) - np.repeat(first, entries)
        free = np.repeat(length, entries) - j
        log_ways = gammaln(free + 1.0) - gammaln(j + 1.0) - gammaln(free - j + 1.0)
        return cls(group, size, entries, first, j, log_ways)

    @property
    def capacity(self) -> int:
        return int(self.size @ (self.entries - 1))

    def tilt(self, x: float) -> tuple[Floats, float]:
        """Every length's law with weights C(L-j, j) exp(x j), flat, and the log of the summed weight of all runs."""
        weight = self.log_ways + x * self.j
        peak = np.maximum.reduceat(weight, self.first)
        p = np.exp(weight - np.repeat(peak, self.entries))
        total = np.add.reduceat(p, self.first)
        return p / np.repeat(total, self.entries), float(self.size @ (np.log(total) + peak))

    def laws(self, x: float) -> list[tuple[int, Floats]]:
        """For each length how many runs have it, and the law of a run's pairs."""
        return list(zip(self.size.tolist(), np.split(self.tilt(x)[0], self.first[1:]), strict=True))

    def balance(self, pairs: int) -> float:
        """x at which ``pairs`` are expected, up to a tenth of a standard deviation: Newton's steps in a bracket."""
        x, low, high = 0.0, -LIMIT, LIMIT
        while True:
            p, _ = self.tilt(x)
            mean = np.add.reduceat(p * self.j, self.first)
            variance = float(self.size @ (np.add.reduceat(p * self.j**2, self.first) - mean**2))
            gap = pairs - float(self.size @ mean)
            if gap**2 <= 0.01 * variance or high - low < 1e-6:
                return x
            low, high = (x, high) if gap > 0 else (low, x)
            x = x + gap / variance if variance > 0 else high
            if not low < x < high:
                x = (low + high) / 2

    def spread(self, counts: Sequence[Integers], rng: np.random.Generator) -> Integers:
        """Pairs of each run, given how many runs of each group hold 0, 1, ... pairs."""
        pairs = np.empty(len(self.group), dtype=np.int64)
        for number, runs in enumerate(counts):
            pairs[self.group == number] = rng.permutation(np.repeat(np.arange(len(runs)), runs))
        return pairs
