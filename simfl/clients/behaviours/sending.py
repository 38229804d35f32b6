"""Clients that send only what is worth it, that send again until it has arrived, or that send nothing on purpose."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from simfl.clients.behaviours.mixed import NUMBERS, ranges_of
from simfl.clients.client_agents import CLIENT_AGENTS, ClientAgent, Node
from simfl.core.scenario_view import ScenarioView


@CLIENT_AGENTS("deciding")
@dataclass(frozen=True)
class Deciding(ClientAgent):
    """Sends an update only if the model that it has received fits its samples badly; else it sends nothing."""

    loss_from: Annotated[float, Field(ge=0, description="it sends if the model's mean loss on its samples is so large")]

    reads_data = True
    example = {"loss_from": 0.5}

    def run(self, node: Node) -> Generator[Any, Any, None]:
        """One request, and perhaps its answer."""
        request = yield node.receive("model")
        update = yield node.train(request)
        loss = yield node.evaluate(request)
        if not loss < self.loss_from:  # also without samples
            yield node.reply(request, update)


@CLIENT_AGENTS("patient")
@dataclass(frozen=True)
class Patient(ClientAgent):
    """Sends an update again that has not been acknowledged, after a pause that doubles each time."""

    attempts: Annotated[int, Field(ge=1, description="at most so many times it sends an update")] = 4
    timeout_s: Annotated[float, Field(gt=0, description="seconds that it waits for the acknowledgement")] = 1.0
    pause_s: Annotated[float, Field(ge=0, description="seconds before it sends again the first time")] = 0.5

    def run(self, node: Node) -> Generator[Any, Any, None]:
        """One request and its answer."""
        request = yield node.receive("model")
        update = yield node.train(request)
        for attempt in range(self.attempts):
            if (yield node.reply(request, update, timeout_s=self.timeout_s)):
                return
            yield node.sleep(self.pause_s * 2**attempt)


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
