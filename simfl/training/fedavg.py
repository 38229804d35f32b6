"""Synchronous federated averaging (McMahan et al. 2017, Algorithm 1)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from simfl.local import LocalTraining
from simfl.setting import Setting
from simfl.training.base import RULES, Losses
from simfl.training.server import ServerStep
from simfl.training.stop import Schedule

__all__ = ["FedAvg"]


@RULES("fedavg")
@dataclass(frozen=True, kw_only=True)
class FedAvg(Schedule, LocalTraining, ServerStep):
    """Every round the server waits for the selected clients and averages their updates."""

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

    server: ClassVar[str] = "synchronous"
    example: ClassVar[dict[str, Any]] = {"rounds": 2}

    @property
    def keeps_units(self) -> bool:
        """Whether units are aggregated whole, and only their sum is seen."""
        return self.on_failure != "partial" and self.aggregate.sum_only

    @property
    def losses(self) -> Losses:
        return Losses(self.on_failure, self.deadline_s)

    def check(self, scenario: Setting) -> list[tuple[str, str]]:
        problems = [*LocalTraining.check(self, scenario), *ServerStep.check(self, scenario)]
        return [*problems, *self.endless(scenario.learning)]
