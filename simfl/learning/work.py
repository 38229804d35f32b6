"""A job made concrete: which samples it takes in which order. The draws of a job depend on its number only."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.learning.augment import Augment
from simfl.local import LocalTraining
from simfl.rng import Streams
from simfl.types import Job

__all__ = ["Work", "work"]


@dataclass(frozen=True)
class Work:
    """What one client computes, in numbers.

    Attributes:
        start: float32, shape (d,): the downloaded model.
        order: int64, shape (t,): the training samples in the order in which they are used.
        bounds: int64, shape (steps + 1,): step s uses ``order[bounds[s]:bounds[s + 1]]``.
        last_pass: first step of the last pass over the samples; the reported loss is its mean.
        rate: learning rate.
        shift: float32, shape (d,): added to every gradient (SCAFFOLD's c - c_i), or None.
        versions: int64, shape (t,): the version of each image (:class:`simfl.learning.augment.Augment`), or None.
    """

    start: NDArray[np.float32]
    order: NDArray[np.int64]
    bounds: NDArray[np.int64]
    last_pass: int
    rate: float
    shift: NDArray[np.float32] | None = None
    versions: NDArray[np.int64] | None = None

    @property
    def steps(self) -> int:
        return len(self.bounds) - 1


def work(
    job: Job,
    held: NDArray[np.int64],
    start: NDArray[np.float32],
    local: LocalTraining,
    streams: Streams,
    augment: Augment | None = None,
    shift: NDArray[np.float32] | None = None,
) -> Work:
    """The work of a job whose client holds the training samples ``held``, at least one.

    Its draws come from the streams "shuffle" and "augment" of the job's number.
    """
    steps = int(local.steps(np.array([len(held)]))[0])
    batch = min(local.batch_size or len(held), len(held))
    per_pass = -(-len(held) // batch)
    passes = -(-steps // per_pass)
    rng = streams("shuffle", job.id)
    order = np.concatenate([rng.permutation(held) for _ in range(passes)])
    first = np.arange(0, len(held), batch)
    starts = (len(held) * np.arange(passes)[:, None] + first).ravel()
    bounds = np.append(starts, len(order))[: steps + 1]
    order = order[: bounds[-1]]
    versions = augment.draw(streams("augment", job.id), len(order)) if augment else None
    return Work(start, order, bounds, max(0, steps - per_pass), local.rate(job.version), shift, versions)
