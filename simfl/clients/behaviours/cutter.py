"""Clients that fail on purpose, once they know who else is asked."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from simfl.clients.behaviours.mixed import NUMBERS, ranges_of
from simfl.clients.client_agents import CLIENT_AGENTS, ClientAgent, Node
from simfl.core.scenario_view import ScenarioView


@CLIENT_AGENTS("cutter")
@dataclass(frozen=True)
class Cutter(ClientAgent):
    """Sends nothing if one of its victims works with it, so that their unit is dropped, or their round aborted; else it
    does what a standard client does. Knows who is in its unit or cohort, as clients that exchange keys do.
    """

    victims: Annotated[str, Field(pattern=NUMBERS, min_length=1, max_length=10**5, description='such as "0-9, 12"')]
    within: Annotated[Literal["unit", "cohort"], Field(description="where it looks for them")] = "unit"

    attacks = True
    example = {"victims": "0"}

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if setting.training.many_aggregators:
            return [("", "looks for its victims among those whom a server asks; use training: fedavg")]
        deadline_s = None if setting.training.losses is None else setting.training.losses.deadline_s
        if deadline_s is None:
            return [("", "may send nothing, which only a deadline tells; give training.deadline_s")]
        return []

    def cautions(self, setting: ScenarioView) -> list[str]:
        if setting.secagg.phases:
            return []
        return [f"agent cutter knows who else is asked, which clients under secagg: {setting.secagg.name} do not hear"]

    def run(self, node: Node) -> Generator[Any, Any, None]:
        """One request, and perhaps its answer."""
        request = yield node.receive("model")
        update = yield node.train(request)
        if not (yield node.meets(request, ranges_of(self.victims), self.within)):
            yield node.reply(request, update)
