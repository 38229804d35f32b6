"""Protocol-only simulation: messages have sizes and clients have samples, but nothing is learned."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Job, Updates
from simfl.learning.base import LEARNING, Learner, Sizes


@LEARNING("none")
@dataclass(frozen=True)
class NoLearning:
    """Nothing is learned; torch is not imported. The sizes below drive bytes and durations."""

    parameters: Annotated[int, Field(ge=0, le=10**12, description="model size in float32 parameters")] = 0
    samples: Annotated[int, Field(ge=0, le=10**9, description="training samples of each client")] = 1

    evaluate_every = 0
    steepness = None
    counts_change = False
    by_seed = False
    per_client = True

    @property
    def everybody_holds_samples(self) -> bool:
        return self.samples > 0

    def preview(self, setting: ScenarioView) -> list[str]:
        return []

    def build(self, setting: ScenarioView, streams: Streams) -> "IdleLearner":
        return IdleLearner(4 * self.parameters, np.full(setting.clients, self.samples, dtype=np.int64))


@dataclass
class IdleLearner(Learner):
    """A learner of dimension 0: every update is empty."""

    model_bytes: int
    samples: NDArray[np.int64]
    dimension: int = field(default=0, init=False)
    tensors: tuple[slice, ...] = field(default=(), init=False)
    sizes_vary: bool = field(default=False, init=False)
    uses_outcomes: bool = field(default=False, init=False)
    private: None = field(default=None, init=False)
    steepness: None = field(default=None, init=False)

    def largest_norm(self) -> float:
        return 0.0

    def sample_moves(self, jobs: Sequence[Job]) -> None:
        return None

    def initial(self) -> NDArray[np.float32]:
        return np.zeros(0, dtype=np.float32)

    def put(self, version: int, model: NDArray[np.float32]) -> None:
        pass

    def get(self, version: int) -> NDArray[np.float32]:
        return self.initial()

    def drop(self, version: int) -> None:
        pass

    def sizes(self, jobs: Sequence[Job]) -> Sizes:
        return Sizes(self.model_bytes, self.model_bytes)

    def counts(self, clients: NDArray[np.integer], version: int) -> NDArray[np.int64]:
        return self.samples[clients]

    def train(self, jobs: Sequence[Job]) -> Updates:
        clients = np.fromiter((job.client for job in jobs), dtype=np.int64, count=len(jobs))
        return Updates(np.zeros((len(jobs), 0), dtype=np.float32), self.samples[clients], np.full(len(jobs), np.nan))
