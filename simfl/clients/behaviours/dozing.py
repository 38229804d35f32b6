"""Clients that go offline and come back in the middle of what they do."""

from collections.abc import Generator
from dataclasses import dataclass
from math import exp
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from simfl.clients.client_agents import CLIENT_AGENTS, ClientAgent, Node
from simfl.core.distributions import Positive


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
