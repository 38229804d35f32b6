"""Kinds of participation matrices: what a log says, and the numbers that are meant, in fractions.

Each kind is a generator ``kind(rng) -> (P, truth)``: P as simfl gets it, truth as rows of fractions (irrational numbers
to 1000 binary digits). ``SURE`` names the kinds whose numbers must be read for sure.
"""

from fractions import Fraction
from math import isqrt

import numpy as np

KINDS, SURE = {}, set()
DIGITS = 1000


def kind(sure=True):
    def register(function):
        KINDS[function.__name__] = function
        if sure:
            SURE.add(function.__name__)
        return function

    return register


def pattern(rng, most=6):
    """Who takes part: 0/1, no empty row."""
    n, rounds = int(rng.integers(2, most + 1)), int(rng.integers(1, 6))
    mask = rng.random((rounds, n)) < rng.uniform(0.3, 0.9)
    mask[np.arange(rounds), rng.integers(0, n, rounds)] = True
    return mask.astype(int)


def given(rows, form=float):
    """Fractions rounded to doubles, and the fractions."""
    return np.array([[form(x) for x in row] for row in rows]), rows


def filled(mask, draw):
    """A number for each client of each round."""
    return [[draw() if x else Fraction(0) for x in row] for row in mask]


def root(x, degree=2):
    """A root to DIGITS binary digits."""
    scaled = (x.numerator << degree * DIGITS) // x.denominator
    if degree == 2:
        return Fraction(isqrt(scaled), 2**DIGITS)
    low, high = 0, 1 << (scaled.bit_length() // degree + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**degree <= scaled else (low, middle)
    return Fraction(low, 2**DIGITS)


@kind()
def zero_one(rng):
    return given([[Fraction(int(x)) for x in row] for row in pattern(rng, 7)])


@kind()
def batches(rng):
    unit, count = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    mask = np.repeat(rng.random((int(rng.integers(1, 6)), count)) < 0.6, unit, axis=1)
    mask[0, :unit] = True
    return given([[Fraction(int(x)) for x in row] for row in mask])


@kind()
def half_partition(rng):
    halves = int(rng.integers(4, 8))
    rows = []
    for _ in range(int(rng.integers(1, 6))):
        start = int(rng.integers(halves))
        rows.append([Fraction(int(i in (start, (start + 1) % halves))) for i in range(halves)])
    return given(rows)


@kind()
def dyadic_staleness(rng):
    return given(filled(pattern(rng), lambda: Fraction(1, 2 ** int(rng.integers(0, 6)))))


@kind(sure=False)  # 0.25 beside 0.2 may be rounded
def fraction_staleness(rng):
    return given(filled(pattern(rng), lambda: Fraction(1, 1 + int(rng.integers(0, 30)))))


@kind(sure=False)  # as above, 2/8 beside 2/10
def scaled_staleness(rng):
    """1 / (1 + staleness), divided by that of a reference, each rounded."""
    mask, reference = pattern(rng), int(rng.integers(1, 12))
    late = rng.integers(0, 12, mask.shape)
    P = mask * ((1.0 / (1.0 + late)) / (1.0 / (1.0 + reference)))
    return P, [[Fraction((1 + reference) * int(m), 1 + int(t)) for m, t in zip(*r)] for r in zip(mask, late)]


def normalised(rng, most, size):
    mask, samples = pattern(rng, most), rng.integers(1, size, most)
    rows = []
    for row in mask:
        total = int((row * samples[: len(row)]).sum())
        rows.append([Fraction(int(n) * int(x), total) for n, x in zip(samples, row)])
    return rows


@kind(sure=False)  # 0.6392 may be a rounded number
def samples_of_a_round(rng):
    return given(normalised(rng, 6, 1000))


@kind(sure=False)  # two clients with 10^6 samples each leave little for chance to be excluded by
def samples_of_a_large_round(rng):
    return given(normalised(rng, 6, int(rng.choice([10**6, 10**7, 10**9, 10**12]))))


@kind()
def single_precision(rng):
    P, rows = given(filled(pattern(rng), lambda: Fraction(1, int(rng.integers(1, 16)))), np.float32)
    return (P if rng.random() < 0.5 else P.astype(float)), rows


@kind(sure=False)
def single_precision_samples(rng):
    P, rows = given(normalised(rng, 6, int(rng.choice([10, 1000]))), np.float32)
    return (P if rng.random() < 0.5 else P.astype(float)), rows


@kind(sure=False)
def half_precision(rng):
    P, rows = given(filled(pattern(rng), lambda: Fraction(1, int(rng.integers(1, 16)))), np.float16)
    return (P if rng.random() < 0.5 else P.astype(float)), rows


@kind(sure=False)
def decimals(rng):
    """Fractions written with so many digits."""
    digits, most = int(rng.integers(2, 13)), int(rng.choice([4, 16, 100]))
    rows = filled(pattern(rng), lambda: Fraction(1, int(rng.integers(1, most))))
    return np.array([[round(float(x), digits) for x in row] for row in rows]), rows


@kind(sure=False)  # 0.25 beside 0.2 may be rounded
def six_digits(rng):
    rows = filled(pattern(rng), lambda: Fraction(1, int(rng.integers(1, 13))))
    return np.array([[round(float(x), 6) for x in row] for row in rows]), rows


@kind(sure=False)
def six_digits_of_samples(rng):
    rows = normalised(rng, 6, int(rng.choice([10, 100, 10**5])))
    return np.array([[round(float(x), 6) for x in row] for row in rows]), rows


@kind()
def near_parallel_columns(rng):
    mask = pattern(rng)
    step = 2.0 ** -int(rng.integers(26, 36))  # fewer bits would look like single precision
    mask[0, 0] = 1
    rows = filled(mask, lambda: Fraction(1 + int(rng.integers(0, 4)) * step))
    return given(rows)


@kind()
def prime_collisions(rng):
    """Small numbers plus multiples of the largest primes below 2^32: dependent modulo these, and only there."""
    rows = [[Fraction(int(x) * int(rng.integers(1, 3))) for x in row] for row in pattern(rng)]
    for _ in range(int(rng.integers(1, 3))):
        row = [sum((int(rng.integers(0, 3)) * r[i] for r in rows), Fraction(0)) for i in range(len(rows[0]))]
        for i in range(len(row)):
            row[i] += int(rng.integers(0, 2)) * int(rng.choice([4294967291, 4294967279]))
        rows.append(row if any(row) else rows[0])
    return given(rows)


@kind()
def both_primes_at_once(rng):
    """A 2 x 2 minor that is the product of the two largest primes below 2^32, beside other clients."""
    p, q, a = 4294967291, 4294967279, int(rng.integers(1, 9))
    rows = [[p + a, 1], [a * (q + 1) + p, q + 1]]  # (p + a)(q + 1) - (a (q + 1) + p) = p q
    extra = rng.integers(0, 2, (2, int(rng.integers(0, 4)))).tolist()
    return given([[Fraction(x) for x in row + more] for row, more in zip(rows, extra)])


@kind(sure=False)  # 0.25 beside 0.2 may be rounded
def duplicated_columns(rng):
    _, rows = fraction_staleness(rng)
    taken = rng.integers(0, len(rows[0]), int(rng.integers(2, 8))).tolist()
    rows = [[row[i] for i in taken] for row in rows]
    rows[0] = [Fraction(1)] * len(taken)
    return given(rows)


@kind()
def empty_columns(rng):
    _, rows = dyadic_staleness(rng)
    kept = rng.random(len(rows[0])) < 0.6
    kept[0] = True
    rows = [[x if keep else Fraction(0) for x, keep in zip(row, kept)] for row in rows]
    rows[0][0] = Fraction(1)
    return given(rows)


@kind()
def integer_combinations(rng):
    rows = [[Fraction(int(x) * int(rng.integers(1, 5))) for x in row] for row in pattern(rng)]
    for _ in range(int(rng.integers(1, 4))):
        weights = rng.integers(0, 4, len(rows)).tolist()
        row = [sum((w * r[i] for w, r in zip(weights, rows)), Fraction(0)) for i in range(len(rows[0]))]
        rows.append(row if any(row) else rows[0])
    return given(rows)


@kind()
def large_whole_numbers(rng):
    mask = pattern(rng)
    samples = rng.integers(1, 10 ** int(rng.integers(1, 9)), mask.shape)
    return given([[Fraction(int(x) * int(n)) for x, n in zip(*row)] for row in zip(mask, samples)])


@kind(sure=False)  # some look like single precision
def dyadic_sums(rng):
    """Large and small dyadic numbers of which some are the sums of others."""
    draw = lambda: Fraction(int(rng.integers(1, 2**8)) * 2 ** int(rng.integers(0, 8)), 2 ** int(rng.integers(0, 16)))  # noqa: E731
    rows = filled(pattern(rng), draw)
    if len(rows) > 1:
        rows.append([a + b for a, b in zip(rows[0], rows[1])])
    return given(rows)


def powers(rng, top, bottom):
    """(1 + staleness)^(-top / bottom), as numpy rounds it."""
    mask = pattern(rng)
    late = rng.choice([0, 1, 2, 3, 5, 7, 11, 17, 23], mask.shape)
    P = mask * (1.0 + late) ** (-top / bottom)
    truth = {int(t): root(Fraction(1, (1 + int(t)) ** top), bottom) for t in np.unique(late)}
    return P, [[truth[int(t)] if x else Fraction(0) for x, t in zip(*row)] for row in zip(mask, late)]


@kind()
def square_roots(rng):
    return powers(rng, 1, 2)


@kind()
def cube_roots(rng):
    return powers(rng, int(rng.integers(1, 3)), 3)


@kind()
def fourth_roots(rng):
    return powers(rng, int(rng.choice([1, 3])), 4)


@kind()
def tenth_roots(rng):
    return powers(rng, int(rng.choice([1, 3])), 10)


@kind(sure=False)
def odd_powers(rng):
    return powers(rng, int(rng.integers(1, 12)), int(rng.choice([7, 11, 13])))


@kind()
def scaled_square_roots(rng):
    """Square roots relative to that of a reference, and those of a round that is the first one times a root."""
    P, rows = square_roots(rng)
    reference = root(Fraction(1, 1 + int(rng.choice([1, 2, 4, 5]))))
    rows = [[x / reference for x in row] for row in rows]
    rows.append([x * root(Fraction(2)) for x in rows[0]])
    return np.array([[float(x) for x in row] for row in rows]), rows


@kind(sure=False)
def samples_times_square_roots(rng):
    mask = pattern(rng)
    samples, late = rng.integers(1, 700, mask.shape[1]), rng.integers(0, 9, mask.shape)
    rows = [
        [int(x) * int(n) * root(Fraction(1, 1 + int(t))) for x, n, t in zip(row, samples, ages)]
        for row, ages in zip(mask, late)
    ]
    return given(rows)


@kind(sure=False)
def exponentials(rng):
    """q^staleness for an arbitrary real q: dependent wherever geometric rows repeat."""
    mask, base = pattern(rng), Fraction(int(rng.integers(2**59, 2**60)), 2**60)
    late = rng.integers(0, 4, mask.shape)
    return given([[int(x) * base ** int(t) for x, t in zip(*row)] for row in zip(mask, late)])


@kind(sure=False)
def reals(rng):
    return given(filled(pattern(rng), lambda: Fraction(float(rng.random()))))


@kind(sure=False)
def dependent_reals(rng):
    """Rows that are sums and multiples of others, each number rounded."""
    rows = filled(pattern(rng), lambda: Fraction(int(rng.integers(1, 2**60)), 2**60))
    factor = Fraction(int(rng.integers(1, 2**60)), 2**60)
    rows.append([factor * x for x in rows[0]])
    rows.append([a + b for a, b in zip(rows[0], rows[-2])])
    form = rng.choice(["double", "single", "six digits"])
    write = {"double": float, "single": np.float32, "six digits": lambda x: round(float(x), 6)}[str(form)]
    return given(rows, write)
