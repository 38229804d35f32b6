"""Draws of clients by weights and values, as policies of single clients need them."""

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Units


def draw_by_weight(
    clients: NDArray[np.integer], weights: NDArray[np.float64], count: int, rng: np.random.Generator
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


def of_highest(
    clients: NDArray[np.integer], values: NDArray[np.float64], count: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Up to ``count`` of the clients, (n,), of highest value, ties at random; values of all clients, (clients,)."""
    ties = rng.permutation(len(values))
    order = np.lexsort((ties[clients], -values[clients]))
    return clients[order[:count]].astype(np.int32)


def in_order(clients: NDArray[np.integer]) -> Units:
    """Single clients as units, ascending."""
    return np.sort(clients).astype(np.int32)[:, None]
