"""Uniformly random disjoint pairs of neighbours on a circle of half-batches, some of them unusable.

A start s takes the half-batches s and s+1. Valid choices of ``need`` starts have both half-batches usable and no
two starts adjacent; they are as many as the ``need``-matchings of the graph that joins usable neighbours.
Every function is linear in the number of half-batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Bools, Floats

TRIES = 8
"""Plain draws of starts that are tried before the exact counting takes over; both give the same law."""


def starts(usable: Bools) -> Bools:
    """Starts both of whose half-batches are usable, bool (M,)."""
    return usable & np.roll(usable, -1)


def coverable(usable: Bools) -> Bools:
    """Half-batches that some valid choice contains, provided there is one, bool (M,).

    A usable half-batch with a usable neighbour is in some largest choice: in an even run all are, in an odd run any
    other of the half-batches at even distance from the end can be the one left out.
    """
    return usable & (np.roll(usable, 1) | np.roll(usable, -1))


def runs(usable: Bools) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First half-batch and length of each maximal run of usable half-batches; some half-batch is unusable."""
    gap = int(np.argmin(usable))
    flat = np.zeros(len(usable) + 2, dtype=np.int8)
    flat[1:-1] = np.roll(usable, -gap)
    edges = np.flatnonzero(np.diff(flat))
    return (edges[::2] + gap) % len(usable), edges[1::2] - edges[::2]


def capacity(usable: Bools) -> int:
    """The most starts that a valid choice can hold."""
    return len(usable) // 2 if usable.all() else int((runs(usable)[1] // 2).sum())


def uniform_starts(usable: Bools, need: int, rng: np.random.Generator, covered: int | None = None) -> NDArray[np.intp]:
    """``need`` starts, uniformly over the valid choices [that contain the half-batch ``covered``], ascending.

    ``usable`` is bool (M,), M even; ``need`` between 1 and ``capacity(usable)``; ``covered`` of ``coverable(usable)``.
    """
    m = len(usable)
    if usable.all():
        first = rng.integers(m) if covered is None else covered - rng.integers(2)
        rest = place_pairs(np.array([m - 2]), np.array([need - 1]), rng)[1]
        return np.sort(np.append(first, first + 2 + rest) % m)
    possible = starts(usable)
    fixed = None if covered is None else [s for s in ((covered - 1) % m, covered) if possible[s]]
    chosen = _by_trial(possible, need, rng, covered, fixed)
    if chosen is None:
        chosen = _by_counting(usable, need, rng, covered, fixed)
    return np.sort(chosen)


def _by_trial(
    possible: Bools, need: int, rng: np.random.Generator, covered: int | None, fixed: list[int] | None
) -> NDArray[np.intp] | None:
    """Draws starts until no two are adjacent; None if that is unlikely or did not happen.

    With ``fixed``, one start is drawn from there and the others from a pool that is the same for each of them, so
    that all (start, others) are equally likely.
    """
    m = len(possible)
    pool = np.flatnonzero(possible)
    if fixed is not None and covered is not None:
        pool = pool[(pool != covered) & (pool != (covered - 1) % m)]
        need -= 1
    neighbours = np.count_nonzero(possible & np.roll(possible, -1))
    if neighbours * need * need > 3 * len(pool) * len(pool):
        return None
    for _ in range(TRIES):
        chosen = pool[rng.choice(len(pool), need, replace=False, shuffle=False)]
        if fixed is not None:
            chosen = np.append(chosen, fixed[rng.integers(len(fixed))])
        chosen.sort()
        if (np.diff(chosen) > 1).all() and chosen[-1] - chosen[0] < m - 1:
            return chosen
    return None


def _by_counting(
    usable: Bools, need: int, rng: np.random.Generator, covered: int | None, fixed: list[int] | None
) -> NDArray[np.intp]:
    """Counts the choices by runs and draws one."""
    m = len(usable)
    first, length = runs(usable)
    if fixed is None or covered is None:
        _, counts = draw_pairs([length], need, rng)
        run, offset = place_pairs(length, counts, rng)
        return (first[run] + offset) % m
    home = int(np.flatnonzero((covered - first) % m < length)[0])
    other = np.arange(len(first)) != home
    cut = []
    for start in fixed:  # it cuts the run of the covered half-batch in two
        left = (start - first[home]) % m
        firsts = np.append(first[other], [first[home], start + 2])
        cut.append((firsts, np.append(length[other], [left, length[home] - left - 2])))
    which, counts = draw_pairs([lengths for _, lengths in cut], need - 1, rng)
    run, offset = place_pairs(cut[which][1], counts, rng)
    return np.append(cut[which][0][run] + offset, fixed[which]) % m


Integers = NDArray[np.integer]

BATCH = 16
"""Draws made at a time."""

LIMIT = 80.0
"""Bound on |x|: a weight of exp(80) for one pair more outdoes every number of ways to place it."""


def draw_pairs(alternatives: Sequence[Integers], pairs: int, rng: np.random.Generator) -> tuple[int, Integers]:
    """How many pairs each run holds when (alternative, placement of all pairs) is uniformly random: the alternative's
    number and the pairs of each of its runs, int64 (runs,).

    At least one of the alternatives, run lengths of shape (runs,), has room for all pairs. Exact, without a table of
    runs times pairs.

    A run of length L holds j disjoint neighbouring pairs in C(L-j, j) ways. To spread ``pairs`` of them over many runs
    with probability proportional to the product of these numbers, every run draws its own j with weight C(L-j, j) exp(x
    j), and a draw is kept if the sum is right: x cancels from the law of a kept draw, whatever it is, and is chosen so
    that the expected sum is right. Runs of one length are exchangeable, so a draw costs one multinomial for each
    distinct length. Matching numbers have only real roots (Heilmann and Lieb 1972), so the sum is distributed like one
    of independent coins, and about one draw in sqrt(2 pi pairs), or more, is kept.
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


def cheapest_starts(possible: Bools, cost: NDArray[np.int64], need: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """``need`` >= 1 possible starts, no two adjacent on the circle, of least summed cost; ascending.

    ``possible``, bool (M,), has ``need`` non-adjacent ones; ``cost`` is int64 (M,). Ties are broken by an independent
    random weight for each start: among rows of equal cost the one of least summed weight is taken, so that no row of
    them is preferred by its place on the circle.

    Successive shortest augmentation: the cheapest start is taken, then its place is given to its two neighbours at
    the price of giving it up, and so on; exact because the optimum is convex in ``need``. Linear in the circle, plus
    ``need`` steps on a heap: a chosen start shuts out at most itself and two others, so the optimum lies among the
    3 need - 2 cheapest starts.
    """
    pool = np.flatnonzero(possible)
    tie = rng.random(len(pool))
    if len(pool) > (most := 3 * need - 2):
        cheapest = np.sort(np.argpartition(cost[pool] + tie, most - 1)[:most])
        pool, tie = pool[cheapest], tie[cheapest]
    n = len(pool)
    joined = (np.roll(pool, -1) - pool) % len(possible) == 1  # position i and the next one exclude each other
    right = np.where(joined, (np.arange(n) + 1) % n, -1).tolist()
    left = np.where(np.roll(joined, 1), (np.arange(n) - 1) % n, -1).tolist()
    price = list(zip(cost[pool].tolist(), tie.tolist(), strict=True))
    span = [(i, i) for i in range(n)]  # the positions whose choice a node turns over
    gone = [False] * n
    heap = [(*price[i], i) for i in range(n)]
    heapify(heap)
    turns = np.zeros(n + 1, dtype=np.int64)
    for _ in range(need):
        while gone[node := heappop(heap)[2]]:
            pass
        _turn(turns, *span[node])
        before, after = left[node], right[node]
        if _absorb(node, left, right, gone):  # else there is nothing to give it up for
            price[node] = tuple(b + a - c for b, a, c in zip(price[before], price[after], price[node], strict=True))
            span[node] = span[before][0], span[after][1]
            heappush(heap, (*price[node], node))
    return pool[np.cumsum(turns[:-1]) % 2 == 1]


def _turn(turns: NDArray[np.int64], low: int, high: int) -> None:
    """Turns over the choice of the positions low .. high of the circle, as differences of their counts of turns."""
    turns[low] += 1
    turns[high + 1] -= 1
    if high < low:  # around position 0
        turns[0] += 1
        turns[-1] -= 1


def _absorb(node: int, left: list[int], right: list[int], gone: list[bool]) -> bool:
    """Takes a chosen node's neighbours out of the circle, so that it stands for all three; False where there are not
    two.

    ``left``, ``right``: the neighbours of each node, -1 for none, and ``gone``: nodes no longer there; all updated.
    """
    before, after = left[node], right[node]
    outer_left = left[before] if before >= 0 else -1
    outer_right = right[after] if after >= 0 else -1
    both = before >= 0 and after >= 0 and before != after
    for side in (before, after):
        if side >= 0:
            gone[side] = True
    left[node], right[node] = outer_left, outer_right
    if outer_left >= 0:
        right[outer_left] = node if both else -1
    if outer_right >= 0:
        left[outer_right] = node if both else -1
    return both
