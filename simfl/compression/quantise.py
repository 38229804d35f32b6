"""Stochastic rounding to a few levels of the norm: QSGD."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.compression import buckets
from simfl.compression.base import COMPRESSIONS, LEVELS, Compression, at_most_dense
from simfl.core.payload import PayloadPart
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Floats, Job, Vectors


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
    bucket: buckets.Bucket = None

    subsamples = False
    per_client = True

    @property
    def levels(self) -> int:
        """s."""
        return int(2 ** (self.bits - 1)) - 1

    def exposes(self, setting: ScenarioView) -> tuple[PayloadPart, ...]:
        return (LEVELS,)

    def size_bytes(self, dimension: int) -> int:
        scales = buckets.SCALE_BYTES * buckets.count(dimension, self.bucket)
        return at_most_dense(-(-dimension * self.bits // 8) + scales, dimension)

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], streams: Streams) -> Vectors:
        n, d = vectors.shape
        if not d:
            return vectors
        exact = np.sqrt(buckets.sums(np.square(vectors, dtype=np.float64), self.bucket))
        norms = exact.astype(np.float32)
        norms = np.where(norms < exact, np.nextafter(norms, np.float32(np.inf)), norms)  # a level is at most s
        scales = buckets.spread(norms, d, self.bucket)
        ratio = np.divide(np.abs(vectors), scales, out=np.zeros((n, d)), where=scales > 0) * self.levels
        low = np.floor(ratio)
        level = low + (_uniform(jobs, d, streams) < ratio - low)
        return np.copysign(scales * (level / self.levels), vectors).astype(np.float32)


def _uniform(jobs: tuple[Job, ...], dimension: int, streams: Streams) -> Floats:
    """A uniform number for each coordinate of each job's update, float64 (n, d)."""
    uniform = np.empty((len(jobs), dimension))
    for row, job in zip(uniform, jobs, strict=True):
        streams("compression/quantise", job.id).random(out=row)
    return uniform
