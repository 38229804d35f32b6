"""The supervised learner. Imported only when one is built, because it imports torch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.errors import MissingError, ScenarioError
from simfl.learning.augment import Augment
from simfl.learning.backends import Sgd, Task
from simfl.learning.measure import Measure
from simfl.learning.models.build import build
from simfl.learning.models.flat import layout, size
from simfl.learning.models.initial import initial
from simfl.learning.scores import class_scores, client_scores, correct, overall_scores
from simfl.learning.variates import ControlVariates
from simfl.learning.work import Work, work
from simfl.rng import Streams
from simfl.types import Job, Updates

__all__ = ["SupervisedLearner"]


class SupervisedLearner:
    """Implements :class:`simfl.learning.base.Learner` for one scenario.

    Attributes:
        partition: every client's training samples, a :class:`simfl.learning.partitions.Split`.
        data: the data set.
    """

    def __init__(self, choice: Any, scenario: Any, streams: Streams) -> None:
        torch.set_num_threads(1)  # the bits of a sum depend on the thread count
        self.choice, self.local, self.streams = choice, scenario.training, streams
        self.device = _device(choice.device)
        self.data = choice.data.load(scenario, streams)
        self.partition = choice.partition.split(self.data, scenario.clients, streams("partition"))
        self.samples = self.partition.sizes
        self.augment = self._augment()
        module = build(choice.model, self.data.shape, self.data.classes)
        if reason := choice.backend.supports(module, choice.bf16):
            raise ScenarioError("learning.backend", f"{choice.backend.name} cannot train this model: {reason}")
        self.dimension = size(layout(module))
        self.start = initial(module, streams("model"))
        self.measure = Measure(module, self.device)
        self.task = self._task(module.to(self.device))
        self.engine = choice.backend.build(self.task)
        scaffold = self.local.client.control_variates
        self.variates = ControlVariates(scenario.clients, self.dimension) if scaffold else None
        self.model_bytes = 4 * self.dimension * (2 if scaffold else 1)  # a variate travels beside the model
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

    def initial(self) -> NDArray[np.float32]:
        return self.start.copy()

    def put(self, version: int, model: NDArray[np.float32]) -> None:
        self.models[version] = np.ascontiguousarray(model, dtype=np.float32)

    def get(self, version: int) -> NDArray[np.float32]:
        return self.models[version]

    def drop(self, version: int) -> None:
        self.models.pop(version, None)

    def train(self, jobs: Sequence[Job]) -> Updates:
        deltas = np.zeros((len(jobs), self.dimension), dtype=np.float32)
        examples = self.samples[np.fromiter((job.client for job in jobs), dtype=np.int64, count=len(jobs))]
        loss = np.full(len(jobs), np.nan)
        busy = np.flatnonzero(examples)
        if len(busy):
            works = [self._work(jobs[i]) for i in busy]
            deltas[busy], loss[busy] = self.engine.train(works)
            if self.variates is not None:
                for i, made in zip(busy, works, strict=True):
                    self.variates.report(jobs[i], made.shift, deltas[i], made.steps * made.rate)
        return Updates(deltas, examples, loss)

    def _work(self, job: Job) -> Work:
        shift = None
        if self.variates is not None:
            self.variates.begin(job.version)
            shift = self.variates.shift(job.client)
        start = self.models[job.version]
        return work(job, self.partition[job.client], start, self.local, self.streams, self.augment, shift)

    def evaluate(self, version: int) -> dict[str, float]:
        model, classes = self.models[version], self.data.classes
        x, y = self.tested
        loss, predicted = self.measure(model, x, y)
        labels = y.cpu().numpy()
        scores = overall_scores(loss, predicted, labels, classes)
        if self.choice.evaluate.per_class:
            scores |= class_scores(loss, predicted, labels, classes)
        if self.choice.evaluate.per_client:
            loss, predicted = self.measure(model, self.task.x, self.task.y)
            right = correct(loss, predicted, self.data.y_train)[self.partition.indices]
            owners = np.repeat(np.arange(len(self.partition)), self.samples)
            scores |= client_scores(right, owners, len(self.partition))
        return scores

    def state(self) -> dict[str, NDArray[Any]]:
        return {} if self.variates is None else self.variates.state()

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        if self.variates is not None:
            self.variates.restore(state)


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise MissingError("learning.device: no CUDA device found; use device: cpu, or a torch built for CUDA")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False  # float32 means float32; bf16 is the choice for speed
    return torch.device("cuda")
