"""A task that is smooth and not convex, and whose constants are known, for quantised.py.

Client i's loss is the sum over the coordinates of u^2 / (1 + u^2), u = x - a_i. Its derivative has slope at most 2 and
magnitude at most 3 sqrt(3) / 8, so that L = 2 and every gradient's squared norm is at most 27/64 d.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from rounding import on_grid

from simfl.plugins import Arrays, Column, Job, ScenarioView, Streams, Updates
from simfl.plugins.learning import LEARNING, IdleLearner
from simfl.plugins.metrics import METRICS, Metric, RoundSnapshot

SMOOTHNESS, STEEPEST = 2.0, 27 / 64
NOISE = 0.5
"""Stochastic gradients have errors that are uniform within this, independently in every coordinate."""


def centres(streams: Streams, clients: int, dimension: int) -> NDArray[np.float64]:
    """The a_i, (clients, dimension): near +-1.5, with a deviation of 0.3 between the clients."""
    rng = streams("wells")
    return 1.5 * rng.choice([-1.0, 1.0], dimension) + 0.3 * rng.normal(size=(clients, dimension))


def slope(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """The derivative of u^2 / (1 + u^2)."""
    return 2 * u / np.square(1 + np.square(u))


@LEARNING("wells")
@dataclass(frozen=True)
class Wells:
    """``steps`` stochastic steps of size ``rate`` on every client's loss; updates on a grid of ``scale`` numbers in 1.

    BASecAgg's sum is that of the updates on its grid, bit for bit (tests/secagg/test_sums.py), so that nothing is
    masked here.
    """

    dimension: int = 20
    steps: int = 2
    rate: float = 0.005
    scale: float | None = None

    evaluate_every = 0

    @property
    def everybody_holds_samples(self) -> bool:
        return True

    def build(self, setting: ScenarioView, streams: Streams) -> "WellsLearner":
        samples = np.ones(setting.clients, dtype=np.int64)
        return WellsLearner(
            4 * self.dimension, samples, self, streams, centres(streams, setting.clients, self.dimension)
        )


@dataclass
class WellsLearner(IdleLearner):
    task: Wells = None
    streams: Streams = None
    centres: NDArray[np.float64] = None
    models: dict[int, NDArray[np.float32]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dimension = self.task.dimension

    def initial(self) -> NDArray[np.float32]:
        return np.zeros(self.dimension, dtype=np.float32)

    def put(self, version: int, model: NDArray[np.float32]) -> None:
        self.models[version] = model

    def get(self, version: int) -> NDArray[np.float32]:
        return self.models[version]

    def drop(self, version: int) -> None:
        self.models.pop(version, None)

    def discard(self, jobs: Iterable[Job]) -> None:
        pass

    def train(self, jobs: Sequence[Job]) -> Updates:
        start = np.stack([self.models[job.version] for job in jobs]).astype(np.float64)
        model, centre = start.copy(), self.centres[[job.client for job in jobs]]
        size = (self.task.steps, self.dimension)
        errors = np.stack([self.streams("wells/noise", job.id).uniform(-NOISE, NOISE, size) for job in jobs])
        for step in range(self.task.steps):
            model -= self.task.rate * (slope(model - centre) + errors[:, step])
        deltas = model - start
        if self.task.scale is not None:
            rngs = [self.streams("wells/rounding", job.id) for job in jobs]
            deltas = np.stack([on_grid(delta, self.task.scale, rng) for delta, rng in zip(deltas, rngs, strict=True)])
        return Updates(deltas.astype(np.float32), np.ones(len(jobs), np.int64), np.zeros(len(jobs)))


@METRICS("wells_gradient")
@dataclass(frozen=True)
class WellsGradient(Metric):
    """Squared norm of the gradient of all clients' mean loss, after every round."""

    seed: int = 0
    clients: int = 100
    dimension: int = 20

    columns = (Column("squared_gradient", "Squared gradient", "number", "Of the mean loss, after the round.", -1),)

    def after(self, snapshot: RoundSnapshot, state: Arrays) -> tuple[Mapping[str, float | None], Arrays]:
        centre = state.get("centres")
        if centre is None:
            centre = centres(Streams(self.seed), self.clients, self.dimension)
        gradient = slope(snapshot.model.astype(np.float64) - centre).mean(axis=0)
        return {"squared_gradient": float(gradient @ gradient)}, {"centres": centre}
