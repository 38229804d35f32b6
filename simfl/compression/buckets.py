"""Updates in buckets of equal length, each with a scale of its own."""

from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.core.types import Floats, Integers, Vectors

SCALE_BYTES = 4
"""Of a bucket's scale on the wire."""

Bucket = Annotated[
    int | None, Field(ge=1, description="coordinates that share a scale; null = all, so that an update has one scale")
]


def count(dimension: int, bucket: int | None) -> int:
    """Buckets of d coordinates; the last one may be shorter."""
    return 0 if not dimension else 1 if bucket is None else -(-dimension // bucket)


def lengths(dimension: int, bucket: int | None) -> Integers:
    """Coordinates in each bucket, (m,)."""
    return np.diff(np.append(starts(dimension, bucket), dimension))


def starts(dimension: int, bucket: int | None) -> Integers:
    """The first coordinate of each bucket, (m,)."""
    return np.arange(count(dimension, bucket), dtype=np.int64) * (bucket or dimension)


def sums(values: Floats, bucket: int | None) -> Floats:
    """The sum of each bucket of rows (n, d), (n, m)."""
    return np.add.reduceat(values, starts(values.shape[1], bucket), axis=1)


def spread(scales: Vectors, dimension: int, bucket: int | None) -> Vectors:
    """Each bucket's scale, (n, m), at each of its coordinates, (n, d)."""
    return np.repeat(scales, lengths(dimension, bucket), axis=1)
