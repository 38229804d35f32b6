"""Clients that join while the run goes on, and perhaps leave again."""

from dataclasses import dataclass
from math import inf
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.clients.client_agents import CLIENT_AGENTS, ClientAgent, Standard
from simfl.core.distributions import PerClient, length_problems, per_client, reaching
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView


@CLIENT_AGENTS("joining")
@dataclass(frozen=True)
class Joining(ClientAgent):
    """Takes part from a time on, and perhaps only for a while; before and after that it is not available.

    Reference: clients that join a running simulation of PrivacyFL (Mugunthan et al. 2020, section 5.1).
    """

    joins_s: Annotated[PerClient, Field(description="simulated seconds after which each client takes part")]
    stays_for_s: Annotated[
        PerClient | None, Field(description="seconds for which each then takes part; null = to the end")
    ] = None

    example = {"joins_s": {"name": "exponential", "mean": 5.0}}

    run = Standard.run

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        """Lists are as long as there are clients, and no distribution reaches below 0."""
        problems = []
        for key, value in (("joins_s", self.joins_s), ("stays_for_s", self.stays_for_s)):
            problems += [*length_problems(key, value, setting.clients), *reaching(key, value)]
        return problems

    def stays_s(self, clients: int, streams: Streams) -> NDArray[np.float64]:
        """As drawn once for each client."""
        joins_s = per_client(self.joins_s, clients, streams("agents/joins"), "joins_s")
        if self.stays_for_s is None:
            return np.column_stack([joins_s, np.full(clients, inf)])
        stays_for_s = per_client(self.stays_for_s, clients, streams("agents/stays"), "stays_for_s")
        return np.column_stack([joins_s, joins_s + stays_for_s])
