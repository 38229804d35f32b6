"""Clients that send an update only if it is worth it."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from simfl.clients.client_agents import CLIENT_AGENTS, ClientAgent, Node


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
