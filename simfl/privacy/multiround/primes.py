"""Primes below 2**32 to compute with: the first of a known list, the others drawn from what is in the matrix.

A prime that somebody knows beforehand can be met by a matrix made for it; one that depends on every entry of the matrix
divides a given minor with a chance of about (digits of the minor) / 10**9.
"""

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from simfl.core.prime_field import PRIMES, is_prime
from simfl.privacy.multiround.roots import Root, primes_with_roots

BLOCK = 2**18  # candidates looked at together


def primes(roots: list[Root], content: list[NDArray[np.generic]]) -> Iterator[int]:
    """Primes that hold some roots, without end: first a large one, the others by a digest of some arrays."""
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
