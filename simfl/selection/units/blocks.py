"""Choosing among disjoint blocks of consecutive clients: what random, weighted, partition and batches share.

A block of size 1 is a client, of size T a batch, of size K a group. The family is never listed: rows of
available blocks chosen uniformly are a sample without replacement.
"""

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Bools, Floats, Integers, Units, View
from simfl.selection.base import Mode, nobody


def choose(view: View, size: int, k: int, mode: Mode, rng: np.random.Generator) -> Units:
    """``k`` clients in whole available blocks of ``size``, shape (k // size, size), or no row; an unresolved mode
    ``auto`` is ``uniform``.

    The view's clients and ``k`` are multiples of ``size``.
    """
    need = count(k, size)
    usable = whole(view.available, size)
    if (there := np.count_nonzero(usable)) < need:
        return nobody(size)
    if mode not in ("least_total", "fair"):
        return members(nth_true(usable, np.sort(rng.choice(there, need, replace=False, shuffle=False))), size)
    blocks = np.flatnonzero(usable)
    if mode == "least_total":
        chosen = blocks[least(totals(view.participation, size)[blocks], need, rng)]
    else:
        first = least_used(view.participation, np.repeat(usable, size), rng) // size
        rest = rng.choice(blocks[blocks != first], need - 1, replace=False, shuffle=False)
        chosen = np.append(rest, first)
    return members(np.sort(chosen), size)


def nth_true(flags: NDArray[np.bool_], ranks: NDArray[np.integer]) -> NDArray[np.int64]:
    """The places of some of the true flags, by their ranks from 0 on, (n,): ``flatnonzero(flags)[ranks]``.

    Only words of 64 flags in which there are such are looked at one by one.
    """
    words = np.zeros(-(-len(flags) // 64), dtype=np.uint64)
    packed = np.packbits(flags)
    words.view(np.uint8)[: len(packed)] = packed
    counts = np.bitwise_count(words).astype(np.int64)
    ends = np.cumsum(counts)
    word = np.searchsorted(ends, ranks, side="right")
    true = np.flatnonzero(np.unpackbits(words[word].view(np.uint8)).view(bool))  # of one word after the other
    first = np.cumsum(counts[word]) - counts[word]
    place: NDArray[np.int64] = true[first + ranks - (ends - counts)[word]] % 64 + 64 * word
    return place


def count(k: int, size: int) -> int:
    """How many units of ``size`` make ``k`` clients."""
    if k <= 0 or k % size:
        raise ValueError(f"k is {k}, no positive multiple of the unit size {size}")
    return k // size


def whole(available: Bools, size: int) -> Bools:
    """Blocks all of whose clients are available, bool (clients // size,)."""
    table = available.reshape(-1, size)
    if size > 16:
        return np.asarray(table.all(axis=1))
    result = table[:, 0]
    for column in range(1, size):  # numpy reduces a short last axis several times slower
        result = result & table[:, column]
    return result


def totals(participation: Integers, size: int) -> Integers:
    """Summed participation of each block, int64 (clients // size,)."""
    table = participation.reshape(-1, size)
    if size > 16:
        return table.sum(axis=1)
    return sum((table[:, column] for column in range(1, size)), start=table[:, 0])


def members(blocks: NDArray[np.integer], size: int) -> Units:
    """The clients of each block, int32 (len(blocks), size)."""
    return (blocks[:, None] * size + np.arange(size)).astype(np.int32)


def least(cost: Integers, need: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Positions of the ``need`` smallest costs, ties broken uniformly."""
    threshold = np.partition(cost, need - 1)[need - 1]
    below = np.flatnonzero(cost < threshold)
    tied = np.flatnonzero(cost == threshold)
    return np.append(below, rng.choice(tied, need - len(below), replace=False, shuffle=False))


def least_used(participation: Integers, among: Bools, rng: np.random.Generator) -> int:
    """The client of least participation where ``among`` is true, ties broken uniformly."""
    clients = np.flatnonzero(among)
    used = participation[clients]
    tied = clients[used == used.min()]
    return int(tied[rng.integers(len(tied))])


def draw_by_weight(
    clients: NDArray[np.integer], weights: Floats, count: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Up to ``count`` clients, one after the other, each with probability proportional to its weight among those left.

    The exponential variables of rate w are in the order of such draws when sorted. One draw a client of the scenario,
    so that who is there changes nobody's.

    Args:
        clients: who may be drawn, (n,), distinct.
        weights: of all clients of the scenario, (clients,), not negative; 0 and NaN are never drawn.
        count: how many.
        rng: the stream.

    Returns:
        int32, ascending.
    """
    times = rng.exponential(size=len(weights))
    among = clients[np.nan_to_num(weights[clients]) > 0]
    first = np.argsort(times[among] / weights[among], kind="stable")[:count]
    return np.sort(among[first]).astype(np.int32)


def of_highest(clients: NDArray[np.integer], values: Floats, count: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Up to ``count`` of the clients, (n,), of highest value, ties at random; values of all clients, (clients,)."""
    ties = rng.permutation(len(values))
    order = np.lexsort((ties[clients], -values[clients]))
    return clients[order[:count]].astype(np.int32)


def in_order(clients: NDArray[np.integer]) -> Units:
    """Single clients as units, ascending."""
    return np.sort(clients).astype(np.int32)[:, None]
