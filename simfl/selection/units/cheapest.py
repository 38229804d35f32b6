"""The cheapest row of half-batch pairs: k non-adjacent starts on a circle of least total cost."""

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray


def cheapest_starts(
    possible: NDArray[np.bool_], cost: NDArray[np.int64], need: int, rng: np.random.Generator
) -> NDArray[np.intp]:
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
