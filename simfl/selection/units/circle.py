"""Uniformly random disjoint pairs of neighbours on a circle of half-batches, some of them unusable.

A start s takes the half-batches s and s+1. Valid choices of ``need`` starts have both half-batches usable and no
two starts adjacent; they are as many as the ``need``-matchings of the graph that joins usable neighbours.
Every function is linear in the number of half-batches.
"""

import numpy as np
from numpy.typing import NDArray

from simfl.selection.units.pairs import draw_pairs, place_pairs

Mask = NDArray[np.bool_]

TRIES = 8
"""Plain draws of starts that are tried before the exact counting takes over; both give the same law."""


def starts(usable: Mask) -> Mask:
    """Starts both of whose half-batches are usable, bool (M,)."""
    return usable & np.roll(usable, -1)


def coverable(usable: Mask) -> Mask:
    """Half-batches that some valid choice contains, provided there is one, bool (M,).

    A usable half-batch with a usable neighbour is in some largest choice: in an even run all are, in an odd run any
    other of the half-batches at even distance from the end can be the one left out.
    """
    return usable & (np.roll(usable, 1) | np.roll(usable, -1))


def runs(usable: Mask) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First half-batch and length of each maximal run of usable half-batches; some half-batch is unusable."""
    gap = int(np.argmin(usable))
    flat = np.zeros(len(usable) + 2, dtype=np.int8)
    flat[1:-1] = np.roll(usable, -gap)
    edges = np.flatnonzero(np.diff(flat))
    return (edges[::2] + gap) % len(usable), edges[1::2] - edges[::2]


def capacity(usable: Mask) -> int:
    """The most starts that a valid choice can hold."""
    return len(usable) // 2 if usable.all() else int((runs(usable)[1] // 2).sum())


def uniform_starts(usable: Mask, need: int, rng: np.random.Generator, covered: int | None = None) -> NDArray[np.intp]:
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
    possible: Mask, need: int, rng: np.random.Generator, covered: int | None, fixed: list[int] | None
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
    usable: Mask, need: int, rng: np.random.Generator, covered: int | None, fixed: list[int] | None
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
