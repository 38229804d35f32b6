"""What several partitions need: equal sizes, exact proportions, samples by class."""

import numpy as np
from numpy.typing import NDArray

from simfl.learning.data.base import Dataset


def equal_sizes(samples: int, clients: int) -> NDArray[np.int64]:
    """Sizes that differ by at most one and add up to ``samples``, shape (clients,)."""
    sizes = np.full(clients, samples // clients)
    sizes[: samples % clients] += 1
    return sizes


def apportion(samples: int, shares: NDArray[np.floating] | NDArray[np.integer]) -> NDArray[np.int64]:
    """Whole numbers that add up to ``samples``, in proportion to ``shares`` (largest remainder), same shape."""
    exact = samples * (shares / shares.sum())
    parts = np.floor(exact).astype(np.int64)
    rest = samples - int(parts.sum())
    parts[np.argsort(parts - exact, kind="stable")[:rest]] += 1
    return parts


def by_class(data: Dataset, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """The training samples of each class, each in random order."""
    order = rng.permutation(len(data.y_train))
    order = order[np.argsort(data.y_train[order], kind="stable")]
    return np.split(order, np.cumsum(np.bincount(data.y_train, minlength=data.classes))[:-1])


def assign_classes(classes: NDArray[np.int64], clients: int, each: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """``each`` different classes for every client, shape (clients, each), all classes about equally often."""
    rows = np.empty((clients, each), dtype=np.int64)
    used = np.zeros(len(classes), dtype=np.int64)
    for client in range(clients):
        chosen = np.lexsort((rng.random(len(classes)), used))[:each]
        used[chosen] += 1
        rows[client] = classes[chosen]
    return rows
