"""The clients that have agents of their own: mailboxes, what their messages become, and their state.

The first answer of a request takes what was drawn for a usual trip; each further one, and acknowledgements, have draws
of their own. Where links are shared, answers are on them with all others' messages until they end, also those that are
lost on their way, and leave them when the server waits for none any more.
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
from simfl.agents.assignment import REPLY, Assignment, Reply
from simfl.agents.trips import ARRIVES, AT_WORK, ON_LINK_UP, OVER, Trip, Trips
from simfl.agents.world import DEADLINES
from simfl.clients.client_agents import ClientAgent, Request, Standard
from simfl.core.rng import Address
from simfl.core.types import SERVER, Arrays, JobId, prefix_arrays, under

ASSIGNMENT = ("round", "received_s", "waits_until_s", "work_s", "reply_s", "lives", "size_bytes", "loss", "serial",
              "attempts", "sent_s", "worked_s")  # fmt: skip
"""Columns of a stored assignment, besides the number of its request."""


class AgentNodes(Nodes):
    """All clients with agents of their own.

    Args:
        parts: the built scenario.
        trips: to which the requests belong.
        accounts: what is counted for the next round.

    Attributes:
        memory: of clients, by client.
        replies: on their way, or whose sender waits for an acknowledgement, by number of the request and attempt.
    """

    def __init__(self, parts: Components[Any], trips: Trips, accounts: RoundAccounts) -> None:
        super().__init__(parts, trips.world)
        self.trips, self.accounts = trips, accounts
        self.agent_of: Callable[[int], ClientAgent] = parts.agents.client.of_each(parts.clients, parts.streams)
        self.memory: dict[int, Arrays] = {}
        self.ended: list[Assignment] = []  # whose agent has ended, for which the server may wait
        self.dead: dict[int, Trip] = {}  # whose client has died, of which the server may not have heard
        self.replies: dict[tuple[int, int], Reply] = {}
        self.world.on_stall = self._on_stall

    def has_own(self, client: int) -> bool:
        """Whether a client has an agent of its own."""
        return type(self.agent_of(client)).run is not Standard.run

    # -- requests ------------------------------------------------------------------------------------

    def note_request(self, trip: Trip) -> None:
        """Writes a model that goes out, once it is known when it arrives."""
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
        self._forget(run)
        if self.mail[run.client]:
            self._start(run.client)

    def _forget(self, run: AgentRun) -> None:
        del self.runs[run.client]
        self.ended = [each for each in (*self.ended, *run.assignments) if each.trip is not None]

    def stop(self, run: AgentRun) -> None:
        """Ends an agent in the middle. No request waits then: a server asks a client for one update at a time."""
        self.world.stop(run.process)
        self._forget(run)

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
        self._take_off_links([reply for reply in self.replies.values() if reply.of is assignment])

    def end(self) -> None:
        """The run has ended: what is on shared links is written, too."""
        self._take_off_links(list(self.replies.values()))

    def _take_off_links(self, replies: list[Reply]) -> None:
        for reply in replies:
            if reply.shares_link and reply.stage in (AT_WORK, ON_LINK_UP):
                self.trips.cancel(reply)
                self._note_reply(reply)
                self._drop_done(reply)

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

    def answer(self, run: AgentRun, assignment: Assignment, until_s: float | None, breaks_s: float | None) -> Any:
        reply = self._send(run, assignment, until_s is not None, breaks_s)
        return None if until_s is None or run.past or reply is None else self._wait_for(reply, until_s)

    def _send(self, run: AgentRun, assignment: Assignment, acknowledged: bool, breaks_s: float | None) -> Reply | None:
        """Sends an answer now; None where one that is played again has ended its way."""
        attempt, assignment.attempts = assignment.attempts, assignment.attempts + 1
        assignment.sent_s = min(assignment.sent_s, run.now_s)
        if run.is_replay:
            return self.replies.get((assignment.request.number, attempt))
        up_s, is_lost = self._way(assignment, run.client, attempt)
        serial = self.trips.next_serial() if attempt else assignment.serial
        ends_s = inf if breaks_s is None else run.now_s + breaks_s
        reply = Reply(self, assignment, attempt, serial, run.now_s, up_s, is_lost, acknowledged, ends_s)
        self.replies[reply.number, attempt] = reply
        self.accounts.costs.bytes_sent_up += assignment.size_bytes
        self.trips.send(reply, reply.sent_s)
        if reply.shares_link:
            self._break_later(reply)
        else:
            reply.is_lost |= breaks_s is not None and up_s > breaks_s
            self._note_reply(reply)
        return reply

    def _break_later(self, reply: Reply) -> None:
        if reply.breaks_s < inf:
            self.world.at(reply.breaks_s, self._break, reply, DEADLINES)

    def _break(self, reply: Reply) -> None:
        if reply.stage in (AT_WORK, ON_LINK_UP):
            reply.is_lost = True
            self._take_off_links([reply])

    def _note_reply(self, reply: Reply) -> None:
        about = reply.up_bytes, reply.sent_s, reply.arrives_s, reply.is_lost
        self.accounts.write(message("update", reply.client, SERVER, *about))

    def _way(self, assignment: Assignment, client: int, attempt: int) -> tuple[float, bool]:
        """Seconds of an answer's way, and whether it is lost."""
        if not attempt:
            return assignment.reply_s, assignment.loss == ANSWER
        clients, where, purpose = self._address(assignment, client, f"/attempt/{attempt}")
        up_s = float(self.parts.links.up_s(clients, assignment.size_bytes, where, purpose)[0])
        return up_s, bool(self.parts.are_lost(f"up{purpose}", where)[0])

    def _address(self, assignment: Assignment, client: int, purpose: str) -> tuple[Any, Address, str]:
        """Where what is drawn for one message lies, which nobody else draws."""
        where = Address(JobId(assignment.request.number).selection, np.zeros(1, dtype=np.int64), 1)
        return np.array([client], dtype=np.int32), where, f"{purpose}/{client}"

    def on_reply(self, reply: Reply) -> None:
        """An answer has ended its way; the first of a request that is not lost counts."""
        if reply.shares_link:
            self._note_reply(reply)
        if reply.acknowledged and not reply.is_lost:
            self._acknowledge(reply)
        self._drop_done(reply)
        if not reply.is_lost:
            self._arrive(reply.of)

    def _acknowledge(self, reply: Reply) -> None:
        now_s = self.world.now
        clients, where, purpose = self._address(reply.of, reply.client, f"/acknowledgement/{reply.attempt}")
        heard_s = now_s + float(self.parts.links.down_s(clients, 0, where, purpose)[0])
        is_lost = bool(self.parts.are_lost(f"down{purpose}", where)[0])
        self.accounts.write(message("acknowledgement", SERVER, reply.client, 0, now_s, heard_s, is_lost))
        if not is_lost:
            reply.heard_s = heard_s
            self._hear_later(reply)

    def _wait_for(self, reply: Reply, until_s: float) -> Any:
        """The event at which its sender has the acknowledgement, or waits no more; its value is whether it has."""
        reply.event = self.world.event()
        self.world.at(until_s, self._end_wait, (reply, 0.0), DEADLINES, reply.client + 1)
        self._hear_later(reply)
        return reply.event

    def _hear_later(self, reply: Reply) -> None:
        if reply.event is not None and reply.heard_s < inf:
            self.world.at(reply.heard_s, self._end_wait, (reply, 1.0), serial=reply.client + 1)

    def _end_wait(self, about: tuple[Reply, float]) -> None:
        reply, value = about
        if not reply.event.triggered:
            reply.event.succeed(value)
            self._drop_done(reply)

    def _drop_done(self, reply: Reply) -> None:
        """A reply whose way has ended, and for which nobody waits, is forgotten."""
        if reply.stage == OVER and (reply.event is None or reply.event.triggered):
            del self.replies[reply.number, reply.attempt]

    def _arrive(self, assignment: Assignment) -> None:
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
        runs = list(self.runs.values())
        letters = [assignment for waiting in self.mail.values() for assignment in waiting]
        of_runs = [assignment for run in runs for assignment in run.assignments]
        ended = [*(each for each in self.ended if each.trip is not None), *(each.of for each in self.replies.values())]
        mine = set(map(id, of_runs))
        others = list({id(each): each for each in ended if id(each) not in mine}.values())
        assignments = [*of_runs, *others, *letters]
        places = {id(assignment): place for place, assignment in enumerate(assignments)}
        ends = [pair for run in runs for pair in run.ends]
        replies = [(places[id(each.of)], *each.row) for each in self.replies.values()]
        state = {
            "runs": np.array([(run.client, run.first, len(run.assignments), len(run.ends))
                              for run in runs], dtype=np.int64).reshape(-1, 4),
            "serial": np.int64(self.trips.serial),
            "began_s": np.array([run.began_s for run in runs], dtype=np.float64),
            "ends": np.array(ends, dtype=np.float64).reshape(-1, 2),
            "others": np.int64(len(others)),
            "numbers": np.array([assignment.request.number for assignment in assignments], dtype=np.int64),
            "assignments": np.array(list(map(_row, assignments)), dtype=np.float64).reshape(-1, len(ASSIGNMENT)),
            "dead": np.array([number for number, trip in self.dead.items() if trip.stage == ARRIVES], dtype=np.int64),
            "replies": np.array(replies, dtype=np.float64).reshape(-1, len(REPLY)),
        }  # fmt: skip
        for client in sorted(self.memory.keys() - self.runs.keys()):
            state |= prefix_arrays(f"memory{client}", self.memory[client])
        for place, run in enumerate(runs):
            state |= prefix_arrays(f"before{place}", run.memory_before)
        return state

    def restore(self, state: Arrays, trips: Mapping[int, Trip]) -> None:
        """Goes back to a :meth:`state`; ``trips`` are those for which the server waits, by number."""
        rows = zip(state["numbers"].tolist(), state["assignments"].tolist(), strict=True)
        whole = [_assignment(number, row, trips.get(number)) for number, row in rows]
        assignments = iter(whole)
        ends = iter([(time_s, number) for time_s, number in state["ends"].tolist()])
        names = {name.partition("/")[0] for name in state if name.startswith("memory")}
        self.memory = {int(name.removeprefix("memory")): under(name, state) for name in names}
        self.dead = {number: trips[number] for number in state["dead"].tolist()}
        self.trips.serial = int(state["serial"])
        for place, (client, first, talk_count, given_count) in enumerate(state["runs"].tolist()):
            mine, past = [next(assignments) for _ in range(talk_count)], [next(ends) for _ in range(given_count)]
            for each in mine:  # what it has done is done again
                each.attempts, each.sent_s, each.worked_s = 0, inf, 0.0
            before = under(f"before{place}", state)
            began_s = state["began_s"].tolist()[place]
            run = AgentRun(self, client, self.agent_of(client), before, first, began_s, mine, past)
            self.mail.setdefault(client, deque())
            run.process = self.world.spawn(run.live())
            self.memory[client], self.runs[client] = run.memory, run
        self.ended = [next(assignments) for _ in range(int(state["others"]))]
        for assignment in assignments:
            self.mail.setdefault(JobId(assignment.request.number).client, deque()).append(assignment)
        for row in state["replies"].tolist():
            self._restore_reply(row, whole)

    def _restore_reply(self, row: list[float], assignments: list[Assignment]) -> None:
        place, attempt, serial, stage, sent_s, reply_s, arrives_s, is_lost, acknowledged, breaks_s, heard_s = row
        of, about = assignments[int(place)], (bool(is_lost), bool(acknowledged), breaks_s, heard_s)
        reply = Reply(self, of, int(attempt), int(serial), sent_s, reply_s, *about)
        reply.stage, reply.arrives_s = int(stage), arrives_s
        self.replies[reply.number, reply.attempt] = reply
        self.trips.go_on(reply)
        if reply.stage in (AT_WORK, ON_LINK_UP):
            self._break_later(reply)


def _row(assignment: Assignment) -> tuple[float, ...]:
    request, until_s = assignment.request, assignment.request.waits_until_s
    about = (
        request.round,
        request.received_s,
        inf if until_s is None else until_s,
        assignment.work_s,
        assignment.reply_s,
    )
    done = assignment.attempts, assignment.sent_s, assignment.worked_s
    return (*about, assignment.lives, assignment.size_bytes, assignment.loss, assignment.serial, *done)


def _assignment(number: int, row: list[float], trip: Trip | None) -> Assignment:
    round, received_s, until_s, work_s, reply_s, lives, size_bytes, loss, serial, attempts, sent_s, worked_s = row
    request = Request("server", int(round), number, received_s, None if until_s == inf else until_s)
    assignment = Assignment(trip, request, work_s, reply_s, bool(lives), int(size_bytes), int(loss), int(serial))
    assignment.attempts, assignment.sent_s, assignment.worked_s = int(attempts), sent_s, worked_s
    if trip is not None:
        trip.assignment = assignment
    return assignment
