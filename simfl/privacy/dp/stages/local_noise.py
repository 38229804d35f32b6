"""What noise has in common that each client adds to its own update."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.core.types import Arrays, Job
from simfl.privacy.certify.maps import Noise
from simfl.privacy.stage import NOT_FINITE, Stage


@dataclass(frozen=True)
class LocalNoise(Stage):
    """Nobody is trusted: what a client sends is private by itself, whoever sees it and however it is added up."""

    adds_noise = Noise("client")
    columns = (NOT_FINITE,)

    def client(
        self, vectors: NDArray[np.float32], jobs: tuple[Job, ...], state: Arrays, streams: Streams
    ) -> NDArray[np.float32]:
        return add_noise(super().client(vectors, jobs, state, streams), jobs, self.sampler(vectors.shape[1], streams))

    @abstractmethod
    def sampler(self, dimension: int, streams: Streams) -> Callable[[Job], NDArray[np.float64]]:
        """The noise of a job's update, (d,)."""
        ...


def add_noise(
    vectors: NDArray[np.float32], jobs: tuple[Job, ...], noise: Callable[[Job], NDArray[np.float64]]
) -> NDArray[np.float32]:
    """The rows, (n, d), each with the noise of its job, (d,)."""
    sent = np.empty_like(vectors)
    for row, vector, job in zip(sent, vectors, jobs, strict=True):
        np.add(vector, noise(job), out=row, casting="same_kind")
    return sent


def noise_stream(streams: Streams, stage: str, job: Job) -> np.random.Generator:
    """The stream of a stage's noise in a job's update."""
    return streams(f"dp/{stage}", job.id)
