"""The distinct weights of a participation matrix as exact rational numbers."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from simfl.errors import SimflError
from simfl.privacy.field import PRIMES, Residues, times

__all__ = ["Values"]

DENOMINATOR = 2**20


@dataclass(frozen=True)
class Values:
    """Distinct weights by number; number 0 is the weight 0.

    A double stands for the fraction with a denominator up to 2**20 that it is the rounding of, if there is
    one (0.1 is 1/10, and 1/3 of a staleness weight is 1/3), else for its own binary value. Without this,
    rounding errors of 1e-17 would count as linear independence.

    Attributes:
        floats: float64, shape (u,), ascending, ``floats[0] == 0``.
        numerators, denominators, shifts: int64, shape (u,): value = numerator / denominator * 2**shift.
        primes: two primes modulo which no weight vanishes.
        residues: the values modulo each of the primes, uint64, shape (u,).
    """

    floats: NDArray[np.float64]
    numerators: NDArray[np.int64]
    denominators: NDArray[np.int64]
    shifts: NDArray[np.int64]
    primes: tuple[int, int]
    residues: dict[int, Residues]

    @classmethod
    def of(cls, weights: NDArray[np.float64]) -> tuple["Values", NDArray[np.int32]]:
        """The distinct values of non-negative weights (n,), and the number of each weight's value (n,).

        Raises:
            SimflError: the weights are multiples of too many of the primes.
        """
        floats, codes = np.unique(np.append(weights, 0.0), return_inverse=True)
        mantissa, exponent = np.frexp(floats)
        simple, denominators = _simplest(floats)
        numerators = np.where(denominators > 0, simple, np.ldexp(mantissa, 53).astype(np.int64))
        shifts = np.where(denominators > 0, 0, exponent.astype(np.int64) - 53)
        denominators = np.maximum(denominators, 1)
        primes = [p for p in PRIMES if np.all(numerators[1:] % p)][:2]
        if len(primes) < 2:
            raise SimflError("the weights are multiples of too many of the primes used for exact ranks; rescale them")
        residues = {p: _residues(numerators, denominators, shifts, p) for p in primes}
        values = cls(floats, numerators, denominators, shifts, (primes[0], primes[1]), residues)
        return values, codes[:-1].astype(np.int32)

    def fraction(self, code: int) -> Fraction:
        """The value of a number, exactly."""
        return Fraction(int(self.numerators[code]), int(self.denominators[code])) * Fraction(2) ** int(
            self.shifts[code]
        )


def _residues(
    numerators: NDArray[np.int64], denominators: NDArray[np.int64], shifts: NDArray[np.int64], p: int
) -> Residues:
    scale, place = np.unique(np.stack([denominators, shifts]), axis=1, return_inverse=True)
    factors = [pow(int(d), -1, p) * pow(2, int(s), p) % p for d, s in scale.T]
    return times((numerators % p).astype(np.uint64), np.array(factors, dtype=np.uint64)[place.ravel()], p)


def _simplest(x: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first continued-fraction convergent n/d that rounds to x, with d <= DENOMINATOR; else d = 0.

    By Legendre every n/d that rounds to x is a convergent as long as x * d**2 < 2**52.
    """
    numerator, denominator = np.zeros(len(x), np.int64), np.zeros(len(x), np.int64)
    open_ = np.flatnonzero(x < 2.0**53)
    rest = x[open_]
    h0, h1, k0, k1 = (np.full(len(open_), v) for v in (0.0, 1.0, 1.0, 0.0))
    while len(open_):
        whole = np.floor(rest)
        h0, h1 = h1, whole * h1 + h0
        k0, k1 = k1, whole * k1 + k0
        fits = (k1 <= DENOMINATOR) & (h1 < 2.0**53)
        found = fits & (h1 / k1 == x[open_])
        numerator[open_[found]] = h1[found].astype(np.int64)
        denominator[open_[found]] = k1[found].astype(np.int64)
        keep = fits & ~found & (rest > whole)
        open_, rest, whole = open_[keep], rest[keep], whole[keep]
        h0, h1, k0, k1 = h0[keep], h1[keep], k0[keep], k1[keep]
        rest = 1.0 / (rest - whole)
    return numerator, denominator
