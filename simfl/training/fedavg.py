"""Synchronous federated averaging (McMahan et al. 2017, Algorithm 1)."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.training.base import RULES, State
from simfl.local import LocalTraining

__all__ = ["FedAvg"]


@RULES("fedavg")
@dataclass(frozen=True, kw_only=True)
class FedAvg(LocalTraining):
    """Every round the server waits for the selected clients and averages their updates."""

    rounds: Annotated[int, Field(ge=1, le=10**9, description="rounds to play, skipped ones included")]
    weighting: Annotated[
        Literal["samples", "equal"], Field(description="a client's weight in the average: its samples, or 1")
    ] = "samples"
    server_learning_rate: Annotated[float, Field(gt=0, description="1 = plain average")] = 1.0
    on_failure: Annotated[
        Literal["drop_unit", "abort", "partial"],
        Field(description="after a mid-round failure: drop the client's unit, skip the round, or sum the survivors"),
    ] = "drop_unit"
    deadline_s: Annotated[
        float | None, Field(gt=0, description="simulated seconds after which missing clients count as failed")
    ] = None
    skipped_round_s: Annotated[
        float, Field(ge=0, description="simulated seconds until the server asks again when too few are available")
    ] = 1.0
    announce: Annotated[
        bool, Field(description="send the new model to the round's clients as soon as it exists (costs bytes, no time)")
    ] = False

    @property
    def most_rounds(self) -> int:
        """Rounds after which the run ends."""
        return self.rounds

    def weights(self, examples: NDArray[np.int64], staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        return examples.astype(float) if self.weighting == "samples" else np.ones(len(examples))

    def start(self, dimension: int) -> State:
        return {}

    def step(
        self, model: NDArray[np.float32], deltas: NDArray[np.float32], weights: NDArray[np.float64], state: State
    ) -> tuple[NDArray[np.float32], State]:
        total = weights.sum()
        if not total:  # only clients without samples
            return model, state
        share = (weights / total * self.server_learning_rate).astype(np.float32)
        return model + np.einsum("n,nd->d", share, deltas), state  # a BLAS product's bits depend on its threads
