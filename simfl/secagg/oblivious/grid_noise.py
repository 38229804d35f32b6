"""Differences of two Gamma variables on the grid of whole numbers, of which nearly all are zero.

With n parties each term is round(X - Y), X and Y independent Gamma(1/n, scale): where both are below 1/2, that is 0
whatever they are. So only the terms are drawn in which one of them is not; how many these are is binomial. The
distribution is exact, and the time goes with the terms that matter.
"""

from dataclasses import dataclass
from math import exp, expm1, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EDGE = 0.5
"""Two variables below it differ by less than 1/2."""
DENSE = 0.1
"""Share of large variables from which drawing all of them is faster."""


class Terms(NamedTuple):
    """Sparse whole numbers, int64 (m,), at ascending places; those at the other places are 0."""

    places: NDArray[np.int64]
    values: NDArray[np.int64]

    def dense(self, size: int) -> NDArray[np.int64]:
        """All ``size`` of them."""
        dense = np.zeros(size, dtype=np.int64)
        dense[self.places] = self.values
        return dense


@dataclass(frozen=True)
class Noise:
    """The distribution of a term: Gamma variables of shape 1/n for n parties, their scale in steps of the grid."""

    shape: float
    scale: float

    @property
    def variance(self) -> float:
        """Of a term before it is rounded."""
        return 2 * self.shape * self.scale**2

    def draw(self, rng: np.random.Generator, size: int) -> Terms:
        """Independent terms."""
        from scipy.special import gammaincc

        if not self.scale:
            return Terms(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        large = float(gammaincc(self.shape, EDGE / self.scale))
        if large > DENSE:
            pair = rng.standard_gamma(self.shape, (2, size)) * self.scale
            values = np.rint(pair[0] - pair[1]).astype(np.int64)
            places = np.flatnonzero(values)
            return Terms(places, values[places])
        first, second = (
            np.sort(rng.choice(size, rng.binomial(size, large), replace=False, shuffle=False)) for _ in range(2)
        )
        places = np.union1d(first, second)
        sides = [self._beside(rng, places, some) for some in (first, second)]
        return Terms(places, np.rint(sides[0] - sides[1]).astype(np.int64))

    def _beside(self, rng: np.random.Generator, places: NDArray[np.int64], some: NDArray[np.int64]) -> Floats:
        """Variables at the places: large ones at some of them, small ones at the others."""
        values = np.empty(len(places))
        chosen = np.isin(places, some, assume_unique=True)
        values[chosen] = self.scale * _above(rng, self.shape, EDGE / self.scale, len(some))
        values[~chosen] = self.scale * _below(rng, self.shape, EDGE / self.scale, len(places) - len(some))
        return values


def _above(rng: np.random.Generator, shape: float, edge: float, size: int) -> Floats:
    """Gamma(shape) variables, shape at most 1, that are above an edge.

    By rejection: between the edge and 1 from x^(shape - 1), accepted with exp(-x); beyond 1 from exp(-x), accepted
    with x^(shape - 1).
    """
    variables, have, start = np.empty(size), 0, max(edge, 1.0)
    gap = expm1(shape * log(edge)) if edge < 1 else 0.0
    near, far = -gap / shape, exp(-start) * start ** (shape - 1)
    while have < size:
        count = int((size - have) * 1.3) + 16
        low = rng.random(count) * (near + far) < near
        u = rng.random(count)
        x = np.where(low, np.exp(np.log1p((1 - u) * gap) / shape), start - np.log1p(-u))
        accepted = x[rng.random(count) < np.where(low, np.exp(-x), (x / start) ** (shape - 1))][: size - have]
        variables[have : have + len(accepted)] = accepted
        have += len(accepted)
    return variables


def _below(rng: np.random.Generator, shape: float, edge: float, size: int) -> Floats:
    """Gamma(shape) variables that are not above an edge: x^(shape - 1) up to the edge, accepted with exp(-x)."""
    if edge > 1:
        from scipy.special import gammainc, gammaincinv

        return gammaincinv(shape, rng.random(size) * float(gammainc(shape, edge)))
    variables, have = np.empty(size), 0
    while have < size:
        x = edge * rng.random(int((size - have) * 1.1) + 16) ** (1 / shape)
        accepted = x[rng.random(len(x)) < np.exp(-x)][: size - have]
        variables[have : have + len(accepted)] = accepted
        have += len(accepted)
    return variables
