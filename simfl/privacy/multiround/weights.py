"""The distinct weights of a participation matrix as exact numbers."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import Residues, times
from simfl.privacy.multiround.roots import approximation, modular
from simfl.privacy.multiround.weight_reading import KINDS, Numbers, read


@dataclass(frozen=True)
class Values:
    """Distinct weights by number, float64 (u,), ascending; number 0 is the weight 0.

    How a double is read: :mod:`simfl.privacy.multiround.weight_reading`. Doubles that are read as the same number are
    one value.
    """

    floats: NDArray[np.float64]
    numbers: Numbers
    _residues: dict[int, Residues] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, weights: NDArray[np.float64], indptr: NDArray[np.integer], bits: int | None = 53
    ) -> tuple["Values", NDArray[np.int32]]:
        """The distinct values of positive weights (n,) in compressed rows, and the number of each weight's value (n,).

        ``bits`` are the significant ones of their number format; None = doubles with all digits.
        """
        floats, codes = np.unique(weights, return_inverse=True)
        numbers_read = read(floats, indptr, codes, bits)
        columns = [numbers_read.numerator, numbers_read.denominator, numbers_read.shift, _labels(numbers_read)]
        first = np.ones(len(floats), dtype=bool)  # equal numbers are neighbours
        first[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        place = np.cumsum(first)
        distinct = np.flatnonzero(first)
        numbers = Numbers(
            np.append(0, numbers_read.numerator[distinct]),
            np.append(1, numbers_read.denominator[distinct]),
            np.append(0, numbers_read.shift[distinct]),
            {int(place[i]): root for i, root in numbers_read.roots.items()},
            np.append(np.int8(0), numbers_read.kind[distinct]),
        )
        with np.errstate(over="ignore"):
            exact = np.ldexp(numbers.numerator / numbers.denominator, numbers.shift.clip(-2000, 2000))
        plain = np.isfinite(exact) & (exact > 0)
        plain[list(numbers.roots)] = False
        exact = np.where(plain, exact, np.append(0.0, floats[distinct]))
        return cls(exact, numbers), place[codes].astype(np.int32)

    @property
    def sure(self) -> NDArray[np.bool_]:
        """Whether each value is certain to be the number that was meant, shape (u,)."""
        return self.numbers.kind < KINDS.index("unsure")

    @property
    def rough(self) -> NDArray[np.bool_]:
        """Whether so few digits of each value are known that equal ones may stand for unequal weights, shape (u,)."""
        return self.numbers.kind >= KINDS.index("rough")

    @property
    def rational(self) -> bool:
        """Whether all values are fractions."""
        return not self.numbers.roots

    def kinds(self, codes: NDArray[np.integer]) -> dict[str, int]:
        """How many of some weights were read in which way, by :data:`simfl.privacy.multiround.weight_reading.KINDS`."""
        counts = np.bincount(self.numbers.kind[codes], minlength=len(KINDS))
        return {name: int(count) for name, count in zip(KINDS, counts, strict=True) if count}

    def has_residues(self, p: int) -> bool:
        """Whether no weight vanishes modulo a prime, and none is divided by it."""
        return bool(np.all(self.numbers.numerator[1:] % p) and np.all(self.numbers.denominator % p)) and not any(
            ell % p == 0 for root in self.numbers.roots.values() for ell, _ in root
        )

    def residues(self, p: int) -> Residues:
        """The values modulo a prime that holds them, uint64, shape (u,)."""
        if p not in self._residues:
            self._residues[p] = _residues(self.numbers, p)
        return self._residues[p]

    def fraction(self, code: int) -> Fraction:
        """The value of a number: exactly, or to a hundred digits if it is no fraction."""
        numbers = self.numbers
        value = Fraction(int(numbers.numerator[code]), int(numbers.denominator[code]))
        value *= Fraction(2) ** int(numbers.shift[code])
        root = numbers.roots.get(int(code))
        return value if root is None else value * approximation(root)


def _labels(numbers: Numbers) -> NDArray[np.int64]:
    """A number for each root, 0 for none."""
    seen = {root: i + 1 for i, root in enumerate(dict.fromkeys(numbers.roots.values()))}
    labels = np.zeros(len(numbers.kind), dtype=np.int64)
    for place, root in numbers.roots.items():
        labels[place] = seen[root]
    return labels


def _residues(numbers: Numbers, p: int) -> Residues:
    scale, place = np.unique(np.stack([numbers.denominator, numbers.shift]), axis=1, return_inverse=True)
    factors = [pow(int(d), -1, p) * pow(2, int(s), p) % p for d, s in scale.T]
    result = times((numbers.numerator % p).astype(np.uint64), np.array(factors, dtype=np.uint64)[place.ravel()], p)
    for code, root in numbers.roots.items():
        result[code] = int(result[code]) * modular(root, p) % p
    return result
