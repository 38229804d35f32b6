"""The supervised learner. Imported only when one is built, because it imports torch."""

import copy
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.errors import PluginError, ScenarioError
from simfl.lab import Bench, Vault
from simfl.learning.apart import Apart
from simfl.learning.augment import Augment
from simfl.learning.backends import Sgd, Task
from simfl.learning.base import Sizes
from simfl.learning.device import device
from simfl.learning.histogram import label_histogram
from simfl.learning.holdout import Holdings
from simfl.learning.measure import Measure
from simfl.learning.memory import Memory
from simfl.learning.models.build import build, refuse_shared_statistics, refuse_single_samples
from simfl.learning.models.flat import layout, parameters, size
from simfl.learning.models.initial import initial
from simfl.learning.own import OwnSamples, Record
from simfl.learning.partitions.base import Split
from simfl.learning.settle import settle
from simfl.learning.tested import Tested
from simfl.learning.visits import Finished, Visits, declared
from simfl.payload import Upload
from simfl.rng import Streams
from simfl.setting import Means, Setting
from simfl.types import Job, Labels, Predictions, Updates
from simfl.variant import ClientVariant, Conclusion, Done, Visit

__all__ = ["SupervisedLearner"]

TUNED = 64
"""Clients that tune a model at once."""


class SupervisedLearner:
    """Implements :class:`simfl.learning.base.Learner` for one scenario.

    Attributes:
        partition: every client's training samples, a :class:`simfl.learning.partitions.Split`.
        data: the data set, transformed.
        record: how good the clients' models are, where that was asked for.
    """

    def __init__(self, choice: Any, scenario: Setting, streams: Streams) -> None:
        settle()
        self.choice, self.local, self.streams = choice, scenario.training, streams
        self.device = device(choice.device)
        self.data = choice.transform.apply(choice.data.load(scenario, streams), streams)
        self.holdings = self._holdings(choice.partition.split(self.data, scenario.clients, streams("partition")))
        self.partition = self.holdings.training
        self.samples = self.partition.sizes
        self.augment = self._augment()
        module = build(choice.model, self.data.shape, self.data.classes)
        if reason := choice.backend.supports(module, choice.bf16):
            raise ScenarioError("backend", f"{choice.backend.name} cannot train this model: {reason}")
        self.dimension = size(layout(module))
        self.start = initial(module, streams("model"))
        self.measure = Measure(module, self.device)
        self.task = self._task(module.to(self.device), scenario.means)
        self.engine = choice.backend.build(self.task)
        self.variant = self.local.variant.fitted(parameters(module), self.start)
        self._check_statistics(module)
        common = self.variant.common(parameters(module), self.dimension)
        self.memory = Memory(self.variant, scenario.clients, common)
        self.model_bytes = 4 * self.dimension
        self.sizes_vary = not self.variant.dense
        self.tensors = tuple(parameter.elements for parameter in parameters(module))
        self.concludes = self.variant.concludes
        self.private = self.variant.private
        self.early: dict[int, Finished] = {}
        self.models: dict[int, NDArray[np.float32]] = {}
        self.tested = self._tested()
        self.validated, self.judged = self._own(self.holdings.validation), self._own(self.holdings.test)
        self.record = Record(self.judged, choice.evaluate.per_client)
        self.visits = Visits(
            self.engine,
            self.local,
            streams,
            self.augment,
            self.partition,
            self.memory,
            self.validated.accuracy,
            self.record.wanted,
        )

    def _holdings(self, held: Split) -> Holdings:
        nothing = Split.of([np.empty(0, dtype=np.int64)] * len(held))
        holdout = self.choice.holdout
        if holdout is None:
            return Holdings(held, nothing, nothing, False)
        return holdout.split(self.data, held, self.streams("holdout"))

    def _own(self, split: Split) -> OwnSamples:
        """Clients' own samples: these or, where no client has any, those that they train on."""
        if not len(split.indices):
            return OwnSamples(self.measure, self.task.x, self.task.y, self.partition)
        x, y = self.task.x, self.task.y
        if split is self.holdings.test and self.holdings.foreign:
            x, y = (torch.from_numpy(part).to(self.device) for part in (self.data.x_test, self.data.y_test))
        return OwnSamples(self.measure, x, y, split)

    def _check_statistics(self, module: torch.nn.Module) -> None:
        """Norm layers with statistics stay with the clients, and never see a single sample."""
        if all(not parameter.statistic for parameter in parameters(module)):
            return
        if self.choice.norm_statistics == "private":
            refuse_shared_statistics(parameters(module), self.variant.private)
        refuse_single_samples(self.samples, self.local.batch_size)

    def _augment(self) -> Augment | None:
        augment = self.choice.augment
        return None if augment is None else augment.suiting(self.data.shape, self.choice.data.name)

    def _task(self, module: torch.nn.Module, means: Means) -> Task:
        largest = max(1, int(self.samples.max(initial=0)))
        local, augment = self.local, self.augment or Augment()
        return Task(
            module,
            torch.from_numpy(self.data.x_train).to(self.device),
            torch.from_numpy(self.data.y_train).to(self.device),
            min(local.batch_size or largest, largest),
            Sgd(local.momentum, local.weight_decay, local.clip_norm),
            augment.crop,
            augment.flip,
            self.choice.bf16,
            means,
        )

    def _tested(self) -> Tested:
        count = self.choice.evaluate.samples
        chosen = None if count is None else self.streams("evaluate").permutation(len(self.data.y_test))[:count]
        return Tested(self.measure, self.data, chosen, self.device)

    @property
    def labels(self) -> Labels:
        counts = label_histogram(self.data.y_train, self.partition, self.data.classes)
        return Labels(self.data.label_names, counts)

    def initial(self) -> NDArray[np.float32]:
        return self.start.copy()

    def put(self, version: int, model: NDArray[np.float32]) -> None:
        self.models[version] = np.ascontiguousarray(model, dtype=np.float32)

    def get(self, version: int) -> NDArray[np.float32]:
        return self.models[version]

    def drop(self, version: int) -> None:
        self.models.pop(version, None)

    def sizes(self, jobs: Sequence[Job]) -> Sizes:
        variant, dense, n = self.variant, self.model_bytes, len(jobs)
        if not self.sizes_vary:
            return Sizes(variant.bytes_down(dense, {}), variant.bytes_up(dense, {}, None), variant.passes)
        if variant.sized_by_training:
            late = [job for job in jobs if job.id not in self.early]
            self.early |= zip((job.id for job in late), self.visits.finished(late, self.models), strict=True)
        own = [self.memory.own(job.client) for job in jobs]
        ends = [self.early.get(job.id) for job in jobs]
        down = (variant.bytes_down(dense, mine) for mine in own)
        up = (variant.bytes_up(dense, mine, end and end.done) for mine, end in zip(own, ends, strict=True))
        passes = (variant.passes if end is None else end.passes for end in ends)
        return Sizes(np.fromiter(down, np.int64, n), np.fromiter(up, np.int64, n), np.fromiter(passes, np.float64, n))

    def train(self, jobs: Sequence[Job]) -> Updates:
        late = [job for job in jobs if job.id not in self.early]
        known = self.early | dict(zip((job.id for job in late), self.visits.finished(late, self.models), strict=True))
        self.forget(jobs)
        ends = [known[job.id].done for job in jobs]
        row: Counter[str] = Counter()
        for job, end in zip(jobs, ends, strict=True):
            self.memory.end(job.client, end)
            row.update(end.row)
        clients, versions = np.array([(job.client, job.version) for job in jobs], dtype=np.int64).T
        examples = self.partition.counts(clients, versions)
        for job in jobs:
            if (left := known[job.id].left) is not None:
                self.record.left(job.client, left)
        loss = np.array([known[job.id].loss for job in jobs])
        deltas = np.stack([end.upload.update for end in ends])
        holds = _holds(ends, deltas.shape) if self.variant.partial else None
        arrays = _summed_arrays(ends)
        self.memory.collect(arrays)
        return Updates(deltas, examples, loss, holds, dict(row), arrays)

    def counts(self, clients: NDArray[np.integer], version: int) -> NDArray[np.int64]:
        return self.partition.counts(clients, np.full(len(clients), version, dtype=np.int64))

    def conclude(self, jobs: Sequence[Job], ends: Sequence[Conclusion]) -> NDArray[np.bool_]:
        leaving = np.zeros(len(jobs), dtype=bool)
        for i, (job, end) in enumerate(zip(jobs, ends, strict=True)):
            own, leaving[i] = self.variant.conclude(end, self.memory.own(job.client))
            self.memory.keep(job.client, own)
        if leaving.any() and not self.local.variant.follows_data:
            raise PluginError(self.local.variant, "has a client leave, which `follows_data` denies")
        return leaving

    def forget(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self.early.pop(job.id, None)

    def apart(self) -> Apart | None:
        if (alone := self.variant.apart()) is None:
            return None
        rounds, variant = alone
        declared(self.local.variant, {"model", "score"})

        def play(visits: Sequence[Visit], variant: ClientVariant) -> list[tuple[Done, float]]:
            return [(end.done, end.passes) for end in self.visits.play(visits, variant, "apart/")]

        who = np.flatnonzero(self.samples).tolist()
        return Apart(rounds, variant, self.start, who, len(self.samples), self.validated, play)

    def begin_with(self, apart: Apart, client: int) -> NDArray[np.float32]:
        first = self.variant.handed_on(apart.own[client])
        for each in range(len(self.samples)):
            self.memory.end(each, Done(Upload(self.start), dict(first)))
        return apart.models[client]

    def evaluate(self, version: int) -> dict[str, float]:
        model, asked = self.models[version], self.choice.evaluate
        scores = self.tested.scores(model, asked.per_class)
        if not asked.per_client:
            return scores

        def personal(client: int) -> NDArray[np.float32] | None:
            return self.variant.personal(model, self.memory.own(client))

        self._tune(version)
        scores |= self.record.measure(model, personal)
        return scores | self.tested.client_scores(np.flatnonzero(self.samples).tolist(), personal)

    def _tune(self, version: int) -> None:
        """What clients train just to be measured."""
        who = np.flatnonzero(self.judged.holders & (self.samples > 0)).tolist()
        for first in range(0, len(who), TUNED):
            jobs = [Job(version << 32 | client, client, version, 0.0) for client in who[first : first + TUNED]]
            for client, tuned in self.visits.tuned(jobs, self.models[version]).items():
                self.record.left(client, tuned)

    def accuracies(self) -> dict[str, NDArray[np.float64]] | None:
        return self.record.found() if self.record.wanted else None

    def predictions(self, model: NDArray[np.float32]) -> Predictions:
        return self.tested.predictions(model)

    def lab(self) -> tuple[Bench, Vault]:
        module, data = copy.deepcopy(self.measure.module).cpu(), self.data
        axes = (0, *range(2, data.x_train.ndim)) if len(data.shape) == 3 else None
        low, high = (bound(data.x_train, axis=axes, keepdims=axes is not None) for bound in (np.min, np.max))
        box = (np.asarray(low[0] if axes else low), np.asarray(high[0] if axes else high))
        bench = Bench(module, parameters(module), data.shape, data.classes, *box, self.local)
        vault = Vault(data.x_train, data.y_train, self.partition.__getitem__, data.x_test, data.y_test)
        return bench, vault

    def no_skill_accuracy(self) -> float:
        return self.tested.no_skill(self.start)

    def state(self) -> dict[str, NDArray[Any]]:
        return self.memory.state() | self.record.state()

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.memory.restore(state)
        self.record.restore(state)


def _holds(ends: Sequence[Done], shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """The coordinates that each update speaks about; None where each speaks about all."""
    masks = [end.upload.mask for end in ends]
    if all(mask is None for mask in masks):
        return None
    return np.stack([np.ones(shape[1], dtype=bool) if mask is None else mask for mask in masks])


def _summed_arrays(ends: Sequence[Done]) -> dict[str, NDArray[np.float64]]:
    """The sums of the further arrays that clients have uploaded, client by client."""
    total: dict[str, NDArray[np.float64]] = {}
    for end in ends:
        for name, value in end.upload.arrays.items():
            if name in total:
                total[name] += value
            else:
                total[name] = np.array(value, dtype=np.float64)
    return total
