"""Discrete Laplace noise: whole numbers k with probabilities proportional to e^(-|k| / scale), and shares of it.

A geometric variable is the sum of n negative binomial (Polya) ones of shape 1/n, so that n differences of two of them
are discrete Laplace, exactly, and whole: what a field can add up. A difference of two negative binomials of shape s is
a sum of a Poisson number of jumps of either sign and logarithmic size, which is how it is drawn; a logarithmic variable
is geometric with a random parameter. With v_j = Gamma(j + s) / j!, e^(-j / scale) v_j being the probabilities of one of
them but for a factor, the difference is k >= 0 as often as e^(-k / scale) sum_j v_j v_(j+k) e^(-2 j / scale).

References: Ghosh, Roughgarden and Sundararajan, "Universally utility-maximizing privacy mechanisms", STOC 2009;
Goryczka and Xiong, "A comprehensive comparison of multiparty secure additions with differential privacy", TDSC 2017
(shares); Kemp, "Efficient generation of logarithmically distributed pseudo-random variables", Applied Statistics 1981.
"""

from math import exp, expm1, log

import numpy as np

from simfl.core.types import Floats, Integers

PIECE = 1 << 16
"""Coordinates at a time."""
NEAR = 1 << 12
"""Terms that are added up one by one; those beyond are integrated."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


def share(rng: np.random.Generator, scale: float, shape: float, size: int) -> Integers:
    """The difference of two negative binomials of this shape, int64 (size,); shape 1/n is one of n shares of noise of
    this scale, in steps; both above 0.
    """
    noise, rest = np.empty(size, dtype=np.int64), log(-expm1(-1 / scale))  # ln(1 - p)
    for first in range(0, size, PIECE):
        part = noise[first : first + PIECE]
        jumps = int(rng.poisson(-2 * shape * rest * len(part)))
        with np.errstate(divide="ignore"):
            stay = -np.log1p(-np.exp(rest * (1 - rng.random(jumps))))
        sizes = 1 + np.floor(rng.standard_exponential(jumps) / stay)
        signed = np.where(rng.random(jumps) < 0.5, -sizes, sizes)
        part[:] = np.bincount(rng.integers(0, len(part), jumps), signed, len(part))
    return noise


def variance(scale: float, shape: float) -> float:
    """Variance of shares of this total shape; 1 = all."""
    return 2 * shape * exp(-1 / scale) / expm1(-1 / scale) ** 2


def log_ratio(k: int, scale: float, shape: float) -> float:
    """ln of the probability of k >= 0 over that of 0, in a sum of shares of this total shape up to 1."""
    return log(_sum(k, scale, shape) / _sum(0, scale, shape)) - k / scale


def pure_epsilon(sensitivity: int, scale: float, shape: float = 1.0, coordinates: int = 1) -> float:
    """The pure epsilon of shares of this total shape on every coordinate.

    From shape 1 on it is sensitivity / scale. Below, the probabilities of 0, 1, ... are moments, v^k averaged over some
    v, so that their logarithms are convex: the loss is largest at 0 and, being concave in the shift, where the shift is
    spread evenly over all coordinates, in whole steps. Other than that of real numbers it is finite for any share.

    Args:
        sensitivity: in L1, in whole steps.
        scale: of the noise that all shares make, in steps.
        shape: of the shares that are there, m / n.
        coordinates: that the noise is added to, d; with none there is nothing to tell.
    """
    if sensitivity == 0 or coordinates == 0:
        return 0.0
    if scale == 0 or shape <= 0:
        return float("inf")
    if shape >= 1:
        return sensitivity / scale
    each, longer = divmod(sensitivity, coordinates)
    epsilon = -longer * log_ratio(each + 1, scale, shape)
    return epsilon - (coordinates - longer) * log_ratio(each, scale, shape)


def _sum(k: int, scale: float, shape: float) -> float:
    """Sum over j of v_j v_(j+k) e^(-2 j / scale) for shapes up to 1; right to about ten digits.

    The first terms one by one, the others as an integral over ln j with the first terms of Euler and Maclaurin.
    """

    def term(j: Floats) -> Floats:
        return _v(j, shape) * _v(j + k, shape) * np.exp(-2 * j / scale)

    total = float(term(np.arange(NEAR, dtype=np.float64)).sum())
    begin, end = log(NEAR), max(log(NEAR), log(25 * scale))
    panels = int((end - begin) / 0.3) + 1
    edges = np.linspace(begin, end, panels + 1)
    half = np.diff(edges)[:, None] / 2
    j = np.exp(edges[:-1, None] + half * (1 + NODES))
    at = term(np.array([NEAR - 1.0, NEAR, NEAR + 1.0]))
    return total + float((term(j) * j * half * WEIGHTS).sum()) + float(at[1] / 2 - (at[2] - at[0]) / 24)


def _v(j: Floats, shape: float) -> Floats:
    """Gamma(j + shape) / j!; from 2,000 on by Fields' expansion, whose next term is beyond all digits."""
    from scipy.special import gammaln

    middle, power = j + shape / 2, shape - 1
    far = middle**power * (1 - power * (power**2 - 1) / (24 * middle**2))
    return np.where(j < 2000, np.exp(gammaln(np.minimum(j, 2000) + shape) - gammaln(np.minimum(j, 2000) + 1)), far)
