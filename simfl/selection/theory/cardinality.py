"""Probabilities that enough independent events happen, exact but for rounding: they make expected cardinalities."""

from collections.abc import Callable
from math import exp
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Node = TypeVar("Node")


DIRECT = 5000
"""Longest polynomial that is multiplied term by term, every coefficient with 15 digits."""


def _certain(q: Floats, need: int) -> bool:
    """Fewer than ``need`` successes have a probability below the rounding error of 1 (Chernoff's lower tail)."""
    mean = float(q.sum())
    return mean > need and exp(-((mean - need) ** 2) / (2 * mean)) < 2.0**-54


def at_least(q: Floats, need: int) -> float:
    """Pr[at least ``need`` of the independent events with probabilities ``q`` happen] (Poisson-binomial tail)."""
    if _certain(q, need):
        return 1.0

    def times(a: Floats, b: Floats) -> Floats:
        return _cap_exponents(_convolve(a, b), need)

    groups = zip(*np.unique(q, return_counts=True), strict=True)
    total = _product([_power(np.array([1 - value, value]), int(n), times) for value, n in groups], times)
    return float(total[need]) if len(total) > need else 0.0


def pairs_at_least(q: Floats, need: int) -> float:
    """Pr[the runs of usable half-batches on the circle hold ``need`` disjoint neighbouring pairs].

    A polynomial in x counts pairs; the state is whether the half-batches since the last complete pair or gap are an odd
    number. Going once around from each state back to it counts every pattern with a gap once, since the state behind a
    gap is always the same, and the pattern without a gap twice (the number of half-batches is even). ``q`` is the
    probability that each half-batch is usable, shape (M,), M even.
    """
    if _certain(q[::2] * q[1::2], need):
        return 1.0

    def times(a: Floats, b: Floats) -> Floats:
        cells = [
            [_cap_exponents(_convolve(a[i, 0], b[0, j]) + _convolve(a[i, 1], b[1, j]), need) for j in range(2)]
            for i in range(2)
        ]
        return np.array(cells)

    def step(usable: float) -> Floats:
        return np.array([[[1 - usable, 0.0], [usable, 0.0]], [[1 - usable, usable], [0.0, 0.0]]])

    if (q == q[0]).all():
        around = _power(step(float(q[0])), len(q), times)
    else:
        around = _product([step(float(usable)) for usable in q], times)
    pairs = around[0, 0] + around[1, 1]
    pairs[min(len(q) // 2, need)] -= q.prod()
    return float(pairs[need]) if len(pairs) > need else 0.0


def _convolve(a: Floats, b: Floats) -> Floats:
    """Product of polynomials; the long ones by FFT, which keeps 15 digits of the largest coefficient only."""
    if min(len(a), len(b)) <= DIRECT:
        return np.convolve(a, b)
    from scipy.signal import fftconvolve

    return np.maximum(fftconvolve(a, b), 0.0)


def _cap_exponents(polynomial: Floats, top: int) -> Floats:
    """Exponents above ``top`` count as ``top``."""
    if len(polynomial) <= top + 1:
        return polynomial
    return np.append(polynomial[:top], polynomial[top:].sum())


def _product(factors: list[Node], times: Callable[[Node, Node], Node]) -> Node:
    """The product in the given order, as a balanced tree."""
    while len(factors) > 1:
        odd = factors[-1:] if len(factors) % 2 else []
        factors = [times(a, b) for a, b in zip(factors[:-1:2], factors[1::2], strict=True)] + odd
    return factors[0]


def _power(base: Node, exponent: int, times: Callable[[Node, Node], Node]) -> Node:
    """``base`` multiplied by itself, ``exponent`` factors, at least 1."""
    result: Node | None = None
    while exponent:
        if exponent % 2:
            result = base if result is None else times(result, base)
        exponent //= 2
        if exponent:
            base = times(base, base)
    assert result is not None
    return result
