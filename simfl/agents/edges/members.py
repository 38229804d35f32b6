"""Some clients of a scenario as if they were all: an edge is a server of its local clients, which it numbers from 0.

Whatever is drawn or learned keeps the address that it has in the whole scenario, so that who belongs to which edge
changes no client's speed, losses or batches. What an edge draws itself (selections, keys, noise) has its number in the
addresses; edge 0 has those of a server alone.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components
from simfl.clients.client_agents import Agents, ClientAgent, Node
from simfl.core.rng import Address, Streams
from simfl.core.types import Arrays, Bools, Floats, Integers, Job, JobId, Labels, Updates, Vectors
from simfl.devices.base import Available, Computing, Failing, is_told
from simfl.learning.base import Learner, NoEvaluation, Sizes
from simfl.network.base import Links
from simfl.privacy.stage import Stage
from simfl.selection.base import Policy
from simfl.training.base import Rule


class EdgeMembers:
    """The clients of one edge.

    Args:
        clients: their numbers in the scenario, int32 (m,), ascending.
        population: clients of the scenario.
        edge: its number.
        edges: how many there are.
    """

    def __init__(self, clients: NDArray[np.int32], population: int, edge: int, edges: int) -> None:
        self.clients, self.population, self.edge, self.edges = clients, population, edge, edges

    def where(self, local: Address) -> Address:
        """An address among the members as one among all clients."""
        return Address(local.selection_id, self.clients[local.index], self.population)

    def version(self, local: int) -> int:
        """The number under which the scenario's learner holds a version of this edge's model."""
        return -1 - (local * self.edges + self.edge)

    def job(self, local: Job) -> Job:
        """A job of the edge as one of the scenario."""
        client = int(self.clients[local.client])
        return Job(
            JobId.of(local.selection, client), client, local.version, local.started_at, self.version(local.start)
        )

    def jobs(self, local: Iterable[Job]) -> list[Job]:
        """The same of several."""
        return [self.job(job) for job in local]


class MemberLinks(Links):
    """The ways between an edge and its members: those that they have in the network to the server."""

    def __init__(self, whole: Links, members: EdgeMembers) -> None:
        self.whole, self.members = whole, members
        self.names = None if whole.names is None else tuple(whole.names[client] for client in members.clients.tolist())

    def down_s(self, clients: Any, size_bytes: Any, where: Address, phase: str = "") -> Floats:
        return self.whole.down_s(self.members.clients[clients], size_bytes, self.members.where(where), phase)

    def up_s(self, clients: Any, size_bytes: Any, where: Address, phase: str = "") -> Floats:
        return self.whole.up_s(self.members.clients[clients], size_bytes, self.members.where(where), phase)

    def latency_s(self, sources: Any, destinations: Any) -> Floats:
        return self.whole.latency_s(self._whole(sources), self._whole(destinations))

    def between_s(self, sources: Any, destinations: Any, size_bytes: Any, where: Address, phase: str = "") -> Floats:
        ends = self._whole(sources), self._whole(destinations)
        return self.whole.between_s(*ends, size_bytes, self.members.where(where), phase)

    def _whole(self, ends: NDArray[np.integer]) -> NDArray[np.integer]:
        return np.where(ends < 0, ends, self.members.clients[ends])


class MemberAvailable(Available):
    """Who of the members is there, by a model that nobody else asks: edges ask at times of their own.

    Attributes:
        assigned: whom the cloud has selected, bool (m,); None = it leaves that to the edge.
    """

    assigned: Bools | None = None

    def __init__(self, whole: Available, members: EdgeMembers) -> None:
        self.whole, self.members = whole, members
        self.dropout = None if whole.dropout is None else whole.dropout[members.clients]

    def draw(self, round: int, now_s: float) -> Bools:
        here = self.whole.draw(round, now_s)[self.members.clients]
        return here if self.assigned is None else here & self.assigned

    def state(self) -> Arrays:
        return self.whole.state()

    def restore(self, state: Arrays) -> None:
        self.whole.restore(state)


class DrainingMembers(MemberAvailable):
    """The same of a model that hears for how long clients have worked."""

    def on_work(self, clients: NDArray[np.integer], seconds: Floats, now_s: float) -> None:
        self.whole.on_work(self.members.clients[clients], seconds, now_s)


class MemberComputing(Computing):
    """How long the members work."""

    def __init__(self, whole: Computing, members: EdgeMembers) -> None:
        self.whole, self.members = whole, members

    def duration_s(self, clients: Any, samples: Any, epochs: Any, where: Address) -> Floats:
        return self.whole.duration_s(self.members.clients[clients], samples, epochs, self.members.where(where))


class MemberFailing(Failing):
    """Who of the members fails."""

    def __init__(self, whole: Failing, members: EdgeMembers) -> None:
        self.whole, self.members = whole, members

    def draw(self, clients: Any, where: Address, phase: str = "work") -> Floats:
        return self.whole.draw(self.members.clients[clients], self.members.where(where), phase)


class _Losses(NoEvaluation):
    """What members say of the edge's models; only the root measures any."""

    def __init__(self, whole: Learner, members: EdgeMembers) -> None:
        self.whole, self.members = whole, members

    def training_losses(self, version: int, clients: NDArray[np.integer], batch: int = 0) -> Floats:
        number, whom = self.members.version(version), self.members.clients[clients]
        return self.whole.evaluator.training_losses(number, whom, batch)


class MemberLearner(Learner):
    """Trains the members on the models of their edge; the scenario's learner keeps these, and all states of clients."""

    def __init__(self, whole: Learner, members: EdgeMembers) -> None:
        self.whole, self.members = whole, members
        self.dimension, self.model_bytes, self.sizes_vary = whole.dimension, whole.model_bytes, whole.sizes_vary
        self.statistics = whole.statistics
        self.samples, self.tensors = whole.samples[members.clients], whole.tensors
        self.uses_outcomes, self.private, self.steepness = whole.uses_outcomes, whole.private, whole.steepness

    @property
    def evaluator(self) -> _Losses:
        return _Losses(self.whole, self.members)

    @property
    def labels(self) -> Labels | None:
        labels = self.whole.labels
        return None if labels is None else labels._replace(counts=labels.counts[self.members.clients])

    def largest_norm(self) -> float:
        return self.whole.largest_norm()

    def sample_moves(self, jobs: Sequence[Job]) -> Floats | None:
        return self.whole.sample_moves(self.members.jobs(jobs))

    def initial(self) -> Vectors:
        return self.whole.initial()

    def put(self, version: int, model: Vectors) -> None:
        self.whole.put(self.members.version(version), model)

    def get(self, version: int) -> Vectors:
        return self.whole.get(self.members.version(version))

    def drop(self, version: int) -> None:
        self.whole.drop(self.members.version(version))

    def sizes(self, jobs: Sequence[Job]) -> Sizes:
        return self.whole.sizes(self.members.jobs(jobs))

    def train(self, jobs: Sequence[Job]) -> Updates:
        return self.whole.train(self.members.jobs(jobs))

    def root_update(self, version: int, samples: int) -> Vectors:
        return self.whole.root_update(self.members.version(version), samples)

    def discard(self, jobs: Iterable[Job]) -> None:
        self.whole.discard(self.members.jobs(jobs))

    def counts(self, clients: NDArray[np.integer], version: int) -> Integers:
        return self.whole.counts(self.members.clients[clients], version)

    def positions(self, jobs: Sequence[Job]) -> tuple[Integers, ...] | None:
        return self.whole.positions(self.members.jobs(jobs))

    def report_outcomes(self, jobs: Sequence[Job], outcomes: Any) -> Bools:
        return self.whole.report_outcomes(self.members.jobs(jobs), outcomes)


@dataclass(frozen=True)
class _MemberAgents(ClientAgent):
    """The members' agents."""

    whole: ClientAgent
    members: EdgeMembers

    @property
    def reads_data(self) -> bool:  # type: ignore[override]
        return self.whole.reads_data

    def run(self, node: Node) -> Generator[Any, Any, None]:
        return self.whole.run(node)

    def of_each(self, clients: int, streams: Streams) -> Callable[[int], ClientAgent]:
        agent_of = self.whole.of_each(self.members.population, Streams(streams.seed))
        return lambda client: agent_of(int(self.members.clients[client]))


def edge_streams(seed: int, edge: int) -> Streams:
    """What an edge draws from itself."""
    return Streams(seed, f"edge/{edge}/" if edge else "")


def components_of(
    whole: Components[Rule],
    members: EdgeMembers,
    rule: Rule,
    policy: Policy,
    available: Available,
    stages: tuple[Stage, ...],
) -> Components[Rule]:
    """The built scenario as an edge has it.

    Args:
        whole: the scenario.
        members: whose edge it is.
        rule: of the edge, which nothing ends.
        policy: of the edge, of so many clients.
        available: the whole scenario's model, which nobody else asks.
        stages: of the edge.
    """
    available_class = DrainingMembers if is_told(available) else MemberAvailable
    agents = whole.agents
    if not agents.all_standard:
        agents = Agents(_MemberAgents(agents.client, members), agents.engine)
    return replace(
        whole,
        clients=len(members.clients),
        streams=edge_streams(whole.streams.seed, members.edge),
        links=MemberLinks(whole.links, members),
        available=available_class(available, members),
        computing=MemberComputing(whole.computing, members),
        failing=MemberFailing(whole.failing, members),
        policy=policy,
        rule=rule,
        learner=MemberLearner(whole.learner, members),
        evaluate_every=0,
        stages=stages,
        observers=(),
        metrics=(),
        recovery_budget=0,
        agents=agents,
        edges=(),
        members=members,
    )
