"""Clients that are not there all the time: they join late, leave, or go offline in the middle of what they do."""

from collections.abc import Generator
from dataclasses import dataclass
from math import exp, inf
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.clients.client_agents import CLIENT_AGENTS, ClientAgent, Node, Standard
from simfl.core.distributions import PerClient, Positive, length_problems, per_client, reaching
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


@CLIENT_AGENTS("dozing")
@dataclass(frozen=True)
class Dozing(ClientAgent):
    """Is online and offline by turns, for times with exponential distributions: it reads a model when it is online, its
    work pauses or begins anew, and an update that has not arrived when it goes offline is lost and sent again.
    """

    online_s: Annotated[Positive, Field(description="mean seconds that it is online")]
    offline_s: Annotated[Positive, Field(description="mean seconds that it is then offline")]
    work: Annotated[
        Literal["resumes", "restarts"], Field(description="what becomes of work in which it goes offline")
    ] = "resumes"

    example = {"online_s": 10.0, "offline_s": 5.0}

    def run(self, node: Node) -> Generator[Any, Any, None]:
        """One request and its answer."""
        request = yield node.receive("model")
        if not self._is_online(node):
            yield node.sleep(node.rng.exponential(self.offline_s))
        left_s = node.rng.exponential(self.online_s)
        while (update := (yield node.train(request, at_most_s=left_s, anew=self.work == "restarts"))) is None:
            yield node.sleep(node.rng.exponential(self.offline_s))
            left_s = node.rng.exponential(self.online_s)
        while True:
            left_s = node.rng.exponential(self.online_s)  # who is online does not know for how long
            if (yield node.reply(request, update, timeout_s=left_s, breaks_s=left_s)):
                break
            yield node.sleep(node.rng.exponential(self.offline_s))
        node.memory["online_s"] = np.array(node.now)

    def _is_online(self, node: Node) -> bool:
        """Whether it is online now, drawn from what it was when its agent last ended: then it was online."""
        share = self.online_s / (self.online_s + self.offline_s)
        if "online_s" not in node.memory:
            return bool(node.rng.random() < share)
        since_s = node.now - float(node.memory["online_s"])
        still = exp(-since_s * (1 / self.online_s + 1 / self.offline_s))
        return bool(node.rng.random() < share + (1 - share) * still)
