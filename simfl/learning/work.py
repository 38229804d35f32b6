"""One pass of a job: which samples it takes, in which order and version, and how far one of them moves the model.

Its draws depend on the job's number only.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import inf
from typing import Annotated

import numpy as np
from pydantic import ConfigDict, Field

from simfl.clients.local_training import LocalTraining
from simfl.clients.local_values import LocalPass
from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.core.types import Bools, Integers, Job, Vectors


@dataclass(frozen=True)
class Augment:
    """What happens to an image each time it is used for training; test images stay as they are."""

    crop: Annotated[
        int,
        Field(ge=0, le=64, description="pixels of border added on every side (the mean colour), then cut at random"),
    ] = 0
    flip: Annotated[bool, Field(description="mirror half of the images left to right")] = False

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    def suiting(self, shape: tuple[int, ...], data: str) -> "Augment | None":
        """Itself for samples of a shape, None where it changes nothing; ``data`` names the data set in the message.

        Raises:
            ScenarioError: they are no images.
        """
        if not (self.crop or self.flip):
            return None
        if len(shape) != 3:
            raise ScenarioError("augment", f"the samples of {data} are no images")
        return self

    @property
    def variants(self) -> int:
        """Number of equally likely versions of an image; version v is offset v // 2, mirrored where v is odd.

        The offset (row, column) is numbered row * (2 * crop + 1) + column.
        """
        return 2 * (2 * self.crop + 1) ** 2

    def draw(self, rng: np.random.Generator, samples: int) -> Integers:
        """The version of each sample, shape (samples,)."""
        versions = rng.integers(self.variants, size=samples)
        return versions if self.flip else versions // 2 * 2


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
        versions: int64, shape (t,): the version of each image (:class:`simfl.learning.work.Augment`), or None.
        job: whose first pass it is; None = a further pass, or one that only measures.
        dropout: gives a generator at the beginning of the stream that dropout masks are drawn from, step by step.
        distance: beta of the term beta * |x - start| added to the loss.
    """

    start: Vectors
    order: Integers
    bounds: tuple[int, ...]
    last_pass: int
    rate: float
    shift: Vectors | None = None
    mask: Bools | None = None
    proximal: float = 0.0
    versions: Integers | None = None
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


def work(
    job: Job,
    samples: Integers,
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


def _order(samples: Integers, passes: int, rng: np.random.Generator | None, steady: bool) -> Integers:
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


@lru_cache(maxsize=4096)
def largest_move(local: LocalTraining, samples: int, version: int, slope: float, smoothness: float) -> float:
    """By how far, in the Euclidean norm, one replaced sample of so many moves a client's model at most.

    Of a loss that is convex and smooth in the model, a step of at most 2 / smoothness brings two models no further
    apart (Hardt, Recht and Singer, "Train faster, generalize better", ICML 2016, lemma 3.7). With a penalty the step is
    that from w - r / (1 - r p) gradient(w), r the rate and p the penalty, shortened by 1 - r p: where
    r (smoothness + 2 p) <= 2 it brings them nearer by that factor. A step whose batch holds the replaced sample adds at
    most 2 r slope / batch. Added up over the steps as they are made, each pass holding the sample where it does most:
    Wu et al., "Bolt-on differential privacy for scalable stochastic gradient descent", SIGMOD 2017, section 3. Momentum
    and clipped gradients are not covered, nor larger steps: one sample may then do anything.

    Args:
        local: how it trains.
        samples: that it holds.
        version: of the model that it starts from.
        slope: the most that the gradient of one sample's loss is long.
        smoothness: the most by which that gradient changes, over the distance of two models.

    Returns:
        0 without samples; infinite where nothing is proven.
    """
    rate, penalty = local.rate(version), local.weight_decay + local.algorithm.proximal
    if not samples:
        return 0.0
    if not local.descends or not rate * (smoothness + 2 * penalty) <= 2:
        return inf
    bounds, _, passes = steps_of(samples, local)
    sizes = np.diff(bounds)
    adds = 2 * rate * slope / sizes * (1 - rate * penalty) ** np.arange(len(sizes))[::-1]
    by_pass = np.zeros((passes, np.searchsorted(bounds[:-1], samples)))  # the last one may end early
    by_pass.ravel()[: len(sizes)] = adds
    return float(by_pass.max(axis=1).sum() if local.shuffle else by_pass.sum(axis=0).max())
