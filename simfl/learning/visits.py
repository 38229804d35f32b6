"""Clients' visits played: every pass of many clients' work in one call of the engine."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.errors import PluginError
from simfl.learning.augment import Augment
from simfl.learning.backends import Engine
from simfl.learning.memory import Memory
from simfl.learning.partitions.base import Split
from simfl.learning.work import Work, work
from simfl.local import LocalTraining
from simfl.payload import Download, Upload
from simfl.rng import Streams
from simfl.types import Job
from simfl.variant import Begun, ClientVariant, Done, Visit

__all__ = ["Finished", "Visits", "declared"]

Vector = NDArray[np.float32]


class Finished(NamedTuple):
    """A visit that has been computed.

    Attributes:
        done: how it ended.
        loss: of the last pass; NaN where there was none.
        passes: how often it made the job's epochs.
        left: the model that training left, (d,), where it is kept.
    """

    done: Done
    loss: float
    passes: float
    left: Vector | None


class Visits:
    """Plays what clients compute.

    Args:
        engine: computes passes.
        local: how clients train.
        streams: of the draws.
        augment: what is done to images.
        partition: clients' training samples.
        memory: what clients keep.
        validated: accuracy of a model on a client's validation samples.
        keeps: whether the models that training left are kept.
    """

    def __init__(
        self,
        engine: Engine,
        local: LocalTraining,
        streams: Streams,
        augment: Augment | None,
        partition: Split,
        memory: Memory,
        validated: Callable[[Vector, int], float],
        keeps: bool,
    ) -> None:
        self.engine, self.local, self.streams, self.augment = engine, local, streams, augment
        self.partition, self.memory, self.validated, self.keeps = partition, memory, validated, keeps

    def finished(self, jobs: Sequence[Job], models: Mapping[int, Vector]) -> list[Finished]:
        """How each job ends, given the global models by version; a client without samples changes nothing."""
        visits = {}
        for i, (job, samples) in enumerate(zip(jobs, self._counts(jobs), strict=True)):
            self.memory.begin(job.version)
            if samples:
                visits[i] = self.visit(job, models[job.version], samples)
        played = self.play(list(visits.values()), self.memory.variant)
        found = dict(zip(visits, played, strict=True))
        return [found.get(i) or self._idle(models[job.version]) for i, job in enumerate(jobs)]

    def play(self, visits: Sequence[Visit], variant: ClientVariant, purpose: str = "") -> list[Finished]:
        """All passes of the clients' work, each pass of all of them in one batch."""
        found: dict[int, Finished] = {}
        begun = {i: variant.begin(visit) for i, visit in enumerate(visits)}
        turn, passes = 0, dict.fromkeys(begun, 0.0)
        while begun:
            works = [self._work(visits[i].job, this, turn, purpose) for i, this in begun.items()]
            deltas, losses = self.engine.train(works)
            again = {}
            for (i, this), made, delta, loss in zip(begun.items(), works, deltas, losses.tolist(), strict=True):
                end = variant.end(visits[i], this, delta, made.steps, made.rate)
                passes[i] += 1.0 if this.epochs is None else this.epochs / self.local.local_epochs
                if isinstance(end, Begun):
                    again[i] = end
                else:
                    found[i] = Finished(end, loss, passes[i], this.start + delta if self.keeps else None)
            begun, turn = again, turn + 1
        for end in found.values():
            declared(self.local.variant, end.done.upload.kinds)
            if not self.local.variant.sends and _public(end.done.upload.update, variant.private).any():
                raise PluginError(
                    self.local.variant, "declares in `sends` that nothing leaves a client, and sends an update"
                )
        return [found[i] for i in range(len(visits))]

    def tuned(self, jobs: Sequence[Job], model: Vector) -> dict[int, Vector]:
        """The models, by client, that clients train from the global one, (d,), just to be measured."""
        visits = [self.visit(job, model, n) for job, n in zip(jobs, self._counts(jobs), strict=True)]
        begun = [(visit.job, self.memory.variant.tune(visit)) for visit in visits]
        tuning = {job: this for job, this in begun if this is not None}
        if not tuning:
            return {}
        deltas, _ = self.engine.train([self._work(job, this, purpose="tune/") for job, this in tuning.items()])
        return {job.client: this.start + delta for (job, this), delta in zip(tuning.items(), deltas, strict=True)}

    def visit(self, job: Job, model: Vector, samples: int) -> Visit:
        """What a client has before it works."""
        return Visit(
            job,
            Download(model, self.memory.common),
            self.memory.own(job.client),
            lambda trained: self.validated(trained, job.client),
            samples,
        )

    def _counts(self, jobs: Sequence[Job]) -> list[int]:
        """How many samples the client of each job trains on."""
        clients, versions = np.array([(job.client, job.version) for job in jobs], dtype=np.int64).reshape(-1, 2).T
        return self.partition.counts(clients, versions).tolist()

    def _work(self, job: Job, begun: Begun, turn: int = 0, purpose: str = "") -> Work:
        held = self.partition.held(job.client, job.version)
        return work(job, held, begun, self.local, self.streams, self.augment, turn, purpose)

    @staticmethod
    def _idle(model: Vector) -> Finished:
        return Finished(Done(Upload(np.zeros(len(model), dtype=np.float32))), np.nan, 1.0, None)


def _public(update: Vector, private: NDArray[np.bool_] | None) -> Vector:
    """The coordinates of an update, (d,), that leave its client."""
    return update if private is None else update[~private]


def declared(algorithm: ClientVariant, kinds: Iterable[str]) -> None:
    """Nothing leaves a client that its algorithm has not declared.

    Args:
        algorithm: the client algorithm that the scenario names.
        kinds: of the parts that leave a client.

    Raises:
        PluginError: one of them is not declared.
    """
    known = {part.kind for part in algorithm.sends} or {"update"}  # an algorithm that sends nothing has an update of 0
    if secret := sorted(set(kinds) - known):
        why = f"sends a part of the kind '{secret[0]}' that it does not declare; list it in `sends`"
        raise PluginError(algorithm, why)
