"""Linear algebra modulo a prime below 2**32, on uint64 arrays: exact ranks for privacy, exact sums under masks.

A product of two residues fits 64 bits, and division by a scalar is vectorised in numpy, so a modular
multiplication costs one to two nanoseconds.
"""

import numpy as np
from numpy.typing import NDArray

Residues = NDArray[np.uint64]

PRIMES = (4294967291, 4294967279, 4294967231, 4294967197)
"""The largest primes below 2**32: ranks are taken modulo the first where it divides no weight, and masked sums are."""

SMALL, LARGE = 1 << 12, 1 << 16
"""Sizes of arrays between which three vectorised operations are faster than numpy's remainder, which is not vectorised;
above, further arrays cost more than they save."""


def modulo(x: Residues, p: int, out: Residues | None = None) -> Residues:
    """x mod p; into ``out`` where one is given, which may be x."""
    prime = np.uint64(p)
    if not SMALL <= x.size <= LARGE:
        return np.remainder(x, prime, out=out)
    multiple = x // prime
    multiple *= prime
    return np.subtract(x, multiple, out=multiple if out is None else out)


def times(a: Residues, b: Residues | np.uint64, p: int) -> Residues:
    """a * b mod p, elementwise."""
    product = np.asarray(a * b)
    return modulo(product, p, out=product)


def negative(a: Residues, p: int) -> Residues:
    """-a mod p, elementwise."""
    return modulo(np.uint64(p) - a, p)


def matvec(matrix: Residues, vector: Residues, p: int) -> Residues:
    """matrix (m, n) times vector (n,) mod p, shape (m,)."""
    return modulo(times(matrix, vector, p).sum(axis=-1, dtype=np.uint64), p)


def inverses(x: Residues, p: int) -> Residues:
    """The inverses mod p of all elements, with 0 for 0: one scalar inversion and three products an element.

    The halves of the array are multiplied until little is left; its inverses are taken and unfolded again.
    """
    flat = x.ravel()
    zero = flat == 0
    folds = [np.where(zero, np.uint64(1), flat)]
    while len(folds[-1]) > 8:
        if len(folds[-1]) % 2:
            folds[-1] = np.append(folds[-1], np.uint64(1))
        half = len(folds[-1]) // 2
        folds.append(times(folds[-1][:half], folds[-1][half:], p))
    result = np.array([pow(int(v), -1, p) for v in folds[-1]], dtype=np.uint64)
    for level in reversed(folds[:-1]):
        half = len(level) // 2
        result = np.concatenate([times(result[:half], level[half:], p), times(result[:half], level[:half], p)])
    result = result[: len(flat)]
    result[zero] = 0
    return result.reshape(x.shape)


def echelon(matrix: Residues, p: int, order: NDArray[np.integer] | None = None) -> tuple[Residues, NDArray[np.int64]]:
    """Reduced row echelon form mod p.

    Args:
        matrix: residues, shape (m, n).
        order: columns in the order in which pivots are looked for; by default from left to right. Columns
            left out never become pivots (so an identity appended on the right records the row operations).

    Returns:
        The rows of the reduced form that have a pivot, shape (rank, n), and their pivot columns.
    """
    a = matrix.copy()
    m, n = a.shape
    pivots: list[int] = []
    for column in range(n) if order is None else order:
        k = len(pivots)
        if k == m:
            break
        hits = np.flatnonzero(a[:, column])
        below = hits[np.searchsorted(hits, k) :]
        if not len(below):
            continue
        if below[0] != k:
            a[[k, below[0]]] = a[[below[0], k]]
            hits = np.flatnonzero(a[:, column])
        a[k] = times(a[k], np.uint64(pow(int(a[k, column]), -1, p)), p)
        others = hits[hits != k]
        if len(others):
            factors = np.uint64(p) - a[others, column]
            a[others] = modulo(a[others] + factors[:, None] * a[k], p)
        pivots.append(int(column))
    return a[: len(pivots)], np.array(pivots, dtype=np.int64)


def is_prime(n: int) -> bool:
    """Miller's test with three bases, enough below 4,759,123,141 (G. Jaeschke, Math. Comp. 61, 1993)."""
    power = (n - 1) & -(n - 1)
    for base in (2, 7, 61):
        x = pow(base, (n - 1) // power, n)
        square = 1
        while 2 * square < power and x not in (1, n - 1):
            x, square = x * x % n, square * 2
            if x == 1:
                return False
        if x not in (1, n - 1):
            return False
    return True


def drawn_prime(rng: np.random.Generator) -> int:
    """A prime between 2**31 and 2**32 that nobody knows beforehand: the first at or below a random odd number."""
    return next(filter(is_prime, range(int(rng.integers(3 * 2**30, 2**32)) | 1, 2**31, -2)))
