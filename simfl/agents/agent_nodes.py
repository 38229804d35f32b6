"""The clients that have agents of their own: mailboxes, what their messages become, and their state.

All of a message is known when it is sent, for these clients share no links: when it arrives, whether it is lost, and
when its acknowledgement arrives. The first answer of a request takes what was drawn for a usual trip; each further one,
and acknowledgements, have draws of their own.
"""

from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import numpy as np

from simfl.agents.agent_run import AgentRun, Nodes
from simfl.agents.aggregation.accounts import RoundAccounts
from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.exchange import ANSWER, REQUEST, computation, message
from simfl.agents.assignment import Assignment
from simfl.agents.trips import ARRIVES, OVER, Trip, Trips
from simfl.agents.world import ARRIVALS
from simfl.clients.client_agents import ClientAgent, Request, Standard
from simfl.core.rng import Address
from simfl.core.types import SERVER, Arrays, JobId, prefix_arrays, under

ASSIGNMENT = ("round", "received_s", "waits_until_s", "work_s", "reply_s", "lives", "size_bytes", "loss", "serial")
"""Columns of a stored assignment, besides the number of its request."""


class AgentNodes(Nodes):
    """All clients with agents of their own.

    Args:
        parts: the built scenario.
        trips: to which the requests belong.
        accounts: what is counted for the next round.

    Attributes:
        memory: of clients, by client.
    """

    def __init__(self, parts: Components[Any], trips: Trips, accounts: RoundAccounts) -> None:
        super().__init__(parts, trips.world)
        self.trips, self.accounts = trips, accounts
        self.agent_of: Callable[[int], ClientAgent] = parts.agents.client.of_each(parts.clients, parts.streams)
        self.memory: dict[int, Arrays] = {}
        self.ended: list[AgentRun] = []  # of which an answer may be on its way
        self.dead: dict[int, Trip] = {}  # whose client has died, of which the server may not have heard
        self.acknowledgements: dict[int, tuple[float, ...]] = {}  # that will be sent
        self.world.on_stall = self._on_stall

    def has_own(self, client: int) -> bool:
        """Whether a client has an agent of its own."""
        return type(self.agent_of(client)).run is not Standard.run

    # -- requests ------------------------------------------------------------------------------------

    def on_depart(self, trip: Trip) -> None:
        """A model goes out."""
        received_s = trip.begins_s + trip.download_s
        is_lost = trip.loss == REQUEST
        self.accounts.write(message("model", SERVER, trip.client, trip.down_bytes, trip.begins_s, received_s, is_lost))

    def receive(self, trip: Trip) -> None:
        """A model has reached its client."""
        client, now_s, deadline_s = trip.client, self.world.now, trip.deadline_s
        until_s = None if deadline_s is None else trip.begins_s + deadline_s
        request = Request("server", trip.version, trip.number, now_s, until_s)
        about = trip.compute_s, trip.reply_s, trip.lives, trip.up_bytes, trip.loss, trip.serial
        assignment = trip.assignment = Assignment(trip, request, *about)
        self.mail.setdefault(client, deque()).append(assignment)
        run = self.runs.get(client)
        if run is None:
            self._start(client)
        elif run.mail is not None:
            run.take_mail()

    def _start(self, client: int) -> None:
        memory, first = self.memory.setdefault(client, {}), self.mail[client][0].request.number
        run = self.runs[client] = AgentRun(self, client, self.agent_of(client), memory, first, self.world.now)
        run.process = self.world.spawn(run.live())

    def on_end(self, run: AgentRun) -> None:
        """An agent has ended; it begins again if a request waits."""
        self.check_memory(run)
        for assignment in run.assignments:
            if assignment.trip is not None and not assignment.attempts and assignment.request.waits_until_s is None:
                why = "ends without an answer, and no deadline says how long the server waits; give training.deadline_s"
                raise run.error(why)
        del self.runs[run.client]
        run.has_ended = True
        self._keep(run)
        if self.mail[run.client]:
            self._start(run.client)

    def _keep(self, run: AgentRun) -> None:
        self.ended = [
            each for each in (*self.ended, run) if any(assignment.trip is not None for assignment in each.assignments)
        ]

    def stop(self, run: AgentRun) -> None:
        """Ends an agent in the middle. No request waits then: a server asks a client for one update at a time."""
        self.world.stop(run.process)
        del self.runs[run.client]
        run.has_ended = True
        self._keep(run)

    def cancel(self, assignment: Assignment, open_end: bool = False) -> None:
        """The server no longer waits for an answer: what the client does for it ends; ``open_end``: for the run has."""
        if assignment.trip is None:
            return
        client, assignment.trip = assignment.trip.client, None
        run = self.runs.get(client)
        if assignment in self.mail.get(client, ()):
            self.mail[client].remove(assignment)
        elif run is not None and run.assignments and run.assignments[-1] is assignment:
            run.rest(None if open_end else False)
            self.stop(run)

    def on_death(self, assignment: Assignment) -> None:
        """A client has died in its work; the end of its connection is on its way."""
        trip, assignment.trip = assignment.trip, None
        if trip is None:
            return
        trip.assignment = None
        self.dead = {number: each for number, each in self.dead.items() if each.stage == ARRIVES} | {trip.number: trip}
        received_s = trip.begins_s + trip.download_s
        trip.compute_s = self.world.now - received_s
        self.trips.send(trip, received_s + trip.compute_s)
        is_lost = trip.loss == ANSWER
        self.accounts.write(
            message("failure", trip.client, SERVER, trip.up_bytes, self.world.now, trip.arrives_s, is_lost)
        )

    # -- answers -------------------------------------------------------------------------------------

    def send(self, run: AgentRun, assignment: Assignment, acknowledged: bool, breaks_s: float | None) -> float:
        """Sends an answer now; when its acknowledgement arrives, simulated seconds, infinite = never."""
        attempt, assignment.attempts = assignment.attempts, assignment.attempts + 1
        up_s, is_lost = self._way(assignment, run.client, attempt)
        is_lost |= breaks_s is not None and up_s > breaks_s
        sent_s, arrives_s = run.now_s, run.now_s + up_s
        assignment.sent_s = min(assignment.sent_s, sent_s)
        if not run.is_replay:
            self.accounts.costs.bytes_sent_up += assignment.size_bytes
            self.accounts.write(
                message("update", run.client, SERVER, assignment.size_bytes, sent_s, arrives_s, bool(is_lost))
            )
        if is_lost:
            return inf
        if assignment.trip is not None and arrives_s >= self.world.now:
            self.world.at(arrives_s, self._arrive, assignment, ARRIVALS, assignment.serial)
        return self._acknowledge(run, arrives_s, attempt, assignment) if acknowledged else inf

    def _way(self, assignment: Assignment, client: int, attempt: int) -> tuple[float, bool]:
        """Seconds of an answer's way, and whether it is lost."""
        if not attempt:
            return assignment.reply_s, assignment.loss == ANSWER
        clients, where, purpose = self._address(assignment, client, f"/attempt/{attempt}")
        up_s = float(self.parts.links.up_s(clients, assignment.size_bytes, where, purpose)[0])
        return up_s, bool(self.parts.are_lost(f"up{purpose}", where)[0])

    def _acknowledge(self, run: AgentRun, arrives_s: float, attempt: int, assignment: Assignment) -> float:
        clients, where, purpose = self._address(assignment, run.client, f"/acknowledgement/{attempt}")
        heard_s = arrives_s + float(self.parts.links.down_s(clients, 0, where, purpose)[0])
        is_lost = bool(self.parts.are_lost(f"down{purpose}", where)[0])
        if not run.is_replay and self.accounts.log is not None:
            self._expect((arrives_s, run.client, heard_s, is_lost))
        return inf if is_lost else heard_s

    def _address(self, assignment: Assignment, client: int, purpose: str) -> tuple[Any, Address, str]:
        """Where what is drawn for one message lies, which nobody else draws."""
        where = Address(JobId(assignment.request.number).selection, np.zeros(1, dtype=np.int64), 1)
        return np.array([client], dtype=np.int32), where, f"{purpose}/{client}"

    def _expect(self, acknowledgement: tuple[float, ...]) -> None:
        place = max(self.acknowledgements, default=0) + 1
        self.acknowledgements[place] = acknowledgement
        self.world.at(acknowledgement[0], self._note_acknowledgement, place, serial=int(acknowledgement[1]) + 1)

    def _note_acknowledgement(self, place: int) -> None:
        sent_s, client, heard_s, is_lost = self.acknowledgements.pop(place)
        self.accounts.write(message("acknowledgement", SERVER, int(client), 0, sent_s, heard_s, bool(is_lost)))

    def _arrive(self, assignment: Assignment) -> None:
        """An answer arrives; the first of a request counts."""
        trip, assignment.trip = assignment.trip, None
        if trip is not None:
            now_s = self.world.now
            trip.compute_s, trip.reply_s = assignment.sent_s - assignment.request.received_s, now_s - assignment.sent_s
            trip.arrives_s, trip.loss = now_s, 0
            trip.stage = OVER
            trip.on_arrival()

    def note_work(self, assignment: Assignment, client: int, since_s: float, completed: bool | None) -> None:
        """Writes what a client has worked."""
        self.accounts.write(computation(assignment.request.number, client, since_s, self.world.now, completed))

    def _on_stall(self) -> None:
        """
        Raises:
            AgentError: agents wait for what cannot come.
        """
        for run in self.runs.values():
            raise run.error("waits for what cannot come, and the server waits for its answer; give training.deadline_s")

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """All that goes on, as named arrays."""
        ended = [run for run in self.ended if any(assignment.trip is not None for assignment in run.assignments)]
        runs = [*self.runs.values(), *ended]
        letters = [assignment for waiting in self.mail.values() for assignment in waiting]
        assignments = [*(assignment for run in runs for assignment in run.assignments), *letters]
        ends = [pair for run in runs for pair in run.ends]
        state = {
            "runs": np.array([(run.client, not run.has_ended, run.first, len(run.assignments), len(run.ends))
                              for run in runs], dtype=np.int64).reshape(-1, 5),
            "began_s": np.array([run.began_s for run in runs], dtype=np.float64),
            "ends": np.array(ends, dtype=np.float64).reshape(-1, 2),
            "numbers": np.array([assignment.request.number for assignment in assignments], dtype=np.int64),
            "assignments": np.array(list(map(_row, assignments)), dtype=np.float64).reshape(-1, len(ASSIGNMENT)),
            "dead": np.array([number for number, trip in self.dead.items() if trip.stage == ARRIVES], dtype=np.int64),
            "acknowledgements": np.array(list(self.acknowledgements.values()), dtype=np.float64).reshape(-1, 4),
        }  # fmt: skip
        for client in sorted(self.memory.keys() - self.runs.keys()):
            state |= prefix_arrays(f"memory{client}", self.memory[client])
        for place, run in enumerate(runs):
            state |= prefix_arrays(f"before{place}", run.memory_before)
        return state

    def restore(self, state: Arrays, trips: Mapping[int, Trip]) -> None:
        """Goes back to a :meth:`state`; ``trips`` are those for which the server waits, by number."""
        rows = zip(state["numbers"].tolist(), state["assignments"].tolist(), strict=True)
        assignments = iter([_assignment(number, row, trips.get(number)) for number, row in rows])
        ends = iter([(time_s, number) for time_s, number in state["ends"].tolist()])
        names = {name.partition("/")[0] for name in state if name.startswith("memory")}
        self.memory = {int(name.removeprefix("memory")): under(name, state) for name in names}
        self.dead = {number: trips[number] for number in state["dead"].tolist()}
        for place, (client, goes_on, first, talk_count, given_count) in enumerate(state["runs"].tolist()):
            mine, past = [next(assignments) for _ in range(talk_count)], [next(ends) for _ in range(given_count)]
            before = under(f"before{place}", state)
            began_s = state["began_s"].tolist()[place]
            run = AgentRun(self, client, self.agent_of(client), before, first, began_s, mine, past, not goes_on)
            self.mail.setdefault(client, deque())
            run.process = self.world.spawn(run.live())
            if goes_on:
                self.memory[client], self.runs[client] = run.memory, run
            else:
                self.ended.append(run)
        for assignment in assignments:
            self.mail.setdefault(JobId(assignment.request.number).client, deque()).append(assignment)
        for each in state["acknowledgements"].tolist():
            self._expect(tuple(each))


def _row(assignment: Assignment) -> tuple[float, ...]:
    request, until_s = assignment.request, assignment.request.waits_until_s
    about = (
        request.round,
        request.received_s,
        inf if until_s is None else until_s,
        assignment.work_s,
        assignment.reply_s,
    )
    return (*about, assignment.lives, assignment.size_bytes, assignment.loss, assignment.serial)


def _assignment(number: int, row: list[float], trip: Trip | None) -> Assignment:
    round, received_s, until_s, work_s, reply_s, lives, size_bytes, loss, serial = row
    request = Request("server", int(round), number, received_s, None if until_s == inf else until_s)
    assignment = Assignment(trip, request, work_s, reply_s, bool(lives), int(size_bytes), int(loss), int(serial))
    if trip is not None:
        trip.assignment = assignment
    return assignment
