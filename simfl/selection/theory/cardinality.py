"""Expected cardinalities: probabilities that enough independent events happen, exact but for rounding; and of the
clients a policy selects, those whose updates are aggregated.

Clients fail independently of one another, of who is available and of the past. What is left of a selection then
depends on the training rule: the failed client's unit is dropped (``drop_unit``), the round is (``abort``), or the
survivors are summed (``partial``).
"""

from collections.abc import Callable
from math import comb, exp
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Node = TypeVar("Node")


DIRECT = 5000
"""Longest polynomial that is multiplied term by term, every coefficient with 15 digits."""
MOST_UNITS = 1000
"""Units that survive with different probabilities, up to which the sums are evaluated (about a second)."""


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


def share(survive: Floats, unit: int, k: int, on_failure: str) -> float | None:
    """What part of ``k`` selected clients in units of ``unit`` is aggregated on average; None where it depends on who
    they are.

    ``survive``: probability of not failing, float64 (clients,).
    """
    if not (survive == survive[0]).all():
        return None
    return float(survive[0]) ** {"partial": 1, "drop_unit": unit, "abort": k}[on_failure]


def each_for_itself(selected: Floats, survive: Floats, on_failure: str) -> float:
    """Mean number of aggregated clients where each is selected independently, as a unit of its own.

    ``selected``, ``survive``: probability of being selected and of not failing, float64 (clients,).
    """
    surviving = selected * survive
    if on_failure != "abort":
        return float(surviving.sum())
    calm = 1 - selected + surviving  # the client is not selected, or it does not fail
    before = np.append(1.0, np.cumprod(calm)[:-1])
    after = np.append(np.cumprod(calm[::-1])[::-1][1:], 1.0)
    return float(surviving @ (before * after))


def of_blocks(here: Floats, survive: Floats, need: int, on_failure: str, uniform: bool) -> float | None:
    """Mean number of aggregated clients of ``need`` disjoint units, all of them available, or none.

    None where it depends on the past, or there are more than :data:`MOST_UNITS` different units.

    Args:
        here: probability that each unit is wholly available, float64 (units,).
        survive: probability of not failing, float64 (units, size).
        uniform: every available row is selected with the same probability, whatever happened before.
    """
    units, size = survive.shape
    whole = survive.prod(axis=1)
    surviving = survive.sum(axis=1) if on_failure == "partial" else size * whole
    if on_failure == "abort" and (whole == whole[0]).all():
        return need * size * at_least(here, need) * float(whole[0]) ** need
    if on_failure != "abort" and (surviving == surviving[0]).all():
        return need * at_least(here, need) * float(surviving[0])
    if not (uniform or need == units) or units > MOST_UNITS:
        return None
    return need * size * _all_of(here, whole, need) if on_failure == "abort" else _sum_of(here, surviving, need)


def _sum_of(here: Floats, value: Floats, need: int) -> float:
    """Mean of the summed values of ``need`` available units, uniformly chosen; 0 if fewer are available.

    ``count[a]`` is Pr[a are available], ``total[a]`` the mean of their summed values on that event.
    """
    count, total = np.ones(1), np.zeros(1)
    for q, v in zip(here.tolist(), value.tolist(), strict=True):
        count, total = _also(count, count, q), _also(total, total + v * count, q)
    a = np.arange(need, len(total))
    return float(np.sum(total[need:] * need / a))


def _also(without: Floats, happened: Floats, q: float) -> Floats:
    """One event of probability q more: the coefficients of those in which it does not happen, and of those it does."""
    return np.append((1 - q) * without, 0.0) + np.append(0.0, q * happened)


def _all_of(here: Floats, value: Floats, need: int) -> float:
    """Mean of the product of the values of ``need`` available units, uniformly chosen; 0 if fewer are available.

    ``sums[a, m]`` is the mean, over the events on which a units are available, of the sum over all sets of m of them
    of the product of their values.
    """
    units = len(here)
    sums = np.zeros((units + 1, need + 1))
    sums[0, 0] = 1
    for number, (q, v) in enumerate(zip(here.tolist(), value.tolist(), strict=True), 1):
        more = q * sums[:number]
        sums[:number] *= 1 - q
        sums[1 : number + 1] += more
        sums[1 : number + 1, 1:] += v * more[:, :-1]
    return float(sum(sums[a, need] / comb(a, need) for a in range(need, units + 1)))
