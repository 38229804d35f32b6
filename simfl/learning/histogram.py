"""How a partition deals out the labels."""

import numpy as np
from numpy.typing import NDArray

from simfl.learning.partitions.base import Split

__all__ = ["label_histogram"]


def label_histogram(labels: NDArray[np.int64], split: Split, classes: int) -> NDArray[np.int64]:
    """Samples of each class that each client holds, int64, shape (clients, classes).

    Args:
        labels: class of each training sample, shape (n,).
        split: which client holds which sample.
        classes: number of classes.
    """
    owners = np.repeat(np.arange(len(split)), split.sizes)
    cells = owners * classes + labels[split.indices]
    return np.bincount(cells, minlength=len(split) * classes).reshape(len(split), classes)
