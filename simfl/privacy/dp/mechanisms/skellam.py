"""Skellam noise: whole numbers, differences of two Poisson variables, whose sums are Skellam again.

The probability of k is e^-variance I_k(variance), I the modified Bessel function. It is drawn from tables
(:mod:`simfl.privacy.dp.mechanisms.log_concave`) of probabilities in doubles, right to :data:`SLACK`, which the bound
counts.
References: Agarwal, Kairouz and Liu, "The Skellam mechanism for differentially private federated learning", NeurIPS
2021, Theorem 3.5; the expansion of I for large orders is Olver's, https://dlmf.nist.gov/10.41, (10.41.3) and (10.41.9).
"""

from fractions import Fraction
from functools import lru_cache
from math import log

import numpy as np

from simfl.core.types import Floats, Integers
from simfl.privacy.dp.mechanisms.log_concave import LogConcaveSampler, log_concave_sampler

SLACK = 1e-12
"""The relative error of a probability with which noise is drawn, at most."""
LARGE = 40.0
"""Variances from which the expansion is right to all digits."""
TERMS = 13
"""Of the expansion."""
FAR = 250
"""Terms of the power series after which it has converged, for variances below that."""


def sample(rng: np.random.Generator, variance: float, size: int) -> Integers:
    """Skellam noise of mean 0 and this variance, int64 (size,)."""
    return _table(variance).draw(rng, size) if variance else np.zeros(size, dtype=np.int64)


@lru_cache(maxsize=256)
def _table(variance: float) -> LogConcaveSampler:
    return log_concave_sampler(lambda k: log_ratio(k, variance))


def log_ratio(k: Integers, variance: float) -> Floats:
    """Logarithm of the probability of each whole number over that of 0, (n,), for variances above 0."""
    order = np.abs(k).astype(np.float64)
    if variance < LARGE:
        return _log_series(order, variance) - _log_series(np.zeros(1), variance)
    root = np.hypot(order, variance)
    around = _expansion(order, root, variance) / _expansion(np.zeros(1), np.full(1, variance), variance)
    ratio: Floats = order**2 / (root + variance) - order * np.arcsinh(order / variance)
    return ratio + np.log(around * np.sqrt(variance / root))


def _log_series(order: Floats, x: float) -> Floats:
    """ln I_order(x) by its power series, all of whose terms are positive."""
    from scipy.special import gammaln

    term, total = np.ones_like(order), np.ones_like(order)
    for m in range(1, FAR):
        term = term * (x * x / 4 / m) / (m + order)
        total += term
    return order * log(x / 2) - gammaln(order + 1) + np.log(total)


def _expansion(order: Floats, root: Floats, variance: float) -> Floats:
    """1 + U_1(p) / order + U_2(p) / order² ..., p = order / root: polynomials of p² over powers of the root."""
    squared, total, inverse = (order / root) ** 2, np.zeros_like(root), 1 / root
    matter = [each for j, each in enumerate(_polynomials()) if each[0] > 1e-17 * variance**j]
    for coefficients in matter[::-1]:
        value = np.full_like(root, coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = value * squared + coefficient
        total = value + total * inverse
    return total


@lru_cache(maxsize=1)
def _polynomials() -> list[list[float]]:
    """Of U_j(p) / p^j in powers of p², for j = 0, 1, ..."""
    polynomials, u = [], {0: Fraction(1)}
    for j in range(TERMS):
        polynomials.append([float(u.get(power, 0)) for power in range(j, 3 * j + 1, 2)])
        following: dict[int, Fraction] = {}
        for power, c in u.items():  # U' p² (1 - p²) / 2 + the integral of (1 - 5 p²) U / 8
            at = power + 1
            following[at] = following.get(at, Fraction(0)) + c * (Fraction(power, 2) + Fraction(1, 8 * at))
            following[at + 2] = following.get(at + 2, Fraction(0)) - c * (Fraction(power, 2) + Fraction(5, 8 * at + 16))
        u = following
    return polynomials


def rdp(orders: Integers, l1: float, l2: float, variance: float) -> Floats:
    """An upper bound of the Renyi divergence of each whole order above 1: ``l1``, ``l2`` in steps of the grid, the
    ``variance`` of the noise in the sum in squares of these.
    """
    alpha = np.asarray(orders, dtype=np.float64)
    more = np.minimum(((2 * alpha - 1) * l2**2 + 6 * l1) / (4 * variance**2), 3 * l1 / (2 * variance))
    return alpha * l2**2 / (2 * variance) + more


def slack(draws: float) -> float:
    """What :data:`SLACK` adds to a Renyi divergence of a whole order, of noise made of so many draws.

    Where every probability of P and of Q is wrong by a factor of at most e^h, the divergence of order alpha is by at
    most h (2 alpha - 1) / (alpha - 1), 3 h at 2; and h is the sum of those of all independent draws.
    """
    return 3 * SLACK * draws
