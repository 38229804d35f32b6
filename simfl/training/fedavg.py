"""Synchronous federated averaging (McMahan et al. 2017, Algorithm 1)."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.local import LocalTraining
from simfl.training.base import RULES
from simfl.training.server import ServerStep

__all__ = ["FedAvg"]


@RULES("fedavg")
@dataclass(frozen=True, kw_only=True)
class FedAvg(LocalTraining, ServerStep):
    """Every round the server waits for the selected clients and averages their updates."""

    rounds: Annotated[int, Field(ge=1, le=10**9, description="rounds to play, skipped ones included")]
    weighting: Annotated[
        Literal["samples", "equal"], Field(description="a client's weight in the average: its samples, or 1")
    ] = "samples"
    on_failure: Annotated[
        Literal["drop_unit", "abort", "partial"],
        Field(description="after a mid-round failure: drop the client's unit, skip the round, or sum the survivors"),
    ] = "drop_unit"
    deadline_s: Annotated[
        float | None, Field(gt=0, le=1e12, description="simulated seconds after which missing clients count as failed")
    ] = None
    skipped_round_s: Annotated[
        float,
        Field(ge=0, le=1e12, description="simulated seconds until the server asks again when too few are available"),
    ] = 1.0
    announce: Annotated[
        bool, Field(description="send the new model to the round's clients as soon as it exists (costs bytes, no time)")
    ] = False

    @property
    def most_rounds(self) -> int:
        """Rounds after which the run ends."""
        return self.rounds

    def check(self, scenario: Any) -> list[tuple[str, str]]:
        return [*LocalTraining.check(self, scenario), *ServerStep.check(self, scenario)]

    def weights(self, examples: NDArray[np.int64], staleness: NDArray[np.int64]) -> NDArray[np.float64]:
        return examples.astype(float) if self.weighting == "samples" else np.ones(len(examples))
