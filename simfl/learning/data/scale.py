"""Scaling of feature columns."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["standardised"]


def standardised(train: NDArray, test: NDArray) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Features (n, columns), shifted and scaled so that every training column has mean 0 and variance 1.

    A column that is constant in the training part becomes 0 there.
    """
    mean = train.mean(axis=0, dtype=np.float64)
    deviation = train.std(axis=0, dtype=np.float64)
    scale = 1 / np.where(deviation > 0, deviation, 1)
    return ((train - mean) * scale).astype(np.float32), ((test - mean) * scale).astype(np.float32)
