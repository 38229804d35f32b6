"""Few bits a coordinate, in buckets of equal length with scales of their own: stochastic rounding to a few levels of
the norm (QSGD), and one bit with error feedback (signSGD).
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.compression.base import COMPRESSIONS, LEVELS, Compression, ErrorFeedback, at_most_dense
from simfl.core.payload import PayloadPart
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Floats, Integers, Job, Vectors

SCALE_BYTES = 4
"""Of a bucket's scale on the wire."""

Bucket = Annotated[
    int | None, Field(ge=1, description="coordinates that share a scale; null = all, so that an update has one scale")
]


def bucket_count(dimension: int, bucket: int | None) -> int:
    """Buckets of d coordinates; the last one may be shorter."""
    return 0 if not dimension else 1 if bucket is None else -(-dimension // bucket)


def bucket_lengths(dimension: int, bucket: int | None) -> Integers:
    """Coordinates in each bucket, (m,)."""
    return np.diff(np.append(bucket_starts(dimension, bucket), dimension))


def bucket_starts(dimension: int, bucket: int | None) -> Integers:
    """The first coordinate of each bucket, (m,)."""
    return np.arange(bucket_count(dimension, bucket), dtype=np.int64) * (bucket or dimension)


def bucket_sums(values: Floats, bucket: int | None) -> Floats:
    """The sum of each bucket of rows (n, d), (n, m)."""
    return np.add.reduceat(values, bucket_starts(values.shape[1], bucket), axis=1)


def spread_scales(scales: Vectors, dimension: int, bucket: int | None) -> Vectors:
    """Each bucket's scale, (n, m), at each of its coordinates, (n, d)."""
    return np.repeat(scales, bucket_lengths(dimension, bucket), axis=1)


@COMPRESSIONS("quantise")
@dataclass(frozen=True)
class Quantise(Compression):
    """Each coordinate is rounded at random, without bias, to a multiple of the L2 norm over s = 2^(bits - 1) - 1.

    Coordinate v becomes norm sign(v) l / s, where l is one of the two whole numbers beside s |v| / norm. The variance
    is at most min(d / s², sqrt(d) / s) times the squared norm. On the wire: ``bits`` a coordinate (its sign and l) and
    a norm of 4 bytes a bucket. Reference: Alistarh et al., "QSGD: Communication-efficient SGD via gradient quantization
    and encoding", NeurIPS 2017, section 3.1 and Lemma 3.1; Elias codes are not built, since their length is known only
    after training.
    """

    bits: Annotated[int, Field(ge=2, le=16, description="of a coordinate on the wire, its sign included")] = 4
    bucket: Bucket = None

    subsamples = False
    per_client = True

    @property
    def levels(self) -> int:
        """s."""
        return int(2 ** (self.bits - 1)) - 1

    def exposes(self, setting: ScenarioView) -> tuple[PayloadPart, ...]:
        return (LEVELS,)

    def size_bytes(self, dimension: int) -> int:
        scales = SCALE_BYTES * bucket_count(dimension, self.bucket)
        return at_most_dense(-(-dimension * self.bits // 8) + scales, dimension)

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], streams: Streams) -> Vectors:
        n, d = vectors.shape
        if not d:
            return vectors
        exact = np.sqrt(bucket_sums(np.square(vectors, dtype=np.float64), self.bucket))
        norms = exact.astype(np.float32)
        norms = np.where(norms < exact, np.nextafter(norms, np.float32(np.inf)), norms)  # a level is at most s
        scales = spread_scales(norms, d, self.bucket)
        ratio = np.divide(np.abs(vectors), scales, out=np.zeros((n, d)), where=scales > 0) * self.levels
        low = np.floor(ratio)
        uniform = np.empty((n, d))
        for row, job in zip(uniform, jobs, strict=True):
            streams("compression/quantise", job.id).random(out=row)
        level = low + (uniform < ratio - low)
        return np.copysign(scales * (level / self.levels), vectors).astype(np.float32)


@COMPRESSIONS("sign")
@dataclass(frozen=True)
class Sign(Compression):
    """Each coordinate becomes its sign times the mean magnitude, ||v||_1 / d; 0 counts as positive.

    What is left out has squared norm ||v||² - ||v||_1² / d. On the wire: one bit a coordinate and a scale of 4 bytes a
    bucket. Reference: with error feedback EF-signSGD of Karimireddy et al., "Error feedback fixes SignSGD and other
    gradient compression schemes", ICML 2019, Algorithm 1 and Lemma 8; without it, the scaled signs of Bernstein et al.,
    "signSGD: Compressed optimisation for non-convex problems", ICML 2018, averaged instead of counted as votes.
    """

    error_feedback: ErrorFeedback = True
    bucket: Bucket = None

    subsamples = False
    per_client = True

    def exposes(self, setting: ScenarioView) -> tuple[PayloadPart, ...]:
        return (LEVELS,)

    def size_bytes(self, dimension: int) -> int:
        scales = SCALE_BYTES * bucket_count(dimension, self.bucket)
        return at_most_dense(-(-dimension // 8) + scales, dimension)

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], streams: Streams) -> Vectors:
        d = vectors.shape[1]
        if not d:
            return vectors
        total = bucket_sums(np.abs(vectors, dtype=np.float64), self.bucket)
        scales = (total / bucket_lengths(d, self.bucket)).astype(np.float32)
        return np.where(vectors < 0, np.float32(-1), np.float32(1)) * spread_scales(scales, d, self.bucket)
