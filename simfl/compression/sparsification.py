"""Few coordinates: the largest, with error feedback (top-k), or random ones that everybody knows (random-k), without
bias.
"""

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
from simfl.core.types import Integers, Job, Vectors


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


@COMPRESSIONS("random_k")
@dataclass(frozen=True)
class RandomK(Compression):
    """All clients of a round send the same k random coordinates, times d/k, so that updates keep their expectation.

    The variance is (d/k - 1) times the squared norm. On the wire: 4 bytes for each value; the coordinates are public
    and follow from the round. Sums of any protocol and noise of any stage have k coordinates. Where clients of several
    selections are summed (asynchronous servers), each selection has coordinates of its own. Reference: Stich,
    Cordonnier and Jaggi, "Sparsified SGD with memory", NeurIPS 2018, Definition 2.2, scaled; with a common seed as in
    Konecny et al., "Federated learning: strategies for improving communication efficiency", 2016, section 2.2.
    """

    share: Share

    leaves_sent = True
    per_client = True
    example: ClassVar[dict[str, object]] = {"share": 0.5}

    @property
    def subsamples(self) -> bool:
        return self.share < 1

    def exposes(self, setting: ScenarioView) -> tuple[PayloadPart, ...]:
        part = COORDINATES._replace(instead="compression: none")
        return (part,) if setting.training.asynchronous and self.share < 1 else ()

    def size_bytes(self, dimension: int) -> int:
        return VALUE_BYTES * count_share(self.share, dimension)

    def length(self, dimension: int) -> int:
        return count_share(self.share, dimension)

    def coordinates(self, dimension: int, number: int, streams: Streams) -> Integers:
        chosen = streams("compression/random_k", number).choice(
            dimension, count_share(self.share, dimension), replace=False
        )
        return np.sort(chosen)

    def client(self, vectors: Vectors, jobs: tuple[Job, ...], streams: Streams) -> Vectors:
        d = vectors.shape[1]
        if not d:
            return vectors
        sent, factor = np.zeros_like(vectors), np.float32(d / count_share(self.share, d))
        selections = np.array([job.selection for job in jobs], dtype=np.int64)
        for selection in np.unique(selections).tolist():
            cells = np.ix_(selections == selection, self.coordinates(d, selection, streams))
            sent[cells] = vectors[cells] * factor
        return sent
