"""Updates as whole numbers that can be added up modulo q without wrapping around.

Q_c(x) = floor(c x) with probability 1 - (c x - floor(c x)), else one more: unbiased (arXiv 2110.02177, eq. 10).
"""

from dataclasses import dataclass
from math import floor, inf, log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.secagg.crypto.field import Q

HALF = Q // 2
"""The largest magnitude of a whole number that an element can stand for."""

PIECE = 1 << 14
"""Coordinates that are rounded at a time: they stay in the processor's cache."""


@dataclass(frozen=True)
class Grid:
    """The whole numbers that stand for real ones: ``scale`` of them, c, in 1; what lies beyond ``clip`` is clipped."""

    scale: float
    clip: float

    @property
    def step(self) -> float:
        """By how much rounding moves a number at most; 0 without a clip, where numbers are whole already."""
        return 0.0 if self.clip == inf else 1 / self.scale


class Quantised(NamedTuple):
    """An update in whole numbers, int64 (d,), and how many coordinates lay beyond the clip or were not finite."""

    values: NDArray[np.int64]
    clipped: int


def grid(clip: float, weight: float) -> Grid | None:
    """The finest grid, its scale a power of two, on which no sum of this total weight can wrap around.

    None if even a scale of 1 is too fine.
    """
    exponent = floor(log2(HALF / weight / clip))
    while exponent >= 0 and weight * (floor(clip * 2.0**exponent) + 1) > HALF:
        exponent -= 1
    return Grid(2.0**exponent, clip) if exponent >= 0 else None


def round_stochastically(vector: NDArray[np.floating], to: Grid, rng: np.random.Generator) -> Quantised:
    """An update, (d,), on the grid; what is not a number becomes 0."""
    values, clipped = np.empty(len(vector), dtype=np.int64), 0
    for begin in range(0, len(vector), PIECE):
        exact = np.asarray(vector[begin : begin + PIECE], dtype=np.float64)
        fine = np.clip(exact, -to.clip, to.clip)
        if beyond := int(np.count_nonzero(fine != exact)):
            np.nan_to_num(fine, copy=False)
            clipped += beyond
        fine *= to.scale
        low = np.floor(fine)
        low += rng.random(len(fine)) < fine - low
        values[begin : begin + PIECE] = low
    return Quantised(values, clipped)
