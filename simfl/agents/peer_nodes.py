"""A round of clients without a server, message by message: each client at work is a process on the round's clock.

All of a round happens on it: a client's process starts when the client is ready, it sends its update to those to whom
it goes, and to whoever asks, and the round is over when everybody has what comes to it and all agents have ended. So
nothing goes on between two rounds but what agents keep in their memory.
"""

from collections import deque
from collections.abc import Callable, Sequence
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.agent_run import AgentRun, Nodes
from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.exchange import computation, message
from simfl.agents.assignment import Assignment
from simfl.agents.world import ARRIVALS, Process, World
from simfl.clients.client_agents import ClientAgent, Request
from simfl.core.json_data import JsonObject
from simfl.core.rng import Address
from simfl.core.types import Arrays, Bools, Floats, Integers, Job, JobId
from simfl.network.base import checked_delays_s

Record = tuple[tuple[float, int, int, int], JsonObject]
"""A record of events.jsonl and its place among those of a round: by time, sender, kind and message."""


class PeerRound(NamedTuple):
    """What the clients of a round do, with all that is drawn for it; messages one an entry.

    Attributes:
        number: of the round.
        jobs: of the clients at work, n.
        clients: these, (n,).
        begins_s, work_s: when each begins, simulated seconds, and seconds until it has done its work, or dies, (n,).
        lives: bool (n,).
        size_bytes: of each one's update, (n,); 0 of who dies.
        place: of each message's sender among the clients, (m,).
        receiver: a client, (m,).
        asked_s: when the receiver's request has reached the sender, simulated seconds; -infinite where it need not ask.
        delays_s: of each message, (m,).
        free_s: when the last has left the links that they share, simulated seconds.
    """

    number: int
    jobs: Sequence[Job]
    clients: NDArray[np.int32]
    begins_s: Floats
    work_s: Floats
    lives: Bools
    size_bytes: Integers
    place: Integers
    receiver: NDArray[np.int32]
    asked_s: Floats
    delays_s: Floats
    free_s: float

    def kind(self, place: int) -> str:
        """What the messages of a client are called; of who dies they are the end of its connections."""
        return "update" if self.lives[place] else "failure"


class PeerExchange(NamedTuple):
    """What has come of a round.

    Attributes:
        arrives_s: when each message has reached its receiver first, simulated seconds, (m,).
        ends_s: when each client at work has done all that it does in the round, simulated seconds, (n,).
        worked_s: seconds of its work, (n,).
        bytes_sent: of all updates, also those that were sent again.
        records: of events.jsonl.
    """

    arrives_s: Floats
    ends_s: Floats
    worked_s: Floats
    bytes_sent: int
    records: list[Record]


class PeerNodes(Nodes):
    """The clients at work in one round.

    Args:
        parts: the built scenario.
        plan: of the round.
        agent_of: the agent of each client.
        memory: of clients, by client.
    """

    most_waits = 1e5

    def __init__(
        self, parts: Components[Any], plan: PeerRound, agent_of: Callable[[int], ClientAgent], memory: dict[int, Arrays]
    ) -> None:
        asked_s = plan.asked_s[np.isfinite(plan.asked_s)]
        super().__init__(parts, World(float(min(plan.begins_s.min(), asked_s.min(initial=inf)))))
        self.plan, self.agent_of, self.memory = plan, agent_of, memory
        self.world.on_stall = self._on_stall
        self.over = self.world.event()
        n, m = len(plan.clients), len(plan.place)
        self.place = {client: place for place, client in enumerate(plan.clients.tolist())}
        self.messages: list[list[int]] = [[] for _ in range(n)]  # that wait for each sender, or were sent by it
        self.has_update = [False] * n  # to give to whoever asks
        self.assignments: list[Assignment | None] = [None] * n
        self.attempts, self.arrives_s, self.acknowledged_s = [0] * m, [inf] * m, [inf] * m
        self.missing, self.bytes_sent = set(range(m)), 0
        self.ends_s = plan.begins_s.tolist()
        self.records: list[Record] = []

    def run(self) -> PeerExchange:
        """From the first client's beginning to the end of the round."""
        plan = self.plan
        for place, (client, begins_s) in enumerate(zip(plan.clients.tolist(), plan.begins_s.tolist(), strict=True)):
            self.world.at(begins_s, self._begin, place, serial=client + 1)
        for i, (place, asked_s) in enumerate(zip(plan.place.tolist(), plan.asked_s.tolist(), strict=True)):
            if isfinite(asked_s):
                self.world.at(asked_s, self._ask, i)
            else:
                self.messages[place].append(i)
        self.world.run(self.world.spawn(self._wait()))
        worked_s = np.array([0.0 if each is None else each.worked_s for each in self.assignments])
        times = np.array(self.arrives_s), np.array(self.ends_s), worked_s
        return PeerExchange(*times, self.bytes_sent, self.records)

    def _wait(self) -> Process[None]:
        yield self.over

    def _look(self) -> None:
        if not self.missing and not self.runs and None not in self.assignments and not self.over.triggered:
            self.over.succeed()

    # -- clients at work -----------------------------------------------------------------------------

    def _begin(self, place: int) -> None:
        plan, client, job = self.plan, int(self.plan.clients[place]), self.plan.jobs[place]
        request = Request("peers", plan.number, job.id, self.world.now, None)
        about = float(plan.work_s[place]), 0.0, bool(plan.lives[place]), int(plan.size_bytes[place])
        assignment = self.assignments[place] = Assignment(None, request, *about, 0, client + 1)
        self.mail[client] = deque([assignment])
        memory = self.memory.setdefault(client, {})
        run = self.runs[client] = AgentRun(self, client, self.agent_of(client), memory, job.id, self.world.now)
        run.process = self.world.spawn(run.live())

    def on_idle(self, run: AgentRun) -> None:
        """A round has one model for each client: who waits for another one ends."""
        self.world.at(self.world.now, self._end_idle, run)

    def _end_idle(self, run: AgentRun) -> None:
        self.stop(run)
        self.on_end(run)

    def stop(self, run: AgentRun) -> None:
        """Ends an agent in the middle."""
        self.world.stop(run.process)

    def on_end(self, run: AgentRun) -> None:
        """An agent has ended.

        Raises:
            AgentError: somebody waits for its update for ever.
        """
        self.check_memory(run)
        place = self.place[run.client]
        if not self.has_update[place] or any(self.arrives_s[i] == inf for i in self.messages[place]):
            raise run.error(
                "ends before its update has reached all clients that wait for it, and they have no deadline"
            )
        self._finish(place)

    def on_death(self, assignment: Assignment) -> None:
        """A client has died in its work: its connections end."""
        place = self.place[JobId(assignment.request.number).client]
        self.has_update[place] = True
        for i in self.messages[place]:
            self._send(i)
        self._finish(place)

    def _finish(self, place: int) -> None:
        del self.runs[int(self.plan.clients[place])]
        self.ends_s[place] = self.world.now
        self._look()

    def note_work(self, assignment: Assignment, client: int, since_s: float, completed: bool | None) -> None:
        """Writes what a client has worked."""
        record = computation(assignment.request.number, client, since_s, self.world.now, completed)
        self.records.append(((since_s, self.place[client], 0, 0), record))

    # -- messages ------------------------------------------------------------------------------------

    def _ask(self, i: int) -> None:
        """The request for a message has reached its sender, who may have died."""
        place = int(self.plan.place[i])
        self.messages[place].append(i)
        if self.has_update[place]:
            self._send(i)

    def answer(self, run: AgentRun, assignment: Assignment, until_s: float | None, breaks_s: float | None) -> Any:
        """Sends the update to all who wait for it and have not acknowledged it, and waits for the last of them."""
        place, now_s = self.place[run.client], self.world.now
        self.has_update[place] = True
        waiting = [i for i in self.messages[place] if self.acknowledged_s[i] > now_s]
        for i in waiting:
            is_there = self._send(i, breaks_s)
            if until_s is not None and is_there:
                self._acknowledge(i, self.arrives_s[i])
        if until_s is None:
            return None
        heard_s = max((self.acknowledged_s[i] for i in waiting), default=now_s)
        return run.until(min(heard_s, until_s), float(heard_s <= until_s))

    def _send(self, i: int, breaks_s: float | None = None) -> bool:
        """Sends a message now; whether it will arrive."""
        plan, now_s = self.plan, self.world.now
        place, attempt, size = int(plan.place[i]), self.attempts[i], int(plan.size_bytes[plan.place[i]])
        self.attempts[i] += 1
        sender, receiver = int(plan.clients[place]), int(plan.receiver[i])
        delay_s = self._delay_s(sender, receiver, size, f"/attempt/{attempt}") if attempt else float(plan.delays_s[i])
        is_lost, arrives_s = breaks_s is not None and delay_s > breaks_s, now_s + delay_s
        self.bytes_sent += size
        record = message(plan.kind(place), sender, receiver, size, now_s, arrives_s, is_lost)
        self.records.append(((now_s, place, 1, i), record))
        if not is_lost:
            self.arrives_s[i] = min(self.arrives_s[i], arrives_s)
            self.world.at(arrives_s, self._arrive, i, ARRIVALS)
        return not is_lost

    def _acknowledge(self, i: int, arrives_s: float) -> None:
        plan, place = self.plan, int(self.plan.place[i])
        sender, receiver = int(plan.clients[place]), int(plan.receiver[i])
        purpose = f"/acknowledgement/{self.attempts[i] - 1}"
        heard_s = arrives_s + self._delay_s(receiver, sender, 0, purpose)
        self.acknowledged_s[i] = min(self.acknowledged_s[i], heard_s)
        record = message("acknowledgement", receiver, sender, 0, arrives_s, heard_s)
        self.records.append(((arrives_s, place, 2, i), record))

    def _delay_s(self, sender: int, receiver: int, size_bytes: int, purpose: str) -> float:
        ends = np.array([sender], dtype=np.int32), np.array([receiver], dtype=np.int32)
        size, now_s = np.array([size_bytes]), np.array([self.world.now])
        return float(peer_delays_s(self.parts, self.plan.number, *ends, size, now_s, purpose)[0][0])

    def _arrive(self, i: int) -> None:
        """A message arrives; one that comes again counts nowhere."""
        self.missing.discard(i)
        self._look()

    def _on_stall(self) -> None:
        """
        Raises:
            AgentError: an agent waits for what cannot come.
        """
        for run in self.runs.values():
            raise run.error("waits for what cannot come")


def peer_delays_s(
    parts: Components[Any],
    t: int,
    source: NDArray[np.int32],
    to: NDArray[np.int32],
    size: Integers,
    begins_s: Floats,
    stream: str,
) -> tuple[Floats, float]:
    """Seconds of messages from client to client, (n,), 0 to oneself; and when the last of them has left the link that
    they share; the world's beginning where there is none.
    """
    n, links = parts.clients, parts.links
    where = Address(t, source.astype(np.int64) * n + to, n * n)
    delays, free_s = checked_delays_s(links.between_s(source, to, size, where, stream), len(to), links), 0.0
    if (flows := None if parts.sharing is None else parts.sharing.peer_flows(source, to, size)) is not None:
        waits = flows.waits_s(begins_s)
        delays, free_s = delays + waits, float((begins_s + flows.alone_s + waits).max(initial=0.0))
    return delays, free_s
