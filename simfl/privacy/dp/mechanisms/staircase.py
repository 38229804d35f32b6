"""Staircase noise: the least noise, in mean magnitude or in variance, for a pure epsilon in one coordinate.

Reference: Geng and Viswanath, "The optimal mechanism in differential privacy", ISIT 2014, Theorems 2 to 4 and
Algorithm 1. The density is constant on steps that fall by e^-epsilon every sensitivity.
"""

from math import ceil, exp, isfinite, isqrt

import numpy as np

from simfl.core.types import Floats

PIECE = 1 << 13
"""Draws at a time: they stay in the processor's cache."""


def least_magnitude(epsilon: float) -> float:
    """The width gamma of the high step, of 1, with which the mean magnitude is least."""
    return 1 / (1 + exp(epsilon / 2))


def least_variance(epsilon: float) -> float:
    """The width gamma with which the variance is least."""
    b = exp(-epsilon)
    return -b / (1 - b) + (b - 2 * b**2 + 2 * b**4 - b**5) ** (1 / 3) / (2 ** (1 / 3) * (1 - b) ** 2)


def pure_epsilon(moved: float, sensitivity: float, epsilon: float, coordinates: int = 1) -> float:
    """The pure epsilon of such noise on every one of ``coordinates``, of a vector that moves by ``moved`` in the L2
    norm.

    In one coordinate the density falls by e^-epsilon wherever ceil(|shift| / sensitivity) steps are crossed, and the
    least shift crosses one. So the worst shift crosses a step in every coordinate, and further ones where the norm
    allows: the (m + 1)-th costs more than (m sensitivity)^2 - ((m - 1) sensitivity)^2 of its square. The other
    coordinates' shifts can be as small as they like. ``epsilon`` is that of a step, ``sensitivity`` its width.
    """
    if moved == 0 or coordinates == 0:
        return 0.0
    ratio = moved / sensitivity * (1 - 1e-9) if sensitivity else float("inf")  # whole numbers survive their rounding
    if not isfinite(ratio * ratio):
        return float("inf")
    square = ceil(ratio**2) - 1  # sums of squares of whole numbers are below the ratio's
    # m further steps in every coordinate cost d m^2, and one more in one of them 2 m + 1
    m = isqrt(square // coordinates)
    more = min((square - coordinates * m**2) // (2 * m + 1), coordinates)
    return epsilon * (coordinates * (1 + m) + more)


def sample(rng: np.random.Generator, sensitivity: float, epsilon: float, gamma: float, size: int) -> Floats:
    """Staircase noise of mean 0, (size,)."""
    noise, top = np.empty(size), 0.5 * gamma / (gamma + (1 - gamma) * exp(-epsilon))
    for first in range(0, size, PIECE):
        part = noise[first : first + PIECE]
        part[:] = rng.standard_exponential(len(part))
        part /= epsilon
        np.floor(part, out=part)  # at least g with probability e^(-epsilon g)
        side, u = rng.random((2, len(part)))
        side -= 0.5
        high = np.abs(side) < top
        part += np.where(high, 0.0, gamma)
        part += u * np.where(high, gamma, 1 - gamma)
        part *= sensitivity
        np.copysign(part, side, out=part)
    return noise
