"""Scaling of features."""

import numpy as np
from numpy.typing import NDArray


def standardise(train: NDArray[np.number], test: NDArray[np.number]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Features (n, columns), shifted and scaled so that every training column has mean 0 and variance 1.

    A column that is constant in the training part becomes 0 there.
    """
    mean = train.mean(axis=0, dtype=np.float64)
    deviation = train.std(axis=0, dtype=np.float64)
    scale = 1 / np.where(deviation > 0, deviation, 1)
    return ((train - mean) * scale).astype(np.float32), ((test - mean) * scale).astype(np.float32)


def unit_rows(x: NDArray[np.number]) -> NDArray[np.float32]:
    """Features (n, columns) of 0 or more, columns scaled to at most 1, then rows to Euclidean norm 1.

    Reference: Chaudhuri, Monteleoni and Sarwate, "Differentially private empirical risk minimization", JMLR 2011,
    section 5.1.
    """
    most = x.max(axis=0)
    scaled = x / np.where(most > 0, most, 1)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return (scaled / np.where(norms > 0, norms, 1)).astype(np.float32)
