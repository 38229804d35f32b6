"""Discrete Gaussian noise: whole numbers x with probabilities proportional to exp(-x² / 2 sigma²), drawn exactly.

The sampler is Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Algorithm
3: discrete Laplace proposals, accepted with exp(-(|y| - sigma²/t)² / 2 sigma²). Each comparison of a uniform number
with a real one is decided by its first 53 bits where rounding cannot matter, else by as many as it takes. The bounds
are Kairouz, Liu and Steinke, "The distributed discrete Gaussian mechanism", ICML 2021, Proposition 13 and Theorem 1.
"""

from decimal import ROUND_FLOOR, Context, Decimal
from math import exp, floor, pi, sqrt

import numpy as np
from numpy.typing import NDArray

__all__ = ["rdp", "sample", "tau"]

BIT = 2.0**-53
DOUBT = 1e-13
"""Far above all rounding of the logarithms that are compared."""
CONTEXT = Context(prec=90)


def sample(rng: np.random.Generator, variance: float, size: int) -> NDArray[np.int64]:
    """Discrete Gaussian noise of parameter sigma² = variance, int64 (size,)."""
    out = np.zeros(size, dtype=np.int64)
    if variance == 0:
        return out
    t, filled = floor(sqrt(variance)) + 1, 0
    while filled < size:
        wanted = size - filled
        proposed = _magnitudes(rng, t, wanted + wanted // 3 + 8)
        negative = rng.random(len(proposed)) < 0.5
        kept = ~(negative & (proposed == 0))
        kept &= _accepted(rng, proposed, variance, t)
        found = np.where(negative, -proposed, proposed)[kept][:wanted]
        out[filled : filled + len(found)] = found
        filled += len(found)
    return out


def _magnitudes(rng: np.random.Generator, t: int, size: int) -> NDArray[np.int64]:
    """floor(-t ln U): x or more with probability exp(-x / t), exactly."""
    u = rng.random(size)
    most = -t * np.log(u + BIT / 2)
    width = t * BIT / (u + BIT / 2) + DOUBT * (1 + most)  # what the bits that follow can change, and rounding
    found = np.floor(most)
    part = most - found
    doubtful = np.flatnonzero((part < width) | (part > 1 - width))
    found[doubtful] = [_magnitude(rng, u[i], t) for i in doubtful]
    return found.astype(np.int64)


def _magnitude(rng: np.random.Generator, u: float, t: int) -> int:
    bits, known = int(u / BIT), 53
    while True:
        bits, known = _more(rng, bits, known)
        ends = [_whole(CONTEXT.multiply(-t, CONTEXT.ln(_share(end, known)))) for end in (bits + 1, max(bits, 1))]
        if bits and ends[0] == ends[1]:
            return ends[0]


def _accepted(rng: np.random.Generator, y: NDArray[np.int64], variance: float, t: int) -> NDArray[np.bool_]:
    """True with probability exp(-(y - variance / t)² / 2 variance), exactly; bool (n,)."""
    u = rng.random(len(y))
    log_p = -((y - variance / t) ** 2) / (2 * variance)
    p = np.exp(log_p)
    margin = DOUBT * p * (1 - log_p)
    doubtful = np.flatnonzero((u + BIT > p - margin) & (u < p + margin))
    accepted = u < p
    accepted[doubtful] = [_below(rng, u[i], int(y[i]), Decimal(variance), t) for i in doubtful]
    return accepted


def _below(rng: np.random.Generator, u: float, y: int, variance: Decimal, t: int) -> bool:
    c = CONTEXT
    off = c.subtract(c.multiply(y, t), variance)  # times t
    p = c.exp(-c.divide(c.multiply(off, off), c.multiply(2 * t * t, variance)))
    bits, known = int(u / BIT), 53
    while _share(bits, known) < p < _share(bits + 1, known):
        bits, known = _more(rng, bits, known)
    return _share(bits + 1, known) <= p


def _more(rng: np.random.Generator, bits: int, known: int) -> tuple[int, int]:
    return bits << 32 | int(rng.integers(2**32)), known + 32


def _share(bits: int, known: int) -> Decimal:
    return CONTEXT.divide(bits, 1 << known)


def _whole(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_FLOOR))


def tau(clients: int, variance: float) -> float:
    """How far a sum of ``clients`` variables of parameter ``variance`` each is from one discrete Gaussian, at most."""
    return 10 * sum(exp(-2 * pi**2 * variance * k / (k + 1)) for k in range(1, clients))


def rdp(
    orders: NDArray[np.floating], l1: float, l2: float, dimension: int, clients: int, variance: float
) -> NDArray[np.float64]:
    """An upper bound of the Renyi divergence of each order above 1.

    Args:
        orders: alpha.
        l1, l2: sensitivities, in steps of the grid.
        dimension: coordinates, d.
        clients: whose noise is in the sum, n.
        variance: the parameter sigma² of each one's noise.
    """
    alpha, total, off = np.asarray(orders, dtype=np.float64), clients * variance, tau(clients, variance)
    first = alpha * l2**2 / (2 * total) + off * dimension
    second = alpha / 2 * (l2**2 / total + 2 * l1 * off / sqrt(total) + off**2 * dimension)
    third = alpha / 2 * (l2 / sqrt(total) + sqrt(dimension) * off) ** 2
    return np.minimum(np.minimum(first, second), third)
