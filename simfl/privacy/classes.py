"""Classes of clients with identical columns, refined round by round: exact, in one pass over the entries."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.field import inverse, times
from simfl.privacy.rounds import Rounds

__all__ = ["SMALLEST", "Classes", "identical", "proportional"]

SMALLEST = 8
"""How many of the smallest class sizes are kept for every round."""


@dataclass(frozen=True)
class Classes:
    """The partition of the clients seen so far into classes of equal columns, after every round.

    Attributes:
        label: int64, shape (N,): class of each client after the last round, -1 where it was never seen.
        size: int64, shape (M,): clients in each class after the last round.
        count: int64, shape (J,): number of classes after each round.
        smallest: int64, shape (J, SMALLEST): sizes of the smallest classes after each round, ascending, filled
            up with N + 1 where there are fewer.
    """

    label: NDArray[np.int64]
    size: NDArray[np.int64]
    count: NDArray[np.int64]
    smallest: NDArray[np.int64]


def identical(rounds: Rounds) -> Classes:
    """Classes of clients with identical columns (the strong notion: MR App. C)."""
    return _refine(rounds, rounds.codes.astype(np.int64))


def proportional(rounds: Rounds) -> Classes:
    """Classes of clients with proportional columns, which vanish together in every combination of rounds."""
    if len(rounds.values.floats) <= 2:
        return identical(rounds)
    p, _ = rounds.values.primes()
    residues = rounds.values.residues(p)[rounds.codes]
    _, first, place = np.unique(rounds.clients, return_index=True, return_inverse=True)
    scaled = times(residues, inverse(residues[first], p)[place], p)
    return _refine(rounds, np.unique(scaled, return_inverse=True)[1])


def _refine(rounds: Rounds, codes: NDArray[np.int64]) -> Classes:
    """Splits classes by what each round gives their members; class 0 holds the clients not seen yet."""
    n_rounds, n_clients = rounds.shape
    label = np.zeros(n_clients, dtype=np.int64)
    size = np.zeros(n_clients + 2, dtype=np.int64)
    size[0] = n_clients
    sizes = np.zeros(n_clients + 1, dtype=np.int64)  # how many classes there are of each size
    count = np.zeros(n_rounds, dtype=np.int64)
    smallest = np.full((n_rounds, SMALLEST), n_clients + 1, dtype=np.int64)
    base = int(codes.max(initial=0)) + 1
    last = 0  # highest label in use
    for t in range(n_rounds):
        span = slice(rounds.indptr[t], rounds.indptr[t + 1])
        clients = rounds.clients[span]
        if len(clients):
            keys, place, members = np.unique(
                label[clients] * base + codes[span], return_inverse=True, return_counts=True
            )
            old, start = np.unique(keys // base, return_index=True)
            left = size[old] - np.add.reduceat(members, start)
            known = old > 0
            sizes -= np.bincount(size[old[known]], minlength=len(sizes))
            # a class that is touched whole lends its number to its first part
            lent = start[known & (left == 0)]
            new = np.zeros(len(keys), dtype=np.int64)
            fresh = np.ones(len(keys), dtype=bool)
            fresh[lent] = False
            new[lent] = old[known & (left == 0)]
            new[fresh] = np.arange(last + 1, last + 1 + fresh.sum())
            last += int(fresh.sum())
            size[old] = left
            size[new] = members
            sizes += np.bincount(members, minlength=len(sizes))
            sizes += np.bincount(left[known & (left > 0)], minlength=len(sizes))
            label[clients] = new[place]
        held = np.flatnonzero(sizes)[:SMALLEST]
        some = np.repeat(held, np.minimum(sizes[held], SMALLEST))[:SMALLEST]
        smallest[t, : len(some)] = some
        count[t] = last
    return Classes(label - 1, size[1 : last + 1].copy(), count, smallest)
