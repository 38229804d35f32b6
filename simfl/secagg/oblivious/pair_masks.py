"""Masks of all pairs of a cohort that go on from one key agreement, and cancel out in the sum."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.secagg.crypto.field import Elements
from simfl.secagg.crypto.keys import agree, derive, public_key, secret, stretch_seed

STRIDE = 64
"""Rounds between seeds that are kept."""

Seeds = tuple[bytes, ...]


def masks(streams: Streams, clients: NDArray[np.int32], number: int, size: int) -> Elements:
    """What each client adds to its vector in round ``number``, (n, size), not reduced; the rows sum to 0.

    Client i adds the mask it shares with each later client j, and subtracts those shared with earlier ones. The
    seed of a pair is stretched to its mask and the next round's seed (Mugunthan, MIT 2022, appendix A.11).
    """
    rows = np.zeros((len(clients), size), dtype=np.int64)
    seeds = iter(_seeds(streams, tuple(clients.tolist()), number))
    for i in range(len(clients)):
        for j in range(i + 1, len(clients)):
            _, shared = stretch_seed(next(seeds), size)
            rows[i] += shared
            rows[j] -= shared
    return rows


@lru_cache(maxsize=2)
def _seeds(streams: Streams, clients: tuple[int, ...], number: int) -> Seeds:
    """Those of all pairs, row by row of the upper triangle; a cache, for they follow from the arguments alone."""
    if number % STRIDE == 0:
        return _seeds_at_stride(streams, clients, number // STRIDE)
    return _next(_seeds(streams, clients, number - 1))


@lru_cache(maxsize=2)
def _seeds_at_stride(streams: Streams, clients: tuple[int, ...], strides: int) -> Seeds:
    if strides == 0:
        return _first_seeds(streams, clients)
    seeds = _seeds_at_stride(streams, clients, strides - 1)
    for _ in range(STRIDE):
        seeds = _next(seeds)
    return seeds


def _first_seeds(streams: Streams, clients: tuple[int, ...]) -> Seeds:
    private = [secret(streams, "pairwise_ratchet/key", client) for client in clients]
    public = [public_key(key) for key in private]
    return tuple(
        derive(agree(private[i], public[j]), f"secagg ratchet {clients[i]} {clients[j]}".encode())
        for i in range(len(clients))
        for j in range(i + 1, len(clients))
    )


def _next(seeds: Seeds) -> Seeds:
    return tuple(stretch_seed(seed, 0)[0] for seed in seeds)
