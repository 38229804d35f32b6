"""Staircase noise: the least noise, in mean magnitude or in variance, for a pure epsilon in one coordinate.

Reference: Geng and Viswanath, "The optimal mechanism in differential privacy", ISIT 2014, Theorems 2 to 4 and
Algorithm 1. The density is constant on steps that fall by e^-epsilon every sensitivity.
"""

from math import exp, floor

import numpy as np
from numpy.typing import NDArray

__all__ = ["density", "least_magnitude", "least_variance", "mean_magnitude", "sample", "variance"]


def least_magnitude(epsilon: float) -> float:
    """The width gamma of the high step, of 1, with which the mean magnitude is least."""
    return 1 / (1 + exp(epsilon / 2))


def least_variance(epsilon: float) -> float:
    """The width gamma with which the variance is least."""
    b = exp(-epsilon)
    return -b / (1 - b) + (b - 2 * b**2 + 2 * b**4 - b**5) ** (1 / 3) / (2 ** (1 / 3) * (1 - b) ** 2)


def mean_magnitude(sensitivity: float, epsilon: float) -> float:
    """The least mean magnitude, sensitivity e^(epsilon/2) / (e^epsilon - 1)."""
    return sensitivity * exp(-epsilon / 2) / (1 - exp(-epsilon))


def variance(sensitivity: float, epsilon: float) -> float:
    """The least variance."""
    b = exp(-epsilon)
    return sensitivity**2 * (2 ** (-2 / 3) * b ** (2 / 3) * (1 + b) ** (2 / 3) + b) / (1 - b) ** 2


def density(x: float, sensitivity: float, epsilon: float, gamma: float) -> float:
    """The density at x: a step of width gamma and one, e^-epsilon as high, of width 1 - gamma, in each sensitivity."""
    b, z = exp(-epsilon), abs(x) / sensitivity
    top = (1 - b) / (2 * sensitivity * (gamma + b * (1 - gamma)))
    return top * exp(-epsilon * (floor(z) + (z - floor(z) >= gamma)))


def sample(
    rng: np.random.Generator, sensitivity: float, epsilon: float, gamma: float, size: int
) -> NDArray[np.float64]:
    """Staircase noise of mean 0, (size,)."""
    steps = np.floor(rng.standard_exponential(size) / epsilon)  # at least g with probability e^(-epsilon g)
    which, u = rng.random(size), rng.random(size)
    negative = which < 0.5
    low = np.where(negative, which, which - 0.5) >= 0.5 * gamma / (gamma + (1 - gamma) * exp(-epsilon))
    found = sensitivity * (steps + np.where(low, gamma + (1 - gamma) * u, gamma * u))
    return np.where(negative, -found, found)
