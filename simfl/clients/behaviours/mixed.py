"""Clients of which not all do the same."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from simfl.clients.client_agents import CLIENT_AGENTS, ClientAgent, Standard
from simfl.core.errors import there_are
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView

NUMBERS = r"^(\d{1,9}(-\d{1,9})?(, ?\d{1,9}(-\d{1,9})?)*)?$"
"""Numbers of clients and ranges of them."""


@dataclass(frozen=True)
class ClientGroup:
    """Clients that do the same."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    agent: Annotated[Annotated[Any, CLIENT_AGENTS], Field(description="what they do")]
    clients: Annotated[str, Field(pattern=NUMBERS, max_length=10**5, description='such as "0-9, 12"')] = ""
    share: Annotated[float, Field(ge=0, le=1, description="probability that any other client belongs to it too")] = 0.0

    @property
    def ranges(self) -> list[range]:
        """The numbers in ``clients``."""
        return ranges_of(self.clients)


def ranges_of(numbers: str) -> list[range]:
    """The numbers that a text such as "0-9, 12" names."""
    ends = [part.split("-") for part in numbers.split(",") if part]
    return [range(int(each[0]), int(each[-1]) + 1) for each in ends]


@CLIENT_AGENTS("mixed")
@dataclass(frozen=True)
class Mixed(ClientAgent):
    """Each client does what the first group does to which it belongs; who belongs to none is standard."""

    groups: Annotated[
        tuple[ClientGroup, ...], Field(min_length=1, max_length=100, description="the groups, in their order")
    ]

    example = {"groups": [{"agent": "patient", "share": 0.5}]}

    run = Standard.run

    @property
    def reads_data(self) -> bool:  # type: ignore[override]
        """Whether one of them does."""
        return any(group.agent.reads_data for group in self.groups)

    @property
    def tells_samples(self) -> bool:
        """Whether one of them does."""
        return any(group.agent.tells_samples for group in self.groups)

    @property
    def per_client(self) -> bool:
        """Whether all of them send what is of their own updates."""
        return all(group.agent.per_client for group in self.groups)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        """Every number is one of a client, and no group is empty."""
        problems = []
        for i, group in enumerate(self.groups):
            if any(each.stop > setting.clients or not each for each in group.ranges):
                why = f"is '{group.clients}', but ranges rise, and {there_are(setting.clients, 'client')}, from 0"
                problems.append((f"groups.{i}.clients", why))
            if not group.clients and not group.share:
                problems.append((f"groups.{i}", "has no clients; give clients, or a share above 0"))
            if isinstance(group.agent, Mixed):
                problems.append((f"groups.{i}.agent", "is itself mixed; list its groups here"))
        return problems

    def of_each(self, clients: int, streams: Streams) -> Callable[[int], ClientAgent]:
        """That of its group."""
        agents, places = [Standard(), *(group.agent for group in self.groups)], self._places(clients, streams)
        return lambda client: agents[int(places[client])]

    def stays_s(self, clients: int, streams: Streams) -> NDArray[np.float64] | None:
        """That of its group."""
        places, stays_s = self._places(clients, streams), np.tile([0.0, inf], (clients, 1))
        for place, group in enumerate(self.groups, 1):
            if (of_group := group.agent.stays_s(clients, streams)) is not None:
                stays_s[places == place] = of_group[places == place]
        return stays_s

    def _places(self, clients: int, streams: Streams) -> NDArray[np.int64]:
        """The number of each client's group, from 1; 0 = none."""
        places = np.zeros(clients, dtype=np.int64)
        for place, group in reversed(list(enumerate(self.groups, 1))):
            draws = streams("agents/groups", place).random(clients)
            places[draws < group.share] = place
        for place, group in reversed(list(enumerate(self.groups, 1))):
            for each in group.ranges:  # who is named is nobody else's by chance
                places[each.start : each.stop] = place
        return places
