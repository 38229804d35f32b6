"""Roots of whole numbers beside fractions, modulo primes that hold them.

The positive roots of different primes obey no relation but their own (A. S. Besicovitch, J. London Math. Soc. 15,
1940), so a map that sends every prime number to one of its roots modulo p respects all sums and products of them, and
ranks modulo p are ranks over the numbers as certainly as without roots.
"""

from collections.abc import Iterator
from fractions import Fraction
from hashlib import blake2b
from math import isqrt, lcm

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import PRIMES, is_prime

Root = tuple[tuple[int, Fraction], ...]
"""(prime, exponent between 0 and 1), by prime: the product of prime**exponent."""

LARGEST = 2**34

GENERATORS = 20
"""Primes whose roots may occur together: about one candidate in 2**20 holds the square roots of so many."""

DIGITS = 400  # binary, of an approximation


def root(numerator: int, denominator: int, degree: int) -> tuple[int, int, Root | None]:
    """The root of a fraction as a fraction times a root in lowest terms: numerator, denominator, root; None if it is
    too large to be factorised."""
    if max(numerator, denominator) > LARGEST:
        return 0, 0, None
    above, below, rest = 1, 1, []
    powers = _factors(numerator) | {ell: -e for ell, e in _factors(denominator).items()}
    for ell, power in sorted(powers.items()):
        whole = power // degree
        above, below = above * ell ** max(whole, 0), below * ell ** max(-whole, 0)
        if power % degree:
            rest.append((ell, Fraction(power % degree, degree)))
    return above, below, tuple(rest)


def _factors(n: int) -> dict[int, int]:
    powers: dict[int, int] = {}
    d = 2
    while d * d <= n:
        while n % d == 0:
            powers[d] = powers.get(d, 0) + 1
            n //= d
        d += 1 if d == 2 else 2
    if n > 1:
        powers[n] = powers.get(n, 0) + 1
    return powers


def primes_with_roots(candidates: NDArray[np.int64], roots: list[Root]) -> NDArray[np.int64]:
    """Those odd numbers 3 mod 4 that, if they are primes, have the roots (Jacobi symbols by reciprocity)."""
    degree = lcm(*(exponent.denominator for some in roots for _, exponent in some))
    if degree % 2 == 0:
        for ell in sorted({ell for some in roots for ell, _ in some}):
            candidates = candidates[_square(ell, candidates)]
    return candidates[np.gcd(candidates - 1, degree // (degree & -degree)) == 1]


def _square(ell: int, candidates: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where the prime ``ell`` is a square modulo a prime 3 mod 4."""
    if ell == 2:
        return candidates % 8 == 7
    if ell > 2**16:
        return np.array([pow(ell, (c - 1) // 2, c) == 1 for c in candidates.tolist()], dtype=bool)
    squares = np.zeros(ell, dtype=bool)
    squares[np.arange(1, ell, dtype=np.int64) ** 2 % ell] = True
    return squares[candidates % ell] == (ell % 4 == 1)


def modular(root: Root, p: int) -> int:
    """A root modulo a prime that holds it: the root that is a square itself where half of all numbers have one."""
    value = 1
    for ell, exponent in root:
        order = p - 1 if exponent.denominator % 2 else (p - 1) // 2
        value = value * pow(ell, exponent.numerator * pow(exponent.denominator, -1, order) % order, p) % p
    return value


def approximation(root: Root) -> Fraction:
    """A root to some hundred digits."""
    value = Fraction(1)
    for ell, exponent in root:
        degree = exponent.denominator
        value *= Fraction(_whole_root(ell**exponent.numerator << degree * DIGITS, degree), 1 << DIGITS)
    return value


def _whole_root(n: int, degree: int) -> int:
    """The floor of the root of a whole number, by Newton's method."""
    if degree == 2:
        return isqrt(n)
    x = 1 << -(-n.bit_length() // degree)
    while True:
        y = ((degree - 1) * x + n // x ** (degree - 1)) // degree
        if y >= x:
            return x
        x = y


BLOCK = 2**18  # candidates looked at together


def primes(roots: list[Root], content: list[NDArray[np.generic]]) -> Iterator[int]:
    """Primes below 2**32 that hold some roots, without end: first a large one, the others by a digest of some arrays.

    A prime that somebody knows beforehand can be met by a matrix made for it; one that depends on every entry of the
    matrix divides a given minor with a chance of about (digits of the minor) / 10**9.
    """
    if not roots:
        yield PRIMES[0]
    else:
        yield next(_below(2**32 - 1, roots))
    digest = blake2b(digest_size=8)
    for array in content:
        digest.update(np.ascontiguousarray(array).data)
    rng = np.random.Generator(np.random.Philox(key=int.from_bytes(digest.digest(), "little")))
    while True:
        yield next(_below(int(rng.integers(3 * 2**30, 2**32)) | 3, roots))


def _below(start: int, roots: list[Root]) -> Iterator[int]:
    """The primes 3 mod 4 (any odd ones without roots) from ``start`` on downwards that hold the roots."""
    if not roots:
        yield from filter(is_prime, range(start, 2**31, -2))
    block = min(BLOCK, 2 ** (8 + len({ell for root in roots for ell, _ in root})))
    for top in range(start, 2**31, -4 * block):
        yield from filter(is_prime, primes_with_roots(top - 4 * np.arange(block, dtype=np.int64), roots).tolist())
