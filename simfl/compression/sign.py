"""One bit a coordinate: signSGD with a scale and error feedback."""

from dataclasses import dataclass

import numpy as np

from simfl.compression import buckets
from simfl.compression.base import COMPRESSIONS, LEVELS, Compression, ErrorFeedback, at_most_dense
from simfl.core.payload import PayloadPart
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Job, Vectors


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
    bucket: buckets.Bucket = None

    subsamples = False
    per_client = True

    def exposes(self, setting: ScenarioView) -> tuple[PayloadPart, ...]:
        return (LEVELS,)

    def size_bytes(self, dimension: int) -> int:
        scales = buckets.SCALE_BYTES * buckets.count(dimension, self.bucket)
        return at_most_dense(-(-dimension // 8) + scales, dimension)

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], streams: Streams) -> Vectors:
        d = vectors.shape[1]
        if not d:
            return vectors
        total = buckets.sums(np.abs(vectors, dtype=np.float64), self.bucket)
        scales = (total / buckets.lengths(d, self.bucket)).astype(np.float32)
        return np.where(vectors < 0, np.float32(-1), np.float32(1)) * buckets.spread(scales, d, self.bucket)
