"""Clients that choose whether and when they answer: if it is worth it, again until it has arrived, while they take part
and are online; or never, so that the round of their victims fails.
"""

from collections.abc import Generator
from dataclasses import dataclass
from math import exp, inf
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.clients.behaviours.mixed import NUMBERS, ranges_of
from simfl.clients.client_agents import CLIENT_AGENTS, ClientAgent, Node, Standard
from simfl.core.distributions import PerClient, Positive, length_problems, per_client, reaching
from simfl.core.rng import Streams
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
