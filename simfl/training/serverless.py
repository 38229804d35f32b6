"""Federated averaging without a server (Mugunthan, MIT 2022, section 5.4.3)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from simfl.local import LocalTraining
from simfl.setting import Setting
from simfl.training.base import RULES
from simfl.training.server import ServerStep
from simfl.training.stop import Schedule

__all__ = ["Serverless"]


@RULES("serverless")
@dataclass(frozen=True, kw_only=True)
class Serverless(Schedule, LocalTraining, ServerStep):
    """Every round the selected clients send their updates to all clients, and each client averages what it gets."""

    skipped_round_s: Annotated[
        float, Field(ge=0, le=1e12, description="simulated seconds until the clients try again when too few are there")
    ] = 1.0

    server: ClassVar[str] = "serverless"
    many_aggregators: ClassVar[bool] = True
    example: ClassVar[dict[str, Any]] = {"rounds": 2}

    def check(self, scenario: Setting) -> list[tuple[str, str]]:
        problems = [*LocalTraining.check(self, scenario), *ServerStep.check(self, scenario)]
        if scenario.secagg.phases:
            name = scenario.secagg.name
            problems.append(
                ("name", f"is serverless, but {name} has phases that a server runs; use plain or pairwise_ratchet")
            )
        return [*problems, *self.endless(scenario.learning)]
