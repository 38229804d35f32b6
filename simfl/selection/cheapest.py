"""The cheapest row of half-batch pairs: k non-adjacent starts on a circle of least total cost."""

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

__all__ = ["cheapest_starts"]


def cheapest_starts(
    possible: NDArray[np.bool_], cost: NDArray[np.int64], need: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """``need`` possible starts, no two adjacent on the circle, of least summed cost; ascending.

    Ties are broken by an independent random weight for each start: among rows of equal cost the one of least summed
    weight is taken, so that no row of them is preferred by its place on the circle.

    Successive shortest augmentation: the cheapest start is taken, then its place is given to its two neighbours at
    the price of giving it up, and so on; exact because the optimum is convex in ``need``. Linear in the circle, plus
    ``need`` steps on a heap: a chosen start shuts out at most itself and two others, so the optimum lies among the
    3 need - 2 cheapest starts.

    Args:
        possible: bool (M,): starts that may be taken; ``need`` non-adjacent ones exist.
        cost: int64 (M,).
        need: how many, at least 1.
        rng: the stream.
    """
    pool = np.flatnonzero(possible)
    tie = rng.random(len(pool))
    if len(pool) > (most := 3 * need - 2):
        kept = np.sort(np.argpartition(cost[pool] + tie, most - 1)[:most])
        pool, tie = pool[kept], tie[kept]
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
        low, high = span[node]
        turns[low] += 1
        turns[high + 1] -= 1
        if high < low:  # around position 0
            turns[0] += 1
            turns[n] -= 1
        before, after = left[node], right[node]
        for side in (before, after):
            if side >= 0:
                gone[side] = True
        outer_left = left[before] if before >= 0 else -1
        outer_right = right[after] if after >= 0 else -1
        if before < 0 or after < 0 or before == after:  # nothing to give it up for
            if before >= 0 and outer_left >= 0:
                right[outer_left] = -1
            if after >= 0 and outer_right >= 0:
                left[outer_right] = -1
            continue
        price[node] = tuple(b + a - own for b, a, own in zip(price[before], price[after], price[node], strict=True))
        span[node] = (span[before][0], span[after][1])
        left[node], right[node] = outer_left, outer_right
        if outer_left >= 0:
            right[outer_left] = node
        if outer_right >= 0:
            left[outer_right] = node
        heappush(heap, (*price[node], node))
    return pool[np.cumsum(turns[:-1]) % 2 == 1]
