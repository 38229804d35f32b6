"""Clients that send an update again until they know that it has arrived."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from simfl.clients.client_agents import CLIENT_AGENTS, ClientAgent, Node


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
