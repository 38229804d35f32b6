"""Uniformly random disjoint pairs of neighbours in runs: exact, without a table of runs times pairs.

A run of length L holds j disjoint neighbouring pairs in C(L-j, j) ways. To spread ``pairs`` of them over many runs
with probability proportional to the product of these numbers, every run draws its own j with weight
C(L-j, j) x^j, and a draw is kept if the sum is right: x cancels from the law of a kept draw, whatever it is, and is
chosen so that the expected sum is right. Runs of one length are exchangeable, so a draw costs one multinomial for
each distinct length. Matching numbers have only real roots (Heilmann and Lieb 1972), so the sum is distributed like
one of independent coins, and about one draw in sqrt(2 pi pairs), or more, is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["draw_pairs", "place_pairs"]

Integers = NDArray[np.integer]
Floats = NDArray[np.float64]

BATCH = 16
"""Draws made at a time."""

LIMIT = 80.0
"""Bound on |log x|: beyond exp(80) one pair more outweighs every number of ways it can be had in."""


def draw_pairs(alternatives: Sequence[Integers], pairs: int, rng: np.random.Generator) -> tuple[int, Integers]:
    """How many pairs each run holds when (alternative, placement of all pairs) is uniformly random.

    Args:
        alternatives: the run lengths to choose from, each shape (runs,).
        pairs: pairs in all; at least one alternative has room for them.
        rng: the stream.

    Returns:
        The alternative's number and the pairs of each of its runs, int64 (runs,).
    """
    lengths = [_Lengths.of(each, pairs) for each in alternatives]
    x = max(lengths, key=lambda each: each.capacity).balance(pairs)
    tilted = [each.tilt(x) for each in lengths]
    weight = np.array([each.log_weight for each in tilted])
    share = np.exp(weight - weight.max())
    while True:
        which = rng.choice(len(tilted), size=BATCH, p=share / share.sum())
        total = np.empty(BATCH, dtype=np.int64)
        drawn = []
        for number, each in enumerate(tilted):
            mine = which == number
            drawn.append([rng.multinomial(n, p, size=np.count_nonzero(mine)) for n, p in each.laws])
            total[mine] = sum(counts @ np.arange(counts.shape[1]) for counts in drawn[number])
        kept = np.flatnonzero(total == pairs)
        if len(kept):
            number = int(which[kept[0]])
            row = np.count_nonzero(which[: kept[0]] == number)
            return number, lengths[number].spread([counts[row] for counts in drawn[number]], rng)


def place_pairs(lengths: Integers, counts: Integers, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Uniformly random places for ``counts[r]`` disjoint neighbouring pairs in run r.

    Args:
        lengths: run lengths, shape (runs,).
        counts: pairs in each, shape (runs,), at most half its length.
        rng: the stream.

    Returns:
        For each pair the run it is in and the offset of its first element there, both shape (counts.sum(),).
    """
    held = np.flatnonzero(counts)
    kinds, kind = np.unique(np.stack([lengths[held], counts[held]]), axis=1, return_inverse=True)
    runs, offsets = [], []
    for number, (length, j) in enumerate(kinds.T):
        mine = held[kind.ravel() == number]
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


class _Tilted(NamedTuple):
    """Run lengths at a given x: log of the summed weight, expected pairs, (runs, law of a run's pairs) a length."""

    log_weight: float
    mean: float
    laws: list[tuple[int, Floats]]


@dataclass(frozen=True)
class _Lengths:
    """Runs grouped by length; the numbers of ways of all lengths lie in one flat array.

    Attributes:
        group: group of each run, shape (runs,).
        size: runs in each group.
        first: where each group's part of the flat arrays starts.
        j: number of pairs, flat.
        log_ways: log C(L-j, j), flat.
    """

    group: Integers
    size: Integers
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
        return cls(group, size, first, j, log_ways)

    @property
    def capacity(self) -> int:
        return int((self.size * np.maximum.reduceat(self.j, self.first)).sum())

    def tilt(self, x: float) -> _Tilted:
        """Every run's law with weights C(L-j, j) exp(x j)."""
        weight = self.log_ways + x * self.j
        entries = np.diff(np.append(self.first, len(self.j)))
        peak = np.maximum.reduceat(weight, self.first)
        p = np.exp(weight - np.repeat(peak, entries))
        total = np.add.reduceat(p, self.first)
        p /= np.repeat(total, entries)
        mean = float(self.size @ np.add.reduceat(p * self.j, self.first))
        laws = list(zip(self.size.tolist(), np.split(p, self.first[1:]), strict=True))
        return _Tilted(float(self.size @ (np.log(total) + peak)), mean, laws)

    def balance(self, pairs: int) -> float:
        """x at which ``pairs`` are expected, up to a small part of a standard deviation (at most sqrt(pairs))."""
        low, high = -LIMIT, LIMIT
        while high - low > 0.1 / (1 + pairs) ** 0.5:
            middle = (low + high) / 2
            low, high = (middle, high) if self.tilt(middle).mean < pairs else (low, middle)
        return high

    def spread(self, counts: Sequence[Integers], rng: np.random.Generator) -> Integers:
        """Pairs of each run, given how many runs of each group hold 0, 1, ... pairs."""
        pairs = np.empty(len(self.group), dtype=np.int64)
        for number, held in enumerate(counts):
            pairs[self.group == number] = rng.permutation(np.repeat(np.arange(len(held)), held))
        return pairs
