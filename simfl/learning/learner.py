"""The supervised learner. Imported only when one is built, because it imports torch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.errors import MissingError, ScenarioError
from simfl.learning.backends import Sgd, Task
from simfl.learning.measure import Measure, summary
from simfl.learning.models.build import build
from simfl.learning.models.flat import layout, size
from simfl.learning.models.initial import initial
from simfl.learning.work import work
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
        self.streams = streams
        self.local = scenario.training
        self.augment = choice.augment if choice.augment and (choice.augment.crop or choice.augment.flip) else None
        self.data = choice.data.load(scenario, streams)
        self.partition = choice.partition.split(self.data, scenario.clients, streams("partition"))
        self.samples = self.partition.sizes
        if self.augment and len(self.data.shape) != 3:
            raise ScenarioError("learning.augment", f"the samples of {choice.data.name} are no images")
        self.device = _device(choice.device)
        self.module = build(choice.model, self.data.shape, self.data.classes)
        self.dimension = size(layout(self.module))
        self.model_bytes = 4 * self.dimension
        if reason := choice.backend.supports(self.module, choice.bf16):
            raise ScenarioError("learning.backend", f"{choice.backend.name} cannot train this model: {reason}")
        largest = max(1, int(self.samples.max(initial=0)))
        x, y = torch.from_numpy(self.data.x_train), torch.from_numpy(self.data.y_train)
        self.engine = choice.backend.build(
            Task(
                self.module.to(self.device),
                x.to(self.device),
                y.to(self.device),
                min(self.local.batch_size or largest, largest),
                Sgd(self.local.momentum, self.local.weight_decay, self.local.clip_norm),
                crop=self.augment.crop if self.augment else 0,
                flip=bool(self.augment and self.augment.flip),
                bf16=choice.bf16,
            )
        )
        self.measure = Measure(self.module, self.device)
        self.models: dict[int, NDArray[np.float32]] = {}
        chosen = np.arange(len(self.data.y_test))
        if choice.evaluate.samples is not None:
            chosen = np.sort(streams("evaluate").permutation(chosen)[: choice.evaluate.samples])
        self.y_test = self.data.y_test[chosen]
        self.test = (
            torch.from_numpy(self.data.x_test[chosen]).to(self.device),
            torch.from_numpy(self.y_test).to(self.device),
        )

    def initial(self) -> NDArray[np.float32]:
        return initial(self.module, self.streams("model"))

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
            works = [
                work(job, self.partition[job.client], self.models[job.version], self.local, self.streams, self.augment)
                for job in (jobs[i] for i in busy)
            ]
            deltas[busy], loss[busy] = self.engine.train(works)
        return Updates(deltas, examples, loss)

    def evaluate(self, version: int) -> dict[str, float]:
        loss, predicted = self.measure(self.models[version], *self.test)
        return summary(loss, predicted, self.y_test)

    def state(self) -> dict[str, NDArray[Any]]:
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        pass


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise MissingError("learning.device: no CUDA device found; use device: cpu, or a torch built for CUDA")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
