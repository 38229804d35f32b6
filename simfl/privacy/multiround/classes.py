"""Classes of clients with identical columns, refined round by round: exact, in one pass over the entries."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.multiround.participation_matrix import ParticipationMatrix


@dataclass(frozen=True)
class Classes:
    """The partition of the clients seen so far into classes of identical columns (MR App. C), after every round.

    Attributes:
        label: int64, shape (N,): class of each client after the last round, -1 where it was never seen.
        size: int64, shape (M,): clients in each class after the last round.
        count: int64, shape (J,): number of classes after each round.
        smallest: int64, shape (J,): size of the smallest class after each round; N + 1 before there is one.
    """

    label: NDArray[np.int64]
    size: NDArray[np.int64]
    count: NDArray[np.int64]
    smallest: NDArray[np.int64]


def strong_guarantee(P: object, doubles: bool = False) -> int:
    """The size of the smallest class of a participation matrix, dense or sparse (J, N); N + 1 without an aggregate."""
    rounds = ParticipationMatrix.of(P, doubles)
    return int(identical(rounds).smallest[-1])


def identical(rounds: ParticipationMatrix) -> Classes:
    """Splits classes by what each round gives their members; class 0 holds the clients not seen yet."""
    n_rounds, n_clients = rounds.shape
    label = np.zeros(n_clients, dtype=np.int64)
    size = np.zeros(n_clients + 1, dtype=np.int64)
    size[0] = n_clients
    count = np.zeros(n_rounds, dtype=np.int64)
    smallest = np.full(n_rounds, n_clients + 1, dtype=np.int64)
    weights = len(rounds.values.floats)
    last, least = 0, n_clients + 1  # highest label in use; a class only ever splits, so the least size only falls
    for t in range(n_rounds):
        span = slice(rounds.indptr[t], rounds.indptr[t + 1])
        clients = rounds.clients[span]
        if len(clients):
            keys = label[clients] * weights + rounds.codes[span]
            keys, place, members = np.unique(keys, return_inverse=True, return_counts=True)
            old, start = np.unique(keys // weights, return_index=True)
            left = size[old] - np.add.reduceat(members, start)
            known = old > 0
            whole = known & (left == 0)  # a class that is touched whole lends its number to its first part
            new = np.zeros(len(keys), dtype=np.int64)
            new[start[whole]] = old[whole]
            fresh = np.flatnonzero(new == 0)
            new[fresh] = np.arange(last + 1, last + 1 + len(fresh))
            last += len(fresh)
            size[old] = left
            size[new] = members
            label[clients] = new[place]
            least = min(least, int(members.min()), int(left[known & ~whole].min(initial=least)))
        count[t], smallest[t] = last, least
    return Classes(label - 1, size[1 : last + 1].copy(), count, smallest)
