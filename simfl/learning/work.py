"""One pass of a job: which samples it takes in which order. Its draws depend on the job's number only."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from simfl.clients.local_training import LocalTraining
from simfl.clients.local_values import LocalPass
from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.learning.augment import Augment


@dataclass(frozen=True)
class Work:
    """One pass of a client's local training, sample by sample.

    Attributes:
        start: float32, shape (d,): the downloaded model.
        order: int64, shape (t,): the training samples in the order in which they are used.
        bounds: steps + 1 numbers: step s uses ``order[bounds[s]:bounds[s + 1]]``.
        last_pass: first step of the last pass over the samples; the reported loss is its mean.
        steady: every step uses the same samples in the same order: all that there are.
        shift: float32, shape (d,): added to every gradient, or None.
        mask: bool, shape (d,): coordinates that move; None = all.
        proximal: mu of the term mu/2 * |x - start|^2 added to the loss.
        versions: int64, shape (t,): the version of each image (:class:`simfl.learning.augment.Augment`), or None.
        job: whose first pass it is; None = a further pass, or one that only measures.
        dropout: gives a generator at the beginning of the stream that dropout masks are drawn from, step by step.
        distance: beta of the term beta * |x - start| added to the loss.
    """

    start: NDArray[np.float32]
    order: NDArray[np.int64]
    bounds: tuple[int, ...]
    last_pass: int
    rate: float
    shift: NDArray[np.float32] | None = None
    mask: NDArray[np.bool_] | None = None
    proximal: float = 0.0
    versions: NDArray[np.int64] | None = None
    steady: bool = False
    job: Job | None = None
    dropout: Callable[[], np.random.Generator] | None = None
    distance: float = 0.0

    @property
    def steps(self) -> int:
        return len(self.bounds) - 1

    @property
    def first(self) -> "Work":
        """The first step of it."""
        return replace(self, order=self.order[: self.bounds[1]], bounds=self.bounds[:2], last_pass=0)

    def step_size(self, step: int) -> int:
        """Samples of a step."""
        return self.bounds[step + 1] - self.bounds[step]


def work(
    job: Job,
    samples: NDArray[np.int64],
    local_pass: LocalPass,
    local: LocalTraining,
    streams: Streams,
    augment: Augment | None = None,
    turn: int = 0,
    purpose: str = "",
) -> Work:
    """One pass of a job whose client holds the training samples ``samples``, at least one.

    Its draws come from the streams "shuffle", "augment" and "dropout" of the job's number and, after the first pass,
    of its turn unless it repeats the first; those of a ``purpose`` of its own from streams that begin with its name.
    """
    if local_pass.epochs is not None:
        local = replace(local, local_epochs=local_pass.epochs, local_steps=None)
    bounds, last_pass, passes = steps_of(len(samples), local)
    key = (job.id, turn) if turn and not local_pass.repeats else (job.id,)
    steady = passes > 1 and bounds[1] == len(samples) and augment is None  # then no order of the samples matters
    rng = streams(f"{purpose}shuffle", *key) if local.shuffle else None
    order = _order(samples, passes, rng, steady)[: bounds[-1]]
    versions = augment.draw(streams(f"{purpose}augment", *key), len(order)) if augment else None
    return Work(
        local_pass.start,
        order,
        bounds,
        last_pass,
        local.rate(job.version),
        local_pass.shift,
        local_pass.mask,
        local_pass.proximal,
        versions,
        steady,
        None if turn or purpose else job,
        partial(streams, f"{purpose}dropout", *key),
        local_pass.distance,
    )


def _order(samples: NDArray[np.int64], passes: int, rng: np.random.Generator | None, steady: bool) -> NDArray[np.int64]:
    """The samples of some passes; without a generator always as they are held, and in steady works as in the first."""
    if rng is None:
        return np.tile(samples, passes)
    if passes == 1 or steady:
        return np.tile(rng.permutation(samples), passes)
    return np.concatenate([rng.permutation(samples) for _ in range(passes)])


@lru_cache(maxsize=4096)
def steps_of(samples: int, local: LocalTraining) -> tuple[tuple[int, ...], int, int]:
    """Bounds of the steps, first step of the last pass, and number of passes of a client with so many samples."""
    steps = int(local.steps(np.array([samples]))[0])
    batch = min(local.batch_size or samples, samples)
    per_pass = -(-samples // batch)
    passes = -(-steps // per_pass)
    starts = samples * np.arange(passes)[:, None] + np.arange(0, samples, batch)
    bounds = np.append(starts, samples * passes)[: steps + 1]
    return tuple(bounds.tolist()), max(0, steps - per_pass), passes
