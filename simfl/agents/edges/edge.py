"""Edges: agents between their clients and the cloud."""

from collections.abc import Callable
from dataclasses import astuple, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.accounts import Log
from simfl.agents.aggregation.components import Components, RoundCosts, RoundResult
from simfl.agents.buffered.server import BufferedServer
from simfl.agents.edges.members import EdgeMembers, MemberAvailable
from simfl.agents.generator_run import MOST_AT_AN_INSTANT, AgentError, GeneratorRun
from simfl.agents.servers import Server
from simfl.agents.synchronous import SynchronousServer
from simfl.agents.world import Process, World
from simfl.core.json_data import JsonObject
from simfl.core.types import SERVER, Arrays, JobId, Vectors, prefix_arrays, under
from simfl.metrics.participation import Tally
from simfl.secagg.transcript import Transcript

MOST_WAITS = 100_000
"""Of one run of an edge, for whose model the root waits; more go on without end."""


class EdgeDelivery(NamedTuple):
    """What an edge has made of a model that the cloud has sent it.

    Attributes:
        edge: its number.
        version: of the cloud's model.
        before, after: that model, and the edge's, (d,).
        rounds: the edge's aggregations.
    """

    edge: int
    version: int
    before: Vectors
    after: Vectors
    rounds: list[RoundResult]


class _Wait(NamedTuple):
    """What an edge waits for: how that begins. Its value goes to the edge."""

    begin: Callable[[], Process[Any]]


class EdgeRun(GeneratorRun[_Wait]):
    """What an edge does with one model. See :class:`simfl.topology.base.EdgeNode`.

    Args:
        parts: the scenario of its clients.
        world: the clock.
        number: of the edge's next aggregation; with a buffer it may have the same model of the root again.
        memory: of the edge.
        serve: aggregates so many times.
    """

    def __init__(
        self,
        parts: Components[Any],
        world: World,
        number: int,
        memory: Arrays,
        serve: Callable[[int], Process[list[RoundResult]]],
    ) -> None:
        assert parts.members is not None
        self.parts, self.world, self.memory, self.serve = parts, world, memory, serve
        self.edge, self.clients = parts.members.edge, parts.members.clients.copy()
        self.rng = parts.streams("edge", number)
        self.rounds: list[RoundResult] = []

    @property
    def now(self) -> float:
        """Simulated time, seconds."""
        return self.world.now

    def aggregate(self, times: int = 1) -> _Wait:
        """See :class:`simfl.topology.base.EdgeNode`."""
        if not isinstance(times, (int, np.integer)) or isinstance(times, bool) or times < 1:
            raise self.error(f"aggregates {times!r} times, and a whole number from 1 is needed")
        return self.give(_Wait(lambda: self._aggregate(int(times))))

    def sleep(self, seconds: float) -> _Wait:
        """See :class:`simfl.topology.base.EdgeNode`."""
        self.check_seconds("seconds", seconds)
        return self.give(_Wait(lambda: self._sleep(float(seconds))))

    def _aggregate(self, times: int) -> Process[NDArray[np.int32]]:
        assert self.parts.members is not None
        rounds = yield from self.serve(times)
        self.rounds += rounds
        return np.unique(self.parts.members.clients[np.concatenate([done.clients for done in rounds])])

    def _sleep(self, seconds: float) -> Process[None]:
        yield self.world.wait(seconds)

    def error(self, what: str) -> AgentError:
        """The line that says what the edge has done."""
        topology = self.parts.topology
        where = f"{topology.aggregator}/{self.edge} at {self.now:.6g} s"
        return AgentError(f"{where}: run_edge of topology '{topology.name}' {what}")

    def live(self) -> Process[list[RoundResult]]:
        """Drives the edge to its end; its aggregations.

        Raises:
            AgentError: it does what no edge can.
        """
        run, value = self.parts.topology.run_edge(self), None
        since_s, at_instant, waits = self.now, 0, 0
        while (wait := self.next_wait(run, value)) is not None:
            value = yield from wait.begin()
            at_instant = at_instant + 1 if self.now == since_s else 0
            since_s, waits = self.now, waits + 1
            if at_instant > MOST_AT_AN_INSTANT:
                raise self.error(f"goes on {MOST_AT_AN_INSTANT} times without letting time pass")
            if waits > MOST_WAITS:
                raise self.error(f"waits more than {MOST_WAITS} times while its model is waited for")
        if not self.rounds:
            raise self.error("ends without an aggregation; write yield edge.aggregate()")
        self.check_memory()
        return self.rounds


class EdgeAgent:
    """Takes the cloud's model, does with its own clients what the topology says, and sends on its model.

    Args:
        parts: the scenario of its clients.
        world: the clock.
        log: takes records of events, or None.
        name: what others call it.

    Attributes:
        records: of events, which are handed on with what the edge delivers: at one instant edges have no order.
        memory: what its own behaviour keeps from one model to the next, by name.
        unaveraged: its aggregations that are in no average of the root yet.
        is_at_work: whether a round is under way.
    """

    def __init__(self, parts: Components[Any], world: World, log: Log | None, name: str) -> None:
        assert parts.members is not None
        self.log: Log | None = log
        self.records: list[JsonObject] = []
        self.members, self.world, self.name, self.memory = parts.members, world, name, Arrays()
        self.unaveraged: list[RoundResult] = []
        self.is_at_work = False
        self.server = self._server(
            parts, world, None if log is None else edge_log(self.records.append, self.members, name)
        )

    def _server(self, parts: Components[Any], world: World, log: Log | None) -> Server[Any]:
        return SynchronousServer(parts, world, lambda done: None, log)

    def set_up(self) -> Process[None]:
        """What happens once, before the first round."""
        assert isinstance(self.server, SynchronousServer)
        yield from self.server.set_up()

    def assign(self, clients: NDArray[np.int32]) -> None:
        """The cloud has selected these, (n,), perhaps of other edges too, for the aggregations to come."""
        available = self.server.parts.available
        assert isinstance(available, MemberAvailable)
        available.assigned = np.isin(self.members.clients, clients)

    def serve(self, model: Vectors, version: int, way_s: float) -> Process[EdgeDelivery]:
        """From a model's departure at the cloud to the arrival of the edge's, each of which takes so long."""
        yield self.world.wait(way_s)
        self.server.global_model.begin_with(model)
        run = EdgeRun(self.server.parts, self.world, self.server.global_model.version, self.memory, self.aggregate)
        rounds = yield from run.live()
        self.memory = run.memory
        yield self.world.wait(way_s)
        return EdgeDelivery(self.members.edge, version, model, self.server.model, rounds)

    def hand_on(self) -> None:
        """Writes the records of what has happened."""
        for record in self.records:
            assert self.log is not None
            self.log(record)
        self.records.clear()

    def close(self, done: RoundResult) -> RoundResult:
        """Its last aggregation of which the root hears, when the run ends."""
        return done

    def rest(self) -> list[RoundResult]:
        """When the run ends, all that the root has not heard of: its aggregations, and the round that is under way."""
        if not self.is_at_work:
            return self.unaveraged
        assert isinstance(self.server, SynchronousServer)
        return [*self.unaveraged, self.server.leave()]

    def aggregate(self, times: int) -> Process[list[RoundResult]]:
        """So many aggregations."""
        assert isinstance(self.server, SynchronousServer)
        rounds = []
        for _ in range(times):
            self.is_at_work = True
            rounds.append((yield from self.server.round(self.server.global_model.version)))
            self.is_at_work = False
            self.unaveraged.append(rounds[-1])
        return rounds

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Of its server, who took part, and what has been spent since its last aggregation."""
        tally = self.server.tally
        history = [] if tally.history is None else tally.history
        return {
            **self.server.state(),
            "costs": np.array(astuple(self.server.accounts.costs), dtype=np.int64),
            "participation": tally.participation,
            "history": np.concatenate([np.empty(0, np.int32), *history]),
            "history/lengths": np.array([len(row) for row in history], dtype=np.int64),
            **prefix_arrays("memory", self.memory),
        }

    def restore(self, state: Arrays) -> None:
        """Goes back to a :meth:`state`."""
        self.memory = under("memory", state)
        self.server.accounts.costs = RoundCosts(*state["costs"].tolist())
        history = None
        if self.server.tally.history is not None:
            history = np.split(state["history"], np.cumsum(state["history/lengths"]))[:-1]
        self.server.restore(state, Tally.of(np.array(state["participation"]), int(state["rounds"]), history))


class BufferedEdge(EdgeAgent):
    """An edge with a buffer: its clients go on while it waits for the cloud, and what arrives waits in its buffer."""

    def _server(self, parts: Components[Any], world: World, log: Log | None) -> Server[Any]:
        self.rounds: list[RoundResult] = []
        self.has_begun = False
        return BufferedServer(parts, world, self._on_round, log)

    def set_up(self) -> Process[None]:
        return
        yield

    def aggregate(self, times: int) -> Process[list[RoundResult]]:
        assert isinstance(self.server, BufferedServer)
        self.rounds, self.times, self.is_full = [], times, self.world.event()
        if self.has_begun:
            self.server.go_on()
        else:
            self.has_begun = True
            self.world.spawn(self.server.run())
        yield self.is_full
        return self.rounds

    def close(self, done: RoundResult) -> RoundResult:
        """With the jobs that are open then."""
        assert isinstance(self.server, BufferedServer)
        self.server.stop()
        rest, population = Server.report(self.server, done), len(self.members.clients)
        every = [*(done.transcripts or ()), *(rest.transcripts or ())]
        alone = [each for each in every if not each.summed.any()]
        unsummed = Transcript.of(done.number, sorted(np.concatenate([each.clients for each in alone]).tolist()),
                                 population, summed=False) if alone else None  # fmt: skip
        transcripts = [*(each for each in every if each.summed.any()), *([unsummed] if unsummed else [])]
        return replace(done, jobs=[*done.jobs, *rest.jobs], transcripts=transcripts)

    def _on_round(self, done: RoundResult) -> None:
        assert isinstance(self.server, BufferedServer)
        self.rounds.append(done)
        self.unaveraged.append(done)
        if len(self.rounds) == self.times:
            self.server.dispatcher.paused = True
            self.is_full.succeed()


def edge_log(log: Log, members: EdgeMembers, name: str) -> Log:
    """Takes the records of an edge: its clients by their numbers in the scenario, and itself by its name."""

    def end(who: int) -> object:
        return name if who == SERVER else int(members.clients[who])

    def take(record: JsonObject) -> None:
        changed = dict(record)
        for key in ("from", "to", "client"):
            if key in record:
                changed[key] = end(record[key])
        if "job" in record:
            job = JobId(record["job"])
            changed["job"] = int(JobId.of(job.selection, int(members.clients[job.client])))
        if record["event"] not in ("message", "compute"):
            changed["aggregator"] = name
        log(changed)

    return take
