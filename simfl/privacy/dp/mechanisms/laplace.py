"""Laplace noise, and shares of it: n differences of two Gamma(1/n, scale) add up to Laplace(scale) exactly.

Of m < n shares remains the symmetric variance-gamma distribution of shape s = m / n, with characteristic function
(1 + scale² t²)^-s: a normal variable whose variance is 2 scale² Gamma(s), and so it is drawn. References: Goryczka and
Xiong, "A comprehensive comparison of multiparty secure additions with differential privacy", TDSC 2017, section 4;
density and mixture in Kotz et al., "The Laplace distribution and generalizations", 2001, section 4.1.
"""

from math import inf, lgamma, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

TINY = 1e-9
"""Square root of what is surely kept: rejected it would be once in 10^18 times."""
PIECE = 1 << 13
"""Draws at a time: they stay in the processor's cache."""
LEAST = -700.0
"""Below, exponentials leave the normal numbers, which is slow."""


def scale(sensitivity: float, epsilon: float) -> float:
    """The scale with which Laplace noise on every coordinate is epsilon-private; sensitivity in L1."""
    return sensitivity / epsilon


def sample(rng: np.random.Generator, scale: float, size: int) -> NDArray[np.float64]:
    """Laplace noise of mean 0, (size,)."""
    return rng.laplace(0.0, scale, size)


def share(rng: np.random.Generator, scale: float, shape: float, size: int) -> NDArray[np.float64]:
    """The law of a difference of two Gamma(shape, scale), (size,); shape 1/n is one of n shares of Laplace(scale)."""
    noise = np.empty(size)
    for first in range(0, size, PIECE):
        part = noise[first : first + PIECE]
        np.multiply(_roots(rng, shape, len(part)), rng.standard_normal(len(part)), out=part)
    noise *= sqrt(2) * scale
    return noise


def _roots(rng: np.random.Generator, shape: float, size: int) -> NDArray[np.float64]:
    """Square roots of Gamma(shape, 1) variables, (size,); below 10^-304 they are anything as small.

    Ahrens and Dieter 1974, algorithm GS, for all at once: U^(1/shape) is kept with exp(-itself), and surely below
    10^-18; but a share of U stands for what is above 1.
    """
    if shape >= 1:
        return np.sqrt(rng.standard_gamma(shape, size))
    roots = rng.standard_exponential(size)
    roots *= -0.5 / shape
    np.maximum(roots, LEAST, out=roots)
    np.exp(roots, out=roots)
    large = np.flatnonzero(roots > TINY)
    x, limit = roots[large] ** 2, rng.standard_exponential(len(large))
    above = np.flatnonzero(x > (1 - shape) ** (1 / shape))
    more = rng.standard_exponential(len(above))
    x[above] = (1 - shape + shape * more) ** (1 / shape)
    limit[above] += more
    roots[large[above]] = np.sqrt(x[above])
    if len(again := large[x > limit]):
        roots[again] = _roots(rng, shape, len(again))
    return roots


def log_density(x: float, scale: float, shape: float) -> float:
    """Natural logarithm of the density of shares of this total shape at x; infinite at 0 up to shape 1/2."""
    from scipy.special import kve

    z, order = abs(x) / scale, shape - 0.5
    constant = -log(sqrt(pi) * scale) - lgamma(shape)
    if z == 0:
        return constant + lgamma(order) - log(2) if order > 0 else inf
    return constant + order * log(z / 2) + log(kve(order, z)) - z


def pure_epsilon(sensitivity: float, scale: float, shape: float = 1.0, coordinates: int = 1) -> float:
    """The pure epsilon of shares of this total shape on every coordinate.

    From shape 1 on it is sensitivity / scale. Below, the density is completely monotone on either side of 0, so that
    the loss is largest at 0 and, being concave in the shift, where the shift is spread evenly over all coordinates:
    d ln f(0)/f(sensitivity / d). Up to shape 1/2 it is infinite.

    Args:
        sensitivity: in L1.
        scale: of the Laplace noise that all shares make.
        shape: of the shares that are there, m / n.
        coordinates: that the noise is added to, d; with none there is nothing to tell.
    """
    if sensitivity == 0 or coordinates == 0:
        return 0.0
    if scale == 0 or shape <= 0.5:
        return inf
    if shape >= 1:
        return sensitivity / scale
    return coordinates * (log_density(0.0, scale, shape) - log_density(sensitivity / coordinates, scale, shape))
