"""A job made concrete: which samples it takes in which order. The draws of a job depend on its number only."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from simfl.learning.augment import Augment
from simfl.local import LocalTraining
from simfl.rng import Streams
from simfl.types import Job
from simfl.variant import Begun

__all__ = ["Work", "work"]


@dataclass(frozen=True)
class Work:
    """What one client computes, in numbers.

    Attributes:
        start: float32, shape (d,): the downloaded model.
        order: int64, shape (t,): the training samples in the order in which they are used.
        bounds: steps + 1 numbers: step s uses ``order[bounds[s]:bounds[s + 1]]``.
        last_pass: first step of the last pass over the samples; the reported loss is its mean.
        steady: every step uses the same samples in the same order: all that there are.
        rate: learning rate.
        shift: float32, shape (d,): added to every gradient, or None.
        mask: bool, shape (d,): coordinates that move; None = all.
        proximal: mu of the term mu/2 * |x - start|^2 added to the loss.
        versions: int64, shape (t,): the version of each image (:class:`simfl.learning.augment.Augment`), or None.
        job: whose first pass it is; None = a further pass, or one that only measures.
        dropout: gives a generator at the beginning of the stream that dropout masks are drawn from, step by step.
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
    held: NDArray[np.int64],
    begun: Begun,
    local: LocalTraining,
    streams: Streams,
    augment: Augment | None = None,
    turn: int = 0,
    purpose: str = "",
) -> Work:
    """One pass of a job whose client holds the training samples ``held``, at least one.

    Its draws come from the streams "shuffle", "augment" and "dropout" of the job's number and, after the first pass,
    of its turn unless it repeats the first; those of a ``purpose`` of its own from streams that begin with its name.
    """
    if begun.epochs is not None:
        local = replace(local, local_epochs=begun.epochs, local_steps=None)
    bounds, last_pass, passes = _steps(len(held), local)
    key = (job.id, turn) if turn and not begun.repeats else (job.id,)
    steady = passes > 1 and bounds[1] == len(held) and augment is None  # then no order of the samples matters
    rng = streams(f"{purpose}shuffle", *key) if local.shuffle else None
    order = _order(held, passes, rng, steady)[: bounds[-1]]
    versions = augment.draw(streams(f"{purpose}augment", *key), len(order)) if augment else None
    return Work(
        begun.start,
        order,
        bounds,
        last_pass,
        local.rate(job.version),
        begun.shift,
        begun.mask,
        begun.proximal,
        versions,
        steady,
        None if turn or purpose else job,
        partial(streams, f"{purpose}dropout", *key),
    )


def _order(held: NDArray[np.int64], passes: int, rng: np.random.Generator | None, steady: bool) -> NDArray[np.int64]:
    """The samples of some passes; without a generator always as they are held, and in steady works as in the first."""
    if rng is None:
        return np.tile(held, passes)
    if passes == 1 or steady:
        return np.tile(rng.permutation(held), passes)
    return np.concatenate([rng.permutation(held) for _ in range(passes)])


@lru_cache(maxsize=4096)
def _steps(samples: int, local: LocalTraining) -> tuple[tuple[int, ...], int, int]:
    """Bounds of the steps, first step of the last pass, and number of passes of a client with so many samples."""
    steps = int(local.steps(np.array([samples]))[0])
    batch = min(local.batch_size or samples, samples)
    per_pass = -(-samples // batch)
    passes = -(-steps // per_pass)
    starts = samples * np.arange(passes)[:, None] + np.arange(0, samples, batch)
    bounds = np.append(starts, samples * passes)[: steps + 1]
    return tuple(bounds.tolist()), max(0, steps - per_pass), passes
