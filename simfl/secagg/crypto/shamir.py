"""Secrets of 32 bytes in shares, any t of which give them back (Shamir 1979), over the field of q elements.

A secret is nine limbs of 31 bits, each of them the value at 0 of its own random polynomial of degree t - 1.
"""

import numpy as np
from numpy.typing import NDArray

from simfl.secagg.crypto.field import Elements, columns_at, lagrange, matmul, spread
from simfl.secagg.crypto.keys import ELEMENT, ProtocolViolation, elements

LIMBS, BITS = 9, 31
SHARE = LIMBS * ELEMENT
"""Bytes of a share."""


def shares(secrets: list[bytes], points: NDArray[np.int64], threshold: int, seed: bytes) -> Elements:
    """Shares, (points, secrets, 9), of secrets of 32 bytes.

    Args:
        points: where the holders' shares lie: distinct, from 1 on.
        threshold: shares that give a secret back; fewer say nothing about it.
        seed: 32 bytes from which the polynomials are drawn.

    Raises:
        ProtocolViolation: a point is 0 or there twice, or the threshold is below 1.
    """
    if len(np.unique(points)) != len(points) or (len(points) and points.min() < 1) or threshold < 1:
        raise ProtocolViolation("shares lie at distinct points from 1 on, and at least one of them is needed")
    rest = elements(seed, (threshold - 1) * len(secrets) * LIMBS).reshape(threshold - 1, len(secrets) * LIMBS)
    rows = np.concatenate([_limbs(secrets).reshape(1, -1), rest])
    return columns_at(rows, points).reshape(len(points), len(secrets), LIMBS)


def combine_shares(shares: Elements, points: NDArray[np.int64], threshold: int) -> list[bytes]:
    """The secrets of shares, (points, secrets, 9); more than ``threshold`` of them are compared with one another.

    Raises:
        ProtocolViolation: there are too few, or they contradict one another.
    """
    if len(points) < threshold:
        raise ProtocolViolation(f"{len(points)} shares, but {threshold} are needed")
    flat = shares.reshape(len(points), -1)
    if len(points) > threshold and matmul(spread(points)[None], flat).any():
        raise ProtocolViolation("shares contradict one another")
    values = matmul(lagrange(points[:threshold])[None], flat[:threshold])
    return [_secret_bytes(limbs) for limbs in values.reshape(-1, LIMBS)]


def _limbs(secrets: list[bytes]) -> Elements:
    numbers = [int.from_bytes(secret, "little") for secret in secrets]
    mask = 2**BITS - 1
    return np.array([[number >> BITS * i & mask for i in range(LIMBS)] for number in numbers], dtype=np.int64)


def _secret_bytes(limbs: Elements) -> bytes:
    number = sum(limb << BITS * i for i, limb in enumerate(limbs.tolist()))
    if max(limbs.tolist()) >> BITS or number >> 256:
        raise ProtocolViolation("shares do not belong together")
    return number.to_bytes(32, "little")
