"""What noise has in common that each client adds to its own update."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.base import NOT_FINITE
from simfl.privacy.stages.clip import fits
from simfl.rng import Streams
from simfl.setting import Setting
from simfl.types import Job

__all__ = ["Local", "noised", "own"]


@dataclass(frozen=True)
class Local:
    """Nobody is trusted: what a client sends is private by itself, whoever sees it and however it is added up."""

    observer = "server"
    at_client = True
    columns = (NOT_FINITE,)

    def check(self, setting: Setting) -> list[tuple[str, str]]:
        return fits(setting)


def noised(
    vectors: NDArray[np.float32], jobs: tuple[Job, ...], noise: Callable[[Job], NDArray[np.float64]]
) -> NDArray[np.float32]:
    """The rows, (n, d), each with the noise of its job, (d,)."""
    sent = np.empty_like(vectors)
    for row, vector, job in zip(sent, vectors, jobs, strict=True):
        np.add(vector, noise(job), out=row, casting="same_kind")
    return sent


def own(streams: Streams, stage: str, job: Job) -> np.random.Generator:
    """The stream of a stage's noise in a job's update."""
    return streams(f"dp/{stage}", job.id)
