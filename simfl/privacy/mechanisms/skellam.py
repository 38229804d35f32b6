"""Skellam noise: whole numbers, differences of two Poisson variables, whose sums are Skellam again.

Reference: Agarwal, Kairouz and Liu, "The Skellam mechanism for differentially private federated learning", NeurIPS
2021, Theorem 3.5.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["rdp", "sample"]


def sample(rng: np.random.Generator, variance: float, size: int) -> NDArray[np.int64]:
    """Skellam noise of mean 0 and this variance, int64 (size,)."""
    return rng.poisson(variance / 2, size) - rng.poisson(variance / 2, size)


def rdp(orders: NDArray[np.int64], l1: float, l2: float, variance: float) -> NDArray[np.float64]:
    """An upper bound of the Renyi divergence of each whole order above 1.

    Args:
        orders: alpha.
        l1, l2: sensitivities, in steps of the grid.
        variance: of the noise in the sum, in squares of these.
    """
    alpha = np.asarray(orders, dtype=np.float64)
    more = np.minimum(((2 * alpha - 1) * l2**2 + 6 * l1) / (4 * variance**2), 3 * l1 / (2 * variance))
    return alpha * l2**2 / (2 * variance) + more
