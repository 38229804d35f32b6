"""Which number a weight is: a double is the trace of a number, and not always the number itself.

n_i / sum(n), 1 / (1 + staleness) and its square root are rounded when they are written down. Taken as binary numbers
such weights look independent where they are not, so the number that was rounded is looked for, and taken only if
chance would hardly make a number like it. Decimals are meant as they stand if each of them has one digit or is a short
binary number, and some have more digits: .5, .25, .2, but neither .5, .33, .2 nor .5, .3, .2. What remains is taken as
it stands, and is not sure.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import Residues, times
from simfl.core.types import Bools, Floats, Integers
from simfl.privacy.multiround.roots import GENERATORS, Root, approximation, modular, root

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
    def of(cls, x: Floats, bits: int = 53) -> "Format":
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

    def error(self, x: Floats) -> Floats:
        """How far the number meant may be from x: two units in the last binary place (a few operations), or half a
        unit in the last decimal place."""
        if self.decimals is not None:
            return np.full(len(x), 0.5000001 * 10.0**-self.decimals)
        return x * 2.0 ** (2 - self.bits)

    def short(self, x: Floats) -> Bools:
        """Whether x has so few digits, binary or decimal, that it is meant as it stands.

        Of decimals all are or none: if each is a short binary number or a tenth, and chance would hardly leave as many
        distinct ones with digits at their end that are not needed. Numbers of one digit show nothing of the kind.
        """
        if self.decimals is None:
            return bits_of(x) <= (8 if self.bits < 24 else self.bits - SPARE)
        some = (np.rint(x * 10) / 10 == x) | (bits_of(x) <= self.bits - SPARE)
        chance = (10 + 2**self.decimals - 2) / 10.0**self.decimals if self.decimals else 1.0
        return np.full(len(x), bool(some.all()) and chance ** np.count_nonzero(x != np.rint(x)) <= CREDIBLE)


def are_percentages(x: Floats, indptr: NDArray[np.integer], codes: NDArray[np.integer]) -> bool:
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


def bits_of(x: Floats) -> Integers:
    """Significant bits of positive doubles: 1 for a power of two, up to 53."""
    whole = np.ldexp(np.frexp(x)[0], 53).astype(np.int64)
    return 53 - (np.frexp((whole & -whole).astype(float))[1] - 1)


EVIDENCE = 2.0**-12
"""Greatest chance with which any number would be read as a fraction so simple."""

DEGREES = range(2, 11)
ROOTS = 10_000  # numbers that roots are looked for in

KINDS = ("whole", "fraction", "shared", "root", "as written", "unsure", "rough", "percent")
"""How a number was read: a whole number, a simple fraction, a fraction with the common denominator of its round (n per
row), a root of a fraction, the binary or decimal number that it is, or that for want of better: known to many digits,
or to so few that equal numbers may stand for unequal weights, the last of them as a whole number of percent."""


@dataclass(frozen=True)
class Numbers:
    """Numbers as numerator / denominator * 2**shift, times a root where there is one.

    Attributes:
        numerator, denominator, shift: int64, shape (u,).
        roots: by position.
        kind: int8, shape (u,): positions in :data:`KINDS`.
    """

    numerator: Integers
    denominator: Integers
    shift: Integers
    roots: dict[int, Root]
    kind: NDArray[np.int8]


def read(x: Floats, indptr: NDArray[np.integer], codes: NDArray[np.integer], bits: int | None = 53) -> Numbers:
    """Reads the weights of a participation matrix.

    A fraction n/d is taken for x where it is the only one with so small a denominator that x can be the rounding of
    (Legendre: then error * 2 d^2 < 1, and n/d is a convergent of x), and either that product is below ``EVIDENCE`` or
    the denominators of a whole round have a common multiple so small that chance is excluded by all of it together.

    Args:
        x: the distinct positive weights, ascending.
        indptr, codes: the weights of each round as positions in x, in compressed rows.
        bits: of the array's own number format; None = doubles with all their digits.
    """
    percent = bits is not None and are_percentages(x, indptr, codes)
    form = Format(decimals=0) if percent else Format() if bits is None else Format.of(x, bits)
    error = form.error(x)
    n, d = _simplest(x, error)
    with np.errstate(over="ignore"):
        chance = np.where(d > 0, 2 * error * d.astype(float) ** 2, np.inf)
    numbers, short = _as_written(x, form), form.short(x)
    if form.bits < 24:  # so few bits that even a short number may be the rounding of another
        short &= (d == 0) | ((numbers.numerator == n) & (numbers.denominator == d))
    numbers.kind[short] = KINDS.index("as written")
    fixed = not percent and np.all(x == np.rint(x)) and x.max(initial=0.0) < 2.0 ** (form.bits - 3)
    _take(numbers, np.full(len(x), fixed) | (chance <= EVIDENCE), n, d, "fraction")
    _take(numbers, _common_denominators(x, error, d, chance, indptr, codes, numbers.kind), n, d, "shared")
    _roots(x, error, numbers)
    unsure = numbers.kind == KINDS.index("unsure")
    numbers.kind[unsure & (error > EVIDENCE * x)] = KINDS.index("percent" if percent else "rough")
    numbers.kind[(numbers.kind == KINDS.index("fraction")) & (numbers.denominator == 1)] = KINDS.index("whole")
    return numbers


def _take(numbers: Numbers, where: Bools, n: Integers, d: Integers, kind: str) -> None:
    where = where & (d > 0)
    numbers.numerator[where], numbers.denominator[where], numbers.shift[where] = n[where], d[where], 0
    numbers.kind[where] = KINDS.index(kind)


def _as_written(x: Floats, form: Format) -> Numbers:
    """The decimal or binary numbers themselves, in lowest terms; unsure."""
    shift = np.zeros(len(x), dtype=np.int64)
    if form.decimals is not None:
        numerator = np.rint(x * 10.0**form.decimals).astype(np.int64)
        denominator = np.full(len(x), 10**form.decimals, dtype=np.int64)
        common = np.gcd(numerator, denominator)
        numerator, denominator = numerator // common, denominator // common
    else:
        mantissa, exponent = np.frexp(x)
        numerator = np.ldexp(mantissa, 53).astype(np.int64)
        lowest = numerator & -numerator
        numerator //= np.maximum(lowest, 1)
        shift = exponent.astype(np.int64) - 53 + np.frexp(lowest.astype(float))[1] - 1
        denominator = np.ones(len(x), dtype=np.int64)
        broken, large = (shift < 0) & (shift >= -62), (shift > 0) & (x < 2.0**62)
        denominator[broken] = np.int64(1) << -shift[broken]
        numerator[large] <<= shift[large]
        shift[broken | large] = 0
    return Numbers(numerator, denominator, shift, {}, np.full(len(x), KINDS.index("unsure"), dtype=np.int8))


def _simplest(x: Floats, error: Floats) -> tuple[Integers, Integers]:
    """The only fraction n/d within the error of x that obeys 2 * error * d**2 < 1; where there is none d = 0.

    By Legendre such a fraction is a convergent of the continued fraction of x.
    """
    numerator, denominator = np.zeros(len(x), np.int64), np.zeros(len(x), np.int64)
    open_ = np.flatnonzero((x < 2.0**53) & (2 * error < 1))
    rest = x[open_]
    h0, h1, k0, k1 = (np.full(len(open_), v) for v in (0.0, 1.0, 1.0, 0.0))
    while len(open_):
        whole = np.floor(rest)
        h0, h1 = h1, whole * h1 + h0
        k0, k1 = k1, whole * k1 + k0
        fits = (2 * error[open_] * k1 * k1 < 1) & (h1 < 2.0**53)
        fractions = fits & (h1 > 0) & (np.abs(h1 / k1 - x[open_]) <= error[open_])
        numerator[open_[fractions]] = h1[fractions].astype(np.int64)
        denominator[open_[fractions]] = k1[fractions].astype(np.int64)
        keep = fits & ~fractions & (rest > whole)
        open_, rest, whole = open_[keep], rest[keep], whole[keep]
        h0, h1, k0, k1 = h0[keep], h1[keep], k0[keep], k1[keep]
        rest = 1.0 / (rest - whole)
    return numerator, denominator


def _common_denominators(
    x: Floats,
    error: Floats,
    d: Integers,
    chance: Floats,
    indptr: NDArray[np.integer],
    codes: NDArray[np.integer],
    kind: NDArray[np.int8],
) -> Bools:
    """The numbers of rounds whose fractions have a common denominator D that chance does not explain.

    Any w numbers have a common denominator of at most D within their errors with a chance of about D times the product
    of 2 * error * D. Numbers that are sure by themselves say nothing about D, and in a round with a whole sum one
    follows from the others. Numbers may depend on each other in other ways, so each must be credible by itself as well.
    """
    accepted = np.zeros(len(x), dtype=bool)
    open_ = kind == KINDS.index("unsure")
    credible = chance <= CREDIBLE
    concerned = np.searchsorted(indptr, np.flatnonzero(open_[codes]), side="right") - 1
    for t in np.unique(concerned):
        row = codes[indptr[t] : indptr[t + 1]]
        some = np.unique(row[open_[row]])
        if not np.all(credible[some]):
            continue
        common = 1
        for value in d[some].tolist():
            common = lcm(common, value)
            if common > 2**31:
                break
        chances = 2 * error[some] * common
        if chances.max() * common >= 1:
            continue
        total = x[row].sum()
        if abs(total - np.rint(total)) <= error[row].sum() + 1e-12:
            chances = np.delete(chances, np.argmax(chances))
        if len(chances) and np.log2(common) + np.log2(chances).sum() <= np.log2(EVIDENCE):
            accepted[some] = True
    return accepted


def _roots(x: Floats, error: Floats, numbers: Numbers) -> None:
    """Reads what is left as roots of fractions."""
    left = np.flatnonzero(numbers.kind == KINDS.index("unsure"))
    if len(left) > ROOTS:
        return
    known: set[int] = set()
    for degree in DEGREES:
        with np.errstate(over="ignore", under="ignore"):
            power = x[left] ** degree
            spread = power * degree * (error[left] / x[left] + 2.0**-52)
        usable = (power < 2.0**53) & (power > 2.0**-500)
        power, spread = np.where(usable, power, 1.0), np.where(usable, spread, 1.0)
        n, d = _simplest(power, spread)
        sure = (d > 0) & (2 * spread * d.astype(float) ** 2 <= EVIDENCE / 16)
        for place, top, bottom in zip(left[sure].tolist(), n[sure].tolist(), d[sure].tolist(), strict=True):
            whole, fraction, rest = root(top, bottom, degree)
            needed = known | {ell for ell, _ in rest or ()}
            if rest is not None and max(whole, fraction) < 2**53 and len(needed) <= GENERATORS:
                numbers.numerator[place], numbers.denominator[place], numbers.shift[place] = whole, fraction, 0
                numbers.roots[place] = rest
                numbers.kind[place] = KINDS.index("root")
                known = needed
        left = left[numbers.kind[left] == KINDS.index("unsure")]


@dataclass(frozen=True)
class Values:
    """Distinct weights by number, float64 (u,), ascending; number 0 is the weight 0.

    How a double is read: :func:`read`. Doubles that are read as the same number are one value.
    """

    floats: Floats
    numbers: Numbers
    _residues: dict[int, Residues] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, weights: Floats, indptr: NDArray[np.integer], bits: int | None = 53
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
    def sure(self) -> Bools:
        """Whether each value is certain to be the number that was meant, shape (u,)."""
        return self.numbers.kind < KINDS.index("unsure")

    @property
    def rough(self) -> Bools:
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


def _labels(numbers: Numbers) -> Integers:
    """A number for each root, 0 for none."""
    seen = {each: i + 1 for i, each in enumerate(dict.fromkeys(numbers.roots.values()))}
    labels = np.zeros(len(numbers.kind), dtype=np.int64)
    for place, each in numbers.roots.items():
        labels[place] = seen[each]
    return labels


def _residues(numbers: Numbers, p: int) -> Residues:
    scale, place = np.unique(np.stack([numbers.denominator, numbers.shift]), axis=1, return_inverse=True)
    factors = [pow(int(d), -1, p) * pow(2, int(s), p) % p for d, s in scale.T]
    result = times((numbers.numerator % p).astype(np.uint64), np.array(factors, dtype=np.uint64)[place.ravel()], p)
    for code, each in numbers.roots.items():
        result[code] = int(result[code]) * modular(each, p) % p
    return result
