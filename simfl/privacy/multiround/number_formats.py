"""In which form numbers were written down, and how far a number may lie from what was written."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DECIMALS = 12
"""Most digits after the point of a number that counts as a decimal; one with more is a double printed in full."""

SPARE = 12
"""Zero bits at a number's end that chance does not leave there."""


@dataclass(frozen=True)
class Format:
    """How the numbers of a log were written.

    Attributes:
        bits: of the significand: 53 double, 24 single, 11 half precision.
        decimals: digits after the point, where all numbers are short decimals; else None.
    """

    bits: int = 53
    decimals: int | None = None

    @classmethod
    def of(cls, x: NDArray[np.float64], bits: int = 53) -> "Format":
        """The form of some distinct positive numbers; narrower than the array's own ``bits`` where all would fit."""
        broken = x[x != np.rint(x)]
        if bits < 53 or not len(broken):
            return cls(bits)
        widest, odd = bits_of(x).max(), bits_of(broken).max()
        if odd > 8 and widest <= 11:
            return cls(11)
        if odd > SPARE and widest <= 24:
            return cls(24)
        if odd > SPARE and x.max() < 2.0**53 / 10.0**DECIMALS:
            for digits in range(1, DECIMALS + 1):
                if np.array_equal(np.rint(broken * 10.0**digits) / 10.0**digits, broken):
                    return cls(53, digits)
        return cls()

    def error(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far the number meant may be from x: two units in the last binary place (a few operations), or half a
        unit in the last decimal place."""
        if self.decimals is not None:
            return np.full(len(x), 0.5000001 * 10.0**-self.decimals)
        return x * 2.0 ** (2 - self.bits)

    def short(self, x: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether x has so few digits, binary or decimal, that it is meant as it stands; of decimals, if all are."""
        if self.decimals is not None:
            return (np.rint(x * 10) / 10 == x) | (bits_of(x) <= self.bits - SPARE)
        return bits_of(x) <= (8 if self.bits < 24 else self.bits - SPARE)


def bits_of(x: NDArray[np.float64]) -> NDArray[np.int64]:
    """Significant bits of positive doubles: 1 for a power of two, up to 53."""
    whole = np.ldexp(np.frexp(x)[0], 53).astype(np.int64)
    return 53 - (np.frexp((whole & -whole).astype(float))[1] - 1)
