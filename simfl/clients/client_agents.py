"""The family of client agents: what a client does from the arrival of a request to its answer."""

from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

from pydantic import ConfigDict, Field

from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry


class Node(Protocol):
    """What an agent can do in its place: it waits for what these give with ``yield``."""

    def receive(self, kind: str) -> Any:
        """The request that has reached the client."""

    def train(self, request: Any) -> Any:
        """The update of the request's model, after the device's computing time; it may die in it."""

    def reply(self, request: Any, update: Any) -> Any:
        """Sends the answer of a request; it goes on at once."""


class ClientAgent(Plugin, Protocol):
    """A client at work: one process on the clock, from when a request reaches it."""

    @abstractmethod
    def run(self, node: Node) -> Generator[Any, Any, None]:
        """What it does; it yields what the node's methods give, and gets their values."""


CLIENT_AGENTS = Registry[ClientAgent]("agents", protocol=ClientAgent)


@CLIENT_AGENTS("standard")
@dataclass(frozen=True)
class Standard:
    """Receives the model, trains it, and sends the update."""

    def run(self, node: Node) -> Generator[Any, Any, None]:
        """One request and its answer."""
        request = yield node.receive("model")
        update = yield node.train(request)
        yield node.reply(request, update)


@dataclass(frozen=True)
class Agents:
    """What the clients do on the clock, and how it is computed."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    client: Annotated[Annotated[Any, CLIENT_AGENTS], Field(description="what a client does with a request")] = field(
        default_factory=lambda: CLIENT_AGENTS.of("standard")
    )
    engine: Annotated[
        Literal["auto", "processes", "arrays"],
        Field(description="each client at work as a process, or all as arrays where they are standard: same results"),
    ] = "auto"
