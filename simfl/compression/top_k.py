"""The largest coordinates: top-k sparsification with error feedback."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.compression.base import (
    COMPRESSIONS,
    COORDINATES,
    Compression,
    ErrorFeedback,
    Share,
    at_most_dense,
    count_share,
)
from simfl.core.payload import VALUE_BYTES, PayloadPart
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Job, Vectors


@COMPRESSIONS("top_k")
@dataclass(frozen=True)
class TopK(Compression):
    """The k coordinates of largest magnitude are sent as they are, the others not; of equal ones the first.

    What is left out has at most 1 - k/d of the squared norm. On the wire: 4 bytes for each value and ceil(log2 d) bits
    for its place. Reference: Stich, Cordonnier and Jaggi, "Sparsified SGD with memory", NeurIPS 2018, Algorithm 1;
    Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression schemes", ICML 2019.
    """

    share: Share
    error_feedback: ErrorFeedback = True

    subsamples = False
    per_client = True
    example: ClassVar[dict[str, object]] = {"share": 0.1}

    def exposes(self, setting: ScenarioView) -> tuple[PayloadPart, ...]:
        return (COORDINATES,)

    def size_bytes(self, dimension: int) -> int:
        k, bits = count_share(self.share, dimension), max(dimension - 1, 0).bit_length()
        return at_most_dense(VALUE_BYTES * k + -(-k * bits // 8), dimension)

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], streams: Streams) -> Vectors:
        d = vectors.shape[1]
        k = count_share(self.share, d)
        if k == d:
            return vectors
        size = np.abs(vectors)
        least = np.partition(size, d - k, axis=1)[:, d - k, None]  # the k-th largest, the same on every machine
        larger, ties = size > least, size == least
        missing = k - larger.sum(axis=1, keepdims=True)
        return np.where(larger | ties & (ties.cumsum(axis=1) <= missing), vectors, np.float32(0))
