"""Federated averaging without a server (Mugunthan, MIT 2022, section 5.4.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from simfl.core.scenario_view import ScenarioView
from simfl.training.base import RULES
from simfl.training.sgd_rule import SgdRule


@RULES("serverless")
@dataclass(frozen=True, kw_only=True)
class Serverless(SgdRule):
    """Every round the selected clients send their updates to all clients, and each client averages what it gets."""

    skipped_round_s: Annotated[
        float, Field(ge=0, le=1e12, description="simulated seconds until the clients try again when too few are there")
    ] = 1.0

    server: ClassVar[str] = "serverless"
    many_aggregators: ClassVar[bool] = True
    example: ClassVar[Mapping[str, object]] = {"rounds": 2}

    def check(self, scenario: ScenarioView) -> list[tuple[str, str]]:
        problems = super().check(scenario)
        if scenario.secagg.phases:
            name = scenario.secagg.name
            why = f"is serverless, but {name} has phases that a server runs"
            problems.append(("name", f"{why}; use ideal, plain or pairwise_ratchet"))
        return problems
