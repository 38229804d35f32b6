"""The family of client agents: what a client does from the arrival of a request to its answer."""

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from simfl.core.errors import PluginError
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.rng import Streams
from simfl.core.types import Arrays, Floats, Integers, Job, Predictions, Updates, Vectors
from simfl.core.validation import checked_vectors, read_only


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

    def meets(self, request: Request, clients: Sequence[range], within: str = "unit") -> Any:
        """How many of these clients are asked in the same ``unit``, or ``cohort``, whoever answers; 0 where a server
        asks one client at a time. No time passes.
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


class AttackView(NamedTuple):
    """What the clients of one agent know of a sum in which they are, n of its updates theirs.

    Attributes:
        deltas: float32 (n, d): what each of them has trained.
        others: float32 (m, d): what all others in the sum have trained, if the agent says ``omniscient``; else (0, d).
        updates: number of them in the sum, n + m.
        previous: float32 (d,): what the server made of the sum before, 0 before the first; whoever receives two models
            in a row knows it. Only agents that say ``reads_previous`` get it, else it is empty.
        rngs: draws of each one's own for its job, n.
    """

    deltas: Vectors
    others: Vectors
    updates: int
    previous: Vectors
    rngs: tuple[np.random.Generator, ...]


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
        attacks: whether it is out to do harm: metrics count it among the attackers. None = it does not say, and counts
            as one if it sends, reports or trains on anything else than a standard client.
        alone: what it sends in place of its update follows from that update alone, and is no longer. An agent that
            sends something else (:meth:`sends`) has to say so: else guarantees are 1, and epsilons infinite.
        omniscient: it sees what all others send before it sends anything.
        reads_previous: it remembers what the server made of the sum before.
    """

    reads_data: bool = False
    attacks: bool | None = None
    alone: bool = False
    omniscient: bool = False
    reads_previous: bool = False

    @abstractmethod
    def run(self, node: Node) -> Generator[Any, Any, None]:
        """What it does; it yields what the node's methods give, and gets their values."""

    @property
    def per_client(self) -> bool:
        """Whether what each client sends is of its own update only, and no longer than that."""
        return bool(self.alone) or not _overrides(self, "sends", "of_each")

    @property
    def tells_samples(self) -> bool:
        """Whether a client may tell other samples than it holds; guarantees are 1 then, where samples weigh."""
        return _overrides(self, "reports", "of_each")

    def sends(self, view: AttackView) -> Vectors:
        """What they send in place of their updates, float32 (n, d), all those of one agent in one sum at once.

        The stages of the scenario, its compression and the protocol work on it as on every update: clips are enforced.
        """
        return view.deltas

    def reports(self, name: str, values: Floats) -> Floats:
        """What they say of themselves, float64 (n,), where the truth is ``values``: ``samples``, a field of a policy's
        view that clients tell (``loss``, ``loss_rms``, ``accuracy``), or ``estimate_s``, how long a job takes them.
        """
        return values

    def poisons(
        self, x: NDArray[Any], y: Integers, classes: int, rng: np.random.Generator
    ) -> tuple[NDArray[Any], Integers] | None:
        """The training samples of a client that it uses in place of its own, as many: of (n, ...) and their classes,
        (n,), each 0 .. classes - 1. None = its own.
        """
        return None

    def success(self, predict: Callable[..., Predictions | None]) -> float | None:
        """How far the attack has come, for metrics, from 0 to 1; None = it has no such goal.

        Args:
            predict: gives what the global model makes of the test samples or, given a function, of what that makes of
                them, (n, ...); None without classes.
        """
        return None

    def of_each(self, clients: int, streams: Streams) -> Callable[[int], "ClientAgent"]:
        """What gives the agent of each of so many clients: this one, unless they differ."""
        return lambda client: self

    def stays_s(self, clients: int, streams: Streams) -> NDArray[np.float64] | None:
        """From when until when each client takes part, simulated seconds (clients, 2); None = all do always."""
        return None


CLIENT_AGENTS = Registry[ClientAgent](
    "agents",
    protocol=ClientAgent,
    promises=("alone", "per_client", "tells_samples"),
    modules=modules_of(
        "simfl.clients.behaviours",
        "mixed",
        attackers="backdoor free_rider gaussian_noise label_flip liar model_replacement sign_flip",
        collusion="alie inner_product min_max min_sum",
        presence="dozing joining",
        sending="cutter deciding patient",
    ),
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
class Attacker(Standard):
    """Does what the standard agent does, on the clock."""

    attacks = True


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
    def per_client(self) -> bool:
        """Whether what each sends is of its own update only, and no longer."""
        return bool(self.client.per_client)

    @property
    def all_stay(self) -> bool:
        """Whether certainly every client takes part from the beginning to the end."""
        return type(self.client).stays_s is ClientAgent.stays_s


def _attacks(agent: ClientAgent) -> bool:
    """Whether it says that it is out to do harm, or what it does otherwise than others may be."""
    return _overrides(agent, "sends", "reports", "poisons") if agent.attacks is None else agent.attacks


def _overrides(agent: ClientAgent, *names: str) -> bool:
    """Whether its class has one of these methods of its own."""
    return any(getattr(type(agent), name) is not getattr(ClientAgent, name) for name in names)


class AttackRun:
    """What the clients' agents make of updates, samples and reports, in a scenario or what is built from one."""

    def __init__(self, setting: Any, streams: Streams) -> None:
        self.streams = streams
        self.client = setting.agents.client
        self.agent_of = None if setting.agents.all_standard else self.client.of_each(setting.clients, streams)

    def attackers(self, clients: Sequence[int]) -> NDArray[np.bool_]:
        """Who of the clients is out to do harm, bool (n,)."""
        if (agent_of := self.agent_of) is None:
            return np.zeros(len(clients), dtype=bool)
        return np.array([_attacks(agent_of(each)) for each in clients], dtype=bool)

    def groups(self, clients: Sequence[int], method: str) -> list[tuple[ClientAgent, NDArray[np.int64]]]:
        """The agents among the clients that have such a method, and where in the list their clients stand."""
        groups: dict[int, tuple[ClientAgent, list[int]]] = {}
        if (agent_of := self.agent_of) is None:
            return []
        for place, client in enumerate(clients):
            agent = agent_of(int(client))
            if _overrides(agent, method):
                groups.setdefault(id(agent), (agent, []))[1].append(place)
        return [(agent, np.array(places)) for agent, places in groups.values()]

    def success(self, clients: Sequence[int], predict: Callable[..., Predictions | None]) -> float | None:
        """How far attacks have come, the mean over the agents among the clients that say so."""
        values = [agent.success(predict) for agent, _ in self.groups(clients, "success")]
        known = [value for value in values if value is not None]
        return float(np.mean(known)) if known else None

    def reports(self, name: str, clients: Sequence[int], values: Any) -> Any:
        """What the clients say, (n,), where the truth is ``values``; NaN stays."""
        groups = self.groups(clients, "reports")
        values = np.array(values, copy=True) if groups else values
        for agent, places in groups:
            said = agent.reports(name, read_only(values[places].astype(np.float64)))
            checked_vectors(said, (len(places),), f"agent '{agent.name}'", "reports gives")
            honest = not (agent.tells_samples and self.client.tells_samples)  # certificates believe the latter
            if name == "samples" and honest and (said != values[places]).any():
                raise PluginError(
                    f"agent '{agent.name}'", "reports other samples than it has; say tells_samples = True"
                )
            values[places] = said
        return values

    def sends(self, jobs: Sequence[Job], updates: Updates, previous: Vectors, most: int) -> Updates:
        """What is sent of a sum's updates; nobody says that it has more than ``most`` samples, which would be seen."""
        if self.agent_of is None:
            return updates
        clients, deltas = [job.client for job in jobs], updates.deltas.copy()
        examples = np.clip(self.reports("samples", clients, updates.examples), 1, most) * (updates.examples > 0)
        for agent, places in self.groups(clients, "sends"):
            others = np.delete(updates.deltas, places, axis=0) if agent.omniscient else updates.deltas[:0]
            rngs = tuple(self.streams("agents/sends", jobs[place].id) for place in places)
            known = previous if agent.reads_previous else previous[:0]
            view = AttackView(read_only(updates.deltas[places]), read_only(others), len(jobs), read_only(known), rngs)
            shape = (len(places), deltas.shape[1])
            checked_vectors(sent := agent.sends(view), shape, f"agent '{agent.name}'", "sends gives")
            squares = (np.square(each).sum(axis=1, dtype=np.float64) for each in (sent, view.deltas))
            if (agent.per_client or self.client.per_client) and np.subtract(*squares).max() > 1e-6:
                raise PluginError(f"agent '{agent.name}'", "sends longer updates than it trains; say alone = False")
            deltas[places] = sent
        return replace(updates, deltas=deltas, examples=examples)
