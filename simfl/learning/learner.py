"""The supervised learner. Imported only when one is built, because it imports torch."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.errors import MissingError, ScenarioError
from simfl.lab import Bench, Vault
from simfl.learning.augment import Augment
from simfl.learning.backends import Sgd, Task
from simfl.learning.histogram import label_histogram
from simfl.learning.measure import Measure
from simfl.learning.memory import Memory
from simfl.learning.models.build import build
from simfl.learning.models.flat import layout, parameters, size
from simfl.learning.models.initial import initial
from simfl.learning.scores import class_scores, client_scores, correct, overall_scores
from simfl.learning.work import Work, work
from simfl.rng import Streams
from simfl.setting import Setting
from simfl.types import Job, Labels, Predictions, Updates
from simfl.variant import Begun, Conclusion, Done, Visit

__all__ = ["SupervisedLearner"]


class SupervisedLearner:
    """Implements :class:`simfl.learning.base.Learner` for one scenario.

    Attributes:
        partition: every client's training samples, a :class:`simfl.learning.partitions.Split`.
        data: the data set.
    """

    def __init__(self, choice: Any, scenario: Setting, streams: Streams) -> None:
        torch.set_num_threads(1)  # the bits of a sum depend on the thread count
        self.choice, self.local, self.streams = choice, scenario.training, streams
        self.device = _device(choice.device)
        self.data = choice.data.load(scenario, streams)
        self.partition = choice.partition.split(self.data, scenario.clients, streams("partition"))
        self.samples = self.partition.sizes
        self.augment = self._augment()
        module = build(choice.model, self.data.shape, self.data.classes)
        if reason := choice.backend.supports(module, choice.bf16):
            raise ScenarioError("backend", f"{choice.backend.name} cannot train this model: {reason}")
        self.dimension = size(layout(module))
        self.start = initial(module, streams("model"))
        self.measure = Measure(module, self.device)
        self.task = self._task(module.to(self.device))
        self.engine = choice.backend.build(self.task)
        self.variant = self.local.client
        common = self.variant.common(parameters(module), self.dimension)
        self.memory = Memory(self.variant, scenario.clients, common)
        self.model_bytes = 4 * self.dimension
        self.sizes_vary = not self.variant.dense
        self.concludes = self.variant.concludes
        self.early: dict[int, tuple[Done, float]] = {}
        self.models: dict[int, NDArray[np.float32]] = {}
        self.tested = self._tested()

    def _augment(self) -> Augment | None:
        augment = self.choice.augment
        return None if augment is None else augment.suiting(self.data.shape, self.choice.data.name)

    def _task(self, module: torch.nn.Module) -> Task:
        largest = max(1, int(self.samples.max(initial=0)))
        local, augment = self.local, self.augment or Augment()
        return Task(
            module,
            torch.from_numpy(self.data.x_train).to(self.device),
            torch.from_numpy(self.data.y_train).to(self.device),
            min(local.batch_size or largest, largest),
            Sgd(local.momentum, local.weight_decay, local.clip_norm, local.client.proximal),
            augment.crop,
            augment.flip,
            self.choice.bf16,
        )

    def _tested(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The test samples that are used, and their classes."""
        chosen: Any = slice(None)
        if (count := self.choice.evaluate.samples) is not None:
            chosen = np.sort(self.streams("evaluate").permutation(len(self.data.y_test))[:count])
        x, y = self.data.x_test[chosen], self.data.y_test[chosen]
        return torch.from_numpy(x).to(self.device), torch.from_numpy(y).to(self.device)

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

    def sizes(self, jobs: Sequence[Job]) -> tuple[Any, Any]:
        if not self.sizes_vary:
            return self.variant.bytes_down(self.model_bytes, {}), self.variant.bytes_up(self.model_bytes, {}, None)
        if self.variant.sized_by_training:
            self.early |= zip((job.id for job in jobs), self._finished(jobs), strict=True)
        own = [self.memory.own(job.client) for job in jobs]
        done = [self.early[job.id][0] if job.id in self.early else None for job in jobs]
        dense, n = self.model_bytes, len(jobs)
        down = (self.variant.bytes_down(dense, mine) for mine in own)
        up = (self.variant.bytes_up(dense, mine, end) for mine, end in zip(own, done, strict=True))
        return np.fromiter(down, np.int64, n), np.fromiter(up, np.int64, n)

    def train(self, jobs: Sequence[Job]) -> Updates:
        late = [job for job in jobs if job.id not in self.early]
        known = self.early | dict(zip((job.id for job in late), self._finished(late), strict=True))
        self.forget(jobs)
        ends = [known[job.id][0] for job in jobs]
        for job, end in zip(jobs, ends, strict=True):
            self.memory.end(job.client, end)
        examples = self.partition.counts(*np.array([(job.client, job.version) for job in jobs], dtype=np.int64).T)
        loss = np.array([known[job.id][1] for job in jobs])
        deltas = np.stack([end.delta for end in ends])
        return Updates(deltas, examples, loss, _holds(ends, deltas.shape))

    def counts(self, clients: NDArray[np.integer], version: int) -> NDArray[np.int64]:
        return self.partition.counts(clients, np.full(len(clients), version, dtype=np.int64))

    def conclude(self, jobs: Sequence[Job], ends: Sequence[Conclusion]) -> NDArray[np.bool_]:
        leaving = np.zeros(len(jobs), dtype=bool)
        for i, (job, end) in enumerate(zip(jobs, ends, strict=True)):
            own, leaving[i] = self.variant.conclude(end, self.memory.own(job.client))
            self.memory.keep(job.client, own)
        return leaving

    def forget(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self.early.pop(job.id, None)

    def _finished(self, jobs: Sequence[Job]) -> list[tuple[Done, float]]:
        """Each job's end and its loss in the last pass; a client without samples changes nothing."""
        found: list[tuple[Done, float]] = [(Done(np.zeros(self.dimension, dtype=np.float32)), np.nan)] * len(jobs)
        held = [self.partition.held(job.client, job.version) for job in jobs]
        visits = {i: self._visit(job, held[i]) for i, job in enumerate(jobs) if len(held[i])}
        begun = {i: self.variant.begin(visit) for i, visit in visits.items()}
        turn = 0
        while begun:
            works = [self._work(visits[i].job, held[i], this, turn) for i, this in begun.items()]
            deltas, losses = self.engine.train(works)
            again = {}
            for (i, this), made, delta, loss in zip(begun.items(), works, deltas, losses.tolist(), strict=True):
                end = self.variant.end(visits[i], this, delta, made.steps, made.rate)
                if isinstance(end, Begun):
                    again[i] = end
                else:
                    found[i] = (end, loss)
            begun, turn = again, turn + 1
        return found

    def _visit(self, job: Job, held: NDArray[np.int64]) -> Visit:
        self.memory.begin(job.version)
        return Visit(
            job,
            self.models[job.version],
            self.memory.own(job.client),
            self.memory.common,
            lambda model: float(self._right(model, held).mean()),
            len(held),
        )

    def _work(self, job: Job, held: NDArray[np.int64], begun: Begun, turn: int) -> Work:
        return work(job, held, begun, self.local, self.streams, self.augment, turn)

    def _right(self, model: NDArray[np.float32], chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """Whether a model classifies these training samples rightly (:func:`simfl.learning.scores.correct`)."""
        index = torch.from_numpy(chosen).to(self.device)
        loss, predicted = self.measure(model, self.task.x[index], self.task.y[index])
        return correct(loss, predicted, self.data.y_train[chosen])

    def evaluate(self, version: int) -> dict[str, float]:
        model, classes = self.models[version], self.data.classes
        x, y = self.tested
        loss, predicted = self.measure(model, x, y)
        labels = y.cpu().numpy()
        scores = overall_scores(loss, predicted, labels, classes)
        if self.choice.evaluate.per_class:
            scores |= class_scores(loss, predicted, labels, classes)
        if self.choice.evaluate.per_client:
            owners = np.repeat(np.arange(len(self.partition)), self.samples)
            scores |= client_scores(self._right_for_each(model), owners, len(self.partition))
            scores |= self._own_scores(model)
        return scores

    def _own_scores(self, model: NDArray[np.float32]) -> dict[str, float]:
        """``test_accuracy_client_i`` of every client that uses a model of its own, on the test samples."""
        x, y = self.tested
        labels, scores = y.cpu().numpy(), {}
        for client in np.flatnonzero(self.samples).tolist():
            personal = self.variant.personal(model, self.memory.own(client))
            if personal is not None:
                right = correct(*self.measure(personal, x, y), labels)
                scores[f"test_accuracy_client_{client}"] = float(right.mean())
        return scores

    def predictions(self, model: NDArray[np.float32]) -> Predictions:
        x, y = self.tested
        loss, predicted = self.measure(model, x, y)
        return Predictions(y.cpu().numpy(), predicted, loss, self.data.classes)

    def lab(self) -> tuple[Bench, Vault]:
        module, data = copy.deepcopy(self.measure.module).cpu(), self.data
        axes = (0, *range(2, data.x_train.ndim)) if len(data.shape) == 3 else None
        low, high = (bound(data.x_train, axis=axes, keepdims=axes is not None) for bound in (np.min, np.max))
        box = (np.asarray(low[0] if axes else low), np.asarray(high[0] if axes else high))
        bench = Bench(module, parameters(module), data.shape, data.classes, *box, self.local)
        vault = Vault(data.x_train, data.y_train, self.partition.__getitem__, data.x_test, data.y_test)
        return bench, vault

    def no_skill_accuracy(self) -> float:
        x, y = self.tested
        labels = y.cpu().numpy()
        _, predicted = self.measure(self.start, x, y)
        return float(max(np.mean(predicted == labels), np.bincount(labels).max() / len(labels)))

    def _right_for_each(self, model: NDArray[np.float32]) -> NDArray[np.float64]:
        """Whether each client's samples, client after client, are classified rightly by the model that it uses."""
        loss, predicted = self.measure(model, self.task.x, self.task.y)
        right = correct(loss, predicted, self.data.y_train)[self.partition.indices]
        edges = np.append(0, np.cumsum(self.samples))
        for client in np.flatnonzero(self.samples):
            personal = self.variant.personal(model, self.memory.own(int(client)))
            if personal is not None:
                right[edges[client] : edges[client + 1]] = self._right(personal, self.partition[int(client)])
        return right

    def state(self) -> dict[str, NDArray[Any]]:
        return self.memory.state()

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.memory.restore(state)


def _holds(ends: Sequence[Done], shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """The coordinates that each update speaks about; None where each speaks about all."""
    if all(end.holds is None for end in ends):
        return None
    return np.stack([np.ones(shape[1], dtype=bool) if end.holds is None else end.holds for end in ends])


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise MissingError("learning.device: no CUDA device found; use device: cpu, or a torch built for CUDA")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False  # float32 means float32; bf16 is the choice for speed
    return torch.device("cuda")
