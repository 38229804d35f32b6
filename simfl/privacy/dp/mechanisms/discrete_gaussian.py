"""Discrete Gaussian noise: whole numbers x with probabilities proportional to exp(-x² / 2 sigma²), drawn exactly.

The law is that of Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020; theirs
is the exactness, too, :mod:`simfl.privacy.dp.mechanisms.log_concave` the sampler. The bounds are Kairouz, Liu and
Steinke, "The distributed discrete Gaussian mechanism", ICML 2021, Proposition 13 and Theorem 1.
"""

from decimal import Decimal
from functools import lru_cache
from math import exp, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Floats, Integers
from simfl.privacy.dp.mechanisms.log_concave import CONTEXT, LogConcaveSampler, log_concave_sampler


def sample(rng: np.random.Generator, variance: float, size: int) -> Integers:
    """Discrete Gaussian noise of parameter sigma² = variance, int64 (size,)."""
    return _table(variance).draw(rng, size) if variance else np.zeros(size, dtype=np.int64)


@lru_cache(maxsize=64)
def _table(variance: float) -> LogConcaveSampler:
    def log_f(x: Integers) -> Floats:
        return -(x.astype(np.float64) ** 2) / (2 * variance)

    def exact(x: int) -> Decimal:
        return CONTEXT.exp(CONTEXT.divide(-x * x, CONTEXT.multiply(2, Decimal(variance))))

    return log_concave_sampler(log_f, exact)


def tau(clients: int, variance: float) -> float:
    """How far a sum of ``clients`` variables of parameter ``variance`` each is from one discrete Gaussian, at most."""
    return 10 * sum(exp(-2 * pi**2 * variance * k / (k + 1)) for k in range(1, clients))


def rdp(orders: NDArray[np.floating], l1: float, l2: float, dimension: int, clients: int, variance: float) -> Floats:
    """An upper bound of the Renyi divergence of each order above 1, of the sum of ``clients`` parts in ``dimension``
    coordinates: ``l1``, ``l2`` in steps of the grid, ``variance`` the parameter sigma² of each one's noise.
    """
    alpha, total, off = np.asarray(orders, dtype=np.float64), clients * variance, tau(clients, variance)
    first = alpha * l2**2 / (2 * total) + off * dimension
    second = alpha / 2 * (l2**2 / total + 2 * l1 * off / sqrt(total) + off**2 * dimension)
    third = alpha / 2 * (l2 / sqrt(total) + sqrt(dimension) * off) ** 2
    return np.minimum(np.minimum(first, second), third)
