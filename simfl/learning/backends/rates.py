"""How long backends take on this machine, beside the one that ``auto`` chooses. Imported only where torch is."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from simfl.learning.backends.base import BACKENDS, Backend, Sgd, TrainingTask
from simfl.learning.models.base import MODELS
from simfl.learning.models.build import build, initial
from simfl.learning.torch_setup import configure_torch
from simfl.learning.work import Work

CLIENTS, BATCH, CLASSES, RATE = 12, 50, 10, 0.01
"""Of the round that is timed: its clients, the samples of each, all in one step, their classes, the learning rate."""

REPEATS = 5
"""Rounds of each backend, in turn, after one that warms up; the quickest counts: the others were disturbed."""

TIMED = {"mlp": (1, 28, 28), "lenet5": (3, 32, 32), "cnn_mnist": (1, 28, 28)}
"""Models, and the shapes of their samples."""

COMPARED = ("sequential", "dense", "grouped", "vmap")
"""Backends of one process."""


class EngineTimes(NamedTuple):
    """Of one model: the backend that ``auto`` chooses, and each one's time over that of this one."""

    auto: str
    ratios: dict[str, float]


def measure_engines(clock: Callable[[], float]) -> dict[str, EngineTimes]:
    """Of each model of :data:`TIMED`, by a clock, on one thread of the processor; ratios to two decimals."""
    configure_torch()
    return {name: _times(name, shape, clock) for name, shape in TIMED.items()}


def _times(name: str, shape: tuple[int, ...], clock: Callable[[], float]) -> EngineTimes:
    chosen = BACKENDS.of("auto").choose(_round(name, shape)[0]).name
    rounds: dict[str, Callable[[], object]] = {}
    for other in COMPARED:
        task, works = _round(name, shape)  # a module is trained by one engine
        backend: Backend = BACKENDS.of(other)
        if backend.refuses(task) is None:
            engine = backend.build(task)
            rounds[other] = lambda engine=engine, works=works: engine.train(works)  # type: ignore[misc]  # mypy 1.18
    least = dict.fromkeys(rounds, np.inf)
    for turn in range(1 + REPEATS):
        for other, train in rounds.items():
            start_s = clock()
            train()
            least[other] = min(least[other], clock() - start_s) if turn else np.inf
    return EngineTimes(chosen, {other: round(seconds / least[chosen], 2) for other, seconds in least.items()})


def _round(name: str, shape: tuple[int, ...]) -> tuple[TrainingTask, list[Work]]:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((CLIENTS * BATCH, *shape), dtype=np.float32))
    module = build(MODELS.of(name), shape, CLASSES)
    start, every = initial(module, rng), np.arange(len(x)).reshape(CLIENTS, BATCH)
    task = TrainingTask(module, x, torch.from_numpy(rng.integers(CLASSES, size=len(x))), BATCH, Sgd())
    return task, [Work(start, order, (0, BATCH), 0, RATE) for order in every]
