"""In which form numbers were written down, and how far a number may lie from what was written."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DECIMALS = 12
"""Most digits after the point of a number that counts as a decimal; one with more is a double printed in full."""

LARGEST = 2**53 - 1
"""The largest whole number that no other one becomes as a double."""

CREDIBLE = 2.0**-7
"""Greatest chance with which one of several numbers that support each other would be read as it is."""

SPARE = 12
"""Zero bits at a number's end that chance does not leave there."""


@dataclass(frozen=True)
class Format:
    """How the numbers of a log were written.

    Attributes:
        bits: of the significand: 53 double, 24 single, 11 half precision.
        decimals: digits after the point, where all numbers are short decimals; 0 for rounded whole numbers; else None.
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
        """Whether x has so few digits, binary or decimal, that it is meant as it stands.

        Of decimals all are or none: if each is a short binary number or a tenth, and chance would hardly leave as many
        distinct ones with digits at their end that are not needed. Numbers of one digit show nothing of the kind.
        """
        if self.decimals is None:
            return bits_of(x) <= (8 if self.bits < 24 else self.bits - SPARE)
        some = (np.rint(x * 10) / 10 == x) | (bits_of(x) <= self.bits - SPARE)
        chance = (10 + 2**self.decimals - 2) / 10.0**self.decimals if self.decimals else 1.0
        return np.full(len(x), bool(some.all()) and chance ** np.count_nonzero(x != np.rint(x)) <= CREDIBLE)


def are_percentages(x: NDArray[np.float64], indptr: NDArray[np.integer], codes: NDArray[np.integer]) -> bool:
    """Whether whole numbers may be rounded percentages: those of every round add up to 100, but for rounding.

    Half a percent a client is possible; where weights differ, twice that of independent errors is believed, or one.

    Args:
        x: the distinct positive numbers.
        indptr, codes: those of each round as positions in x, in compressed rows.
    """
    if not len(x) or x.max() > 100 or not np.array_equal(x, np.rint(x)):
        return False
    size = np.diff(indptr)
    start, size = np.asarray(indptr)[:-1][size > 0], size[size > 0]
    weights = x[codes]
    missing = np.add.reduceat(weights, start) - 100
    differ = np.maximum.reduceat(weights, start) > np.minimum.reduceat(weights, start)
    if not differ.any() or (np.abs(missing) > size / 2).any():
        return False
    return bool((missing[differ] ** 2).mean() <= max(1.0, size[differ].mean() / 3))


def bits_of(x: NDArray[np.float64]) -> NDArray[np.int64]:
    """Significant bits of positive doubles: 1 for a power of two, up to 53."""
    whole = np.ldexp(np.frexp(x)[0], 53).astype(np.int64)
    return 53 - (np.frexp((whole & -whole).astype(float))[1] - 1)
