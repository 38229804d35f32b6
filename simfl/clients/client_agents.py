"""The family of client agents: what a client does from the arrival of a request to its answer."""

from abc import abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.rng import Streams
from simfl.core.types import Arrays


class Request(NamedTuple):
    """A model that has reached a client, to be trained.

    Attributes:
        sender: who waits for the update: ``"server"``, or ``"peers"`` where clients send to clients.
        round: the model's version, from 0.
        number: of the request; that of its job.
        received_s: when it arrived, simulated seconds.
        waits_until_s: until when the sender waits, simulated seconds; None = it sets no deadline.
    """

    sender: str
    round: int
    number: int
    received_s: float
    waits_until_s: float | None


class Update(NamedTuple):
    """The sealed update of a request: it can be sent, and nobody but the aggregator opens it."""

    request: Request


class Node(Protocol):
    """The place of a client on the clock. An agent waits with ``yield`` for what a method gives, and gets its value.

    Attributes:
        client: its number.
        rng: draws of its own; they begin anew, elsewhere, whenever the agent begins to run.
        memory: arrays by name that last from one run of the agent to the next, and are stored with the run.
    """

    client: int
    rng: np.random.Generator
    memory: Arrays

    @property
    def now(self) -> float:
        """Simulated time, seconds."""

    def receive(self, kind: str = "model", timeout_s: float | None = None) -> Any:
        """The next :class:`Request`, in the order of their arrival; None if none has come after so many seconds."""

    def train(self, request: Request, at_most_s: float | None = None, anew: bool = False) -> Any:
        """The :class:`Update` when the work is done that takes the device's computing time; None if it is not after so
        many seconds: it goes on when the agent trains again, or begins anew. The client may die in it, as
        ``devices.failure`` says: its agent ends then, and whoever waits hears that its connection has ended.
        """

    def evaluate(self, request: Request) -> Any:
        """The mean loss on the client's training samples of the request's model, float, NaN without samples. The work
        has told it, so that it must be done, and no time passes. Only agents that say ``reads_data`` get it.
        """

    def reply(
        self, request: Request, update: Update, timeout_s: float | None = None, breaks_s: float | None = None
    ) -> Any:
        """Sends the update. With a timeout it waits for the acknowledgement, a message of no bytes, which may be lost
        as the update may: True once that has arrived, False if it has not after so many seconds; else it goes on at
        once with None. If the update has not arrived after ``breaks_s`` seconds, it is lost.
        """

    def sleep(self, seconds: float) -> Any:
        """None, after so many seconds."""


class ClientAgent(Plugin, Protocol):
    """What a client does with the models that reach it: a process on the clock.

    A client has one process at a time. It starts when a request arrives; others wait in the client's mailbox, and it
    starts again when the agent has ended and one waits. Protocols' phases and questions of a policy are answered beside
    it. When the server stops waiting for an update, what the client does for it ends at once, as with every client; an
    agent cannot catch that, or its death. A round hears each client once: an update that arrives again counts nowhere.

    Where clients send to clients, an update goes to all who wait for it; a round has one model for each, and ends when
    all agents have ended.

    Attributes:
        reads_data: what it sends, and when, may follow from its samples: guarantees are 1 then, and epsilons refused.
    """

    reads_data: bool = False

    @abstractmethod
    def run(self, node: Node) -> Generator[Any, Any, None]:
        """What it does; it yields what the node's methods give, and gets their values."""

    def of_each(self, clients: int, streams: Streams) -> Callable[[int], "ClientAgent"]:
        """What gives the agent of each of so many clients: this one, unless they differ."""
        return lambda client: self

    def stays_s(self, clients: int, streams: Streams) -> NDArray[np.float64] | None:
        """From when until when each client takes part, simulated seconds (clients, 2); None = all do always."""
        return None


CLIENT_AGENTS = Registry[ClientAgent](
    "agents",
    protocol=ClientAgent,
    modules=modules_of("simfl.clients.behaviours", "patient", "dozing", "joining", "deciding", "mixed"),
)


@CLIENT_AGENTS("standard")
@dataclass(frozen=True)
class Standard(ClientAgent):
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

    @property
    def all_standard(self) -> bool:
        """Whether certainly every client does what the standard agent does, from the beginning to the end."""
        return type(self.client) is Standard

    @property
    def reads_data(self) -> bool:
        """Whether what clients send, and when, may follow from their samples otherwise than by their updates."""
        return bool(self.client.reads_data)

    @property
    def all_stay(self) -> bool:
        """Whether certainly every client takes part from the beginning to the end."""
        return type(self.client).stays_s is ClientAgent.stays_s
