"""Exact rational solutions of square integer systems, by p-adic lifting."""

from fractions import Fraction
from math import isqrt, log2

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import echelon, matvec


def lifting_work(matrix: NDArray[np.object_], columns: int = 1) -> float:
    """Upper estimate of the work of :func:`solve`, in modular multiplications."""
    n = len(matrix)
    bits = _determinant_bits(matrix)
    product = 1 if _small(matrix) else 100
    return 6.0 * n**3 + columns * (bits / 16 + 1) * product * n * n


def solve(matrix: NDArray[np.object_], right: NDArray[np.object_], p: int) -> list[list[Fraction]] | None:
    """The rational x with ``matrix @ x == right`` for every column of ``right``; None if singular mod p.

    Integers, (n, n) and (n, columns); p is a prime below 2**32. Reference: J. D. Dixon, Exact solution of linear
    equations using p-adic expansions, Numer. Math. 40 (1982).
    """
    n, columns = right.shape
    residues = np.concatenate([(matrix % p).astype(np.uint64), np.eye(n, dtype=np.uint64)], axis=1)
    form, pivots = echelon(residues, p, np.arange(n))
    if len(pivots) < n:
        return None
    inverse = form[:, n:]
    a = matrix.astype(np.int64) if _small(matrix) else matrix
    rest = right.astype(a.dtype) if _small(right) else right
    bits = 2 * (_determinant_bits(matrix) + log2(1 + max((abs(int(v)) for v in right.flat), default=0))) + 2
    x = np.zeros((n, columns), dtype=object)
    power, digits, attempt = 1, 0, 4
    while True:
        digit = np.stack([matvec(inverse, (rest[:, j] % p).astype(np.uint64), p) for j in range(columns)], axis=1)
        x += digit.astype(object) * power
        rest = (rest - a @ digit.astype(a.dtype)) // p
        power *= p
        digits += 1
        last = digits * log2(p) > bits
        if digits >= attempt or last:
            attempt *= 2
            solutions = [_reconstruct(matrix, right[:, j], x[:, j], power) for j in range(columns)]
            if len(whole := [f for f in solutions if f is not None]) == columns:
                return whole
            if last:
                return None


def _small(a: NDArray[np.object_]) -> bool:
    """Whether products with 32-bit digits, summed over a row, fit 64-bit integers."""
    return max((abs(int(v)) for v in a.flat), default=0) * (a.shape[0] + 1) < 2**30


def _determinant_bits(matrix: NDArray[np.object_]) -> float:
    """Hadamard's bound on the logarithm of any minor."""
    return sum(max(0.0, log2(max(1, sum(int(v) ** 2 for v in row))) / 2) for row in matrix) + 1


def _reconstruct(
    matrix: NDArray[np.object_], right: NDArray[np.object_], x: NDArray[np.object_], modulus: int
) -> list[Fraction] | None:
    """The vector of fractions with small terms that is x mod ``modulus``, if it solves the system."""
    half = isqrt(modulus // 2)
    denominator = 1
    for value in x:
        scaled = int(value) * denominator % modulus
        if min(scaled, modulus - scaled) > half // denominator:
            part = _denominator(scaled, modulus, half)
            denominator *= part
            if not 0 < denominator <= half:
                return None
    scaled = x * denominator % modulus
    numerators = np.where(scaled > modulus // 2, scaled - modulus, scaled)
    if np.any(matrix @ numerators != right * denominator):
        return None
    return [Fraction(int(v), denominator) for v in numerators]


def _denominator(value: int, modulus: int, bound: int) -> int:
    """The smallest d with |d * value mod modulus| <= bound, from Euclid's algorithm."""
    r0, r1, d0, d1 = modulus, value, 0, 1
    while r1 > bound:
        q = r0 // r1
        r0, r1 = r1, r0 - q * r1
        d0, d1 = d1, d0 - q * d1
    return abs(d1)
