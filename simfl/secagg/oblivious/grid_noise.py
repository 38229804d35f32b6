"""Shares of discrete Laplace noise on the grid of whole numbers, of which nearly all are zero.

With n parties each term is a Polya share: the difference of two negative binomial variables of shape 1/n, which is the
difference of two Gamma(1/n, scale) on the grid. Rounded one by one, such Gammas would hardly leave any noise where
their scale is not many steps; Polya shares add up exactly, n of them to a variable with probabilities proportional to
e^(-|k| / scale). The sum of a round holds n (n - 1), so that neighbouring probabilities of its noise differ by a factor
of e^(1 / scale) at most, on any grid: that of one such variable, which adding others can only bring closer.

A difference of two negative binomials is a sum of a Poisson number of jumps of either sign and logarithmic size (Kemp,
"Efficient generation of logarithmically distributed pseudo-random variables", Applied Statistics 1981), so that only
terms are drawn that may not be 0.
"""

from dataclasses import dataclass
from math import ceil, exp, expm1, inf, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

STEEPEST = 700.0
"""Exponents beyond are too large for a number."""


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
class GridNoise:
    """The distribution of a term: a Polya share of shape 1/n for n parties; its scale in steps of the grid."""

    shape: float
    scale: float

    @property
    def variance(self) -> float:
        """Of a term; the shapes of several add up."""
        if not self.scale or 1 / self.scale > STEEPEST:
            return 0.0
        return 2 * self.shape * exp(-1 / self.scale) / expm1(-1 / self.scale) ** 2

    def draw(self, rng: np.random.Generator, size: int) -> Terms:
        """Independent terms."""
        if not self.scale or 1 / self.scale > STEEPEST:
            return Terms(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        rest = log(-expm1(-1 / self.scale))  # of the probability of a whole number that is not 0
        jumps = int(rng.poisson(-2 * self.shape * rest * size))
        with np.errstate(divide="ignore"):
            stay = -np.log1p(-np.exp(rest * (1 - rng.random(jumps))))
        sizes = 1 + np.floor(rng.standard_exponential(jumps) / stay)
        signed = np.where(rng.random(jumps) < 0.5, -sizes, sizes)
        places, where = np.unique(rng.integers(0, size, jumps), return_inverse=True)
        values = np.bincount(where, signed, len(places)).astype(np.int64)
        return Terms(places[values != 0], values[values != 0])


def pure_epsilon(moved: float, scale: float) -> float:
    """The pure epsilon of a number that is rounded at random to the grid and gets a whole Laplace variable or more.

    Let it lie x beyond a step, which is what it becomes with probability 1 - x, and else the next one. The chance of
    any result is P = (1 - x) p + x p', of neighbouring probabilities p and p' of the noise, and |dP/dx| = |p' - p| <= P
    (e^(1/scale) - 1), since p and p' differ by a factor of e^(1/scale) at most. So ln P changes by no more than
    (e^(1/scale) - 1) a step, which goes to 1/scale on fine grids. On coarse ones another bound is less: with the same
    coin, two numbers are rounded to steps that are at most the whole number above their distance apart.

    Args:
        moved: by how much the number may change, in steps.
        scale: of the noise, in steps; 0 = there is none.
    """
    if not moved:
        return 0.0
    if not scale:
        return inf
    coupled = ceil(moved) / scale
    return min(coupled, moved * expm1(1 / scale)) if 1 / scale < STEEPEST else coupled
