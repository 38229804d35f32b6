"""Arithmetic modulo the prime q = 2^32 - 5, element by element and as matrix products; arrays are int64 in [0, q)."""

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import PRIMES, echelon, inverses, times
from simfl.core.processor import one_thread

Q = PRIMES[0]
"""2^32 - 5, the largest prime below 2^32: an element fits into four bytes."""

Elements = NDArray[np.int64]

LIMB = 16
TERMS = 128
"""Products of 15-bit by 31-bit magnitudes that a float64 adds up exactly: 2^15 * 2^31 * 2^7 = 2^53."""
CHUNK = 1 << 12
"""Columns of a matrix product at a time, so that its parts stay in the processor's cache."""


def reduce_whole(numbers: NDArray[np.int64]) -> Elements:
    """Whole numbers modulo q, without a division where they lie between -q and 2 q; themselves if nothing is to do."""
    low, high = (numbers.min(), numbers.max()) if numbers.size else (0, 0)
    if low < -Q or high >= 2 * Q:
        return numbers % Q
    if low < 0:
        numbers = numbers + (numbers < 0) * Q
    return numbers - (numbers >= Q) * Q if high >= Q else numbers


def mul(a: object, b: object) -> Elements:
    """Products of elements, of any shapes that fit together."""
    return times(np.asarray(a).astype(np.uint64), np.asarray(b).astype(np.uint64), Q).view(np.int64)


def matmul(a: Elements, b: Elements) -> Elements:
    """The matrix product (m, k) x (k, n), exactly.

    Elements are taken as the signed numbers of least magnitude, and the left factor is cut into two limbs of 16 bits;
    sums of up to 128 products of a limb and an element stay within 2^53, so that float64 adds them without rounding,
    in whatever order.
    """
    a, b = to_signed(np.asarray(a, dtype=np.int64)), np.asarray(b, dtype=np.int64)
    high = (a + 2 ** (LIMB - 1)) >> LIMB
    limbs = high.astype(np.float64), (a - (high << LIMB)).astype(np.float64)
    out = np.empty((a.shape[0], b.shape[1]), dtype=np.int64)
    if b.shape[1] > CHUNK:  # parts this small are not worth the threads that they would wake up
        with one_thread():
            _multiply(limbs, b, out)
    else:
        _multiply(limbs, b, out)
    return out


def _multiply(limbs: tuple[NDArray[np.float64], NDArray[np.float64]], b: Elements, out: Elements) -> None:
    high, low = limbs
    for left in range(0, b.shape[1], CHUNK):
        total: Elements = np.zeros((len(out), min(CHUNK, b.shape[1] - left)), dtype=np.int64)
        for first in range(0, b.shape[0], TERMS):
            some = slice(first, first + TERMS)
            right = b[some, left : left + CHUNK].astype(np.float64)
            right -= (right > Q // 2) * float(Q)
            part = _fold((high[:, some] @ right).astype(np.int64)) << LIMB
            part += (low[:, some] @ right).astype(np.int64)
            total += _fold(part)
        out[:, left : left + CHUNK] = reduce_whole(_fold(total))


def _fold(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same numbers modulo q, of magnitude below 2^33, of magnitudes up to 2^54: 2^32 is 5 there."""
    return (values & 2**32 - 1) + 5 * (values >> 32)


def vandermonde(points: Elements, width: int, p: int = Q) -> Elements:
    """The powers 0 ... width-1 of each point, (points, width), modulo a prime."""
    at, powers = np.asarray(points).astype(np.uint64), np.ones((len(points), width), dtype=np.uint64)
    for power in range(1, width):
        powers[:, power] = times(powers[:, power - 1], at, p)
    return powers.view(np.int64)


def inverse(matrix: Elements, p: int = Q) -> Elements:
    """The inverse of a square matrix modulo a prime.

    Raises:
        ZeroDivisionError: there is none.
    """
    n = len(matrix)
    beside_one = np.concatenate([matrix % p, np.eye(n, dtype=np.int64)], axis=1).astype(np.uint64)
    form, pivots = echelon(beside_one, p, np.arange(n))
    if len(pivots) < n:
        raise ZeroDivisionError("the matrix is singular")
    return form[:, n:].astype(np.int64)


def products(factors: Elements) -> Elements:
    """The product of each row, (rows,)."""
    while factors.shape[1] > 1:
        if factors.shape[1] % 2:
            factors = np.concatenate([factors, np.ones((len(factors), 1), dtype=np.int64)], axis=1)
        factors = mul(factors[:, ::2], factors[:, 1::2])
    return factors[:, 0]


def spread(points: Elements) -> Elements:
    """For each point, 1 / the product of its differences from the others, (points,).

    Summed up with these weights, the values of a polynomial of degree points - 2 or less give 0.

    Raises:
        ZeroDivisionError: two points are the same.
    """
    if len(np.unique(points)) != len(points):
        raise ZeroDivisionError("two points are the same")
    differences = (points[:, None] - points) % Q
    np.fill_diagonal(differences, 1)
    return inverses(products(differences).astype(np.uint64), Q).astype(np.int64)


def lagrange(points: Elements) -> Elements:
    """The weights, (points,), with which values at distinct points give their polynomial's value at 0.

    Raises:
        ZeroDivisionError: two points are the same.
    """
    others = np.broadcast_to((-points) % Q, (len(points), len(points))).copy()
    np.fill_diagonal(others, 1)
    return mul(products(others), spread(points))


def columns_at(matrix: Elements, points: Elements) -> Elements:
    """Rows of coefficients (k, n) as polynomials, evaluated: (points, n)."""
    return matmul(vandermonde(points, len(matrix)), matrix)


def to_signed(elements: Elements) -> NDArray[np.int64]:
    """The whole numbers of least magnitude that elements stand for."""
    return np.where(elements > Q // 2, elements - Q, elements)
