"""Clients with agents of their own: one process a client, a mailbox, and how a run of an agent is taken up again.

A generator cannot be stored. What it was given can: so a run of an agent that goes on, or of whose answers one is still
on its way, is stored as the requests that it got and the times and values that its waits ended with, and played again
from its beginning with these, without the clock and without training. Its draws are addressed, and its memory goes back
to what it was.

All that becomes of a message is known when it is sent, for agents of one's own share no links: when it arrives, whether
it is lost, and when its acknowledgement arrives.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from copy import deepcopy
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simfl.agents.aggregation.accounts import RoundAccounts
from simfl.agents.aggregation.exchange import ANSWER, computation, message
from simfl.agents.world import ARRIVALS, DEADLINES, Process
from simfl.clients.client_agents import ClientAgent, Request, Update
from simfl.core.errors import SimflError
from simfl.core.registration.packages import raised_at
from simfl.core.rng import Address
from simfl.core.types import SERVER, Arrays, prefix_arrays, under

if TYPE_CHECKING:
    from simfl.agents.aggregation.components import Components
    from simfl.agents.trips import Trip, Trips

MOST_AT_AN_INSTANT = 10_000
"""Waits of a run of an agent that end at one instant; more are a loop."""

TALK = ("number", "round", "received_s", "waits_until_s", "work_s", "reply_s", "lives", "size_bytes", "loss", "serial")
"""Columns of a stored talk."""


class AgentError(SimflError):
    """An agent of a client's did what none can do (exit 2)."""


class Talk:
    """A request to a client with an agent of its own, and its answers.

    Attributes:
        trip: for which the server waits; None = it does not any more.
        request: what the agent sees of it.
        work_s, reply_s: seconds of the work, and of the first answer's way.
        lives: False if the client dies in the work.
        size_bytes: of the answer.
        loss: what of the first way is lost.
        serial: orders its arrivals.
        left_s: of the work, seconds.
        done: whether the work is.
        attempts: answers that were sent.
        sent_s: when the first was.
    """

    __slots__ = ("trip", "request", "work_s", "reply_s", "lives", "size_bytes", "loss", "serial", "left_s", "done",
                 "attempts", "sent_s")  # fmt: skip

    def __init__(
        self, trip: "Trip | None", request: Request, work_s: float, reply_s: float, lives: bool, size_bytes: int,
        loss: int, serial: int,
    ) -> None:  # fmt: skip
        self.trip, self.request, self.work_s, self.reply_s, self.lives = trip, request, work_s, reply_s, lives
        self.size_bytes, self.loss, self.serial = size_bytes, loss, serial
        self.left_s, self.done, self.attempts, self.sent_s = work_s, False, 0, inf

    def row(self) -> tuple[float, ...]:
        """As :data:`TALK`."""
        each, until = self.request, self.request.waits_until_s
        return (each.number, each.round, each.received_s, inf if until is None else until, self.work_s, self.reply_s,
                self.lives, self.size_bytes, self.loss, self.serial)  # fmt: skip


class Wait(NamedTuple):
    """What a node's method gives.

    Attributes:
        begin: begins it and gives its event, whose value is a code, a number.
        value: of a code, for the agent.
    """

    begin: Callable[[], Any]
    value: Callable[[float], Any]


class AgentRun:
    """One run of a client's agent, from a request to its end; what the agent knows as its node.

    Args:
        nodes: of all clients.
        client: its number.
        agent: what it does.
        memory: of the client.
        talks: that it has got, where it is played again.
        past: times and codes of its waits that have ended.
    """

    def __init__(
        self, nodes: "AgentNodes", client: int, agent: ClientAgent, memory: Arrays, first: Talk,
        past: tuple[tuple[float, float], ...] = (),
    ) -> None:  # fmt: skip
        self.nodes, self.client, self.agent, self.memory = nodes, client, agent, memory
        self.memory_before = deepcopy(memory)
        self.rng = nodes.parts.streams("agent", first.request.number)
        self.talks: list[Talk] = []
        self.given: list[tuple[float, float]] = []
        self.past, self.now_s = deque(past), past[0][0] if past else nodes.world.now
        self.process: Any = None
        self.made: Wait | None = None
        self.works_since_s = inf
        self.at_instant = 0
        self.waits_for_mail = False

    # -- what its agent sees ------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Simulated time, seconds."""
        return self.now_s

    def receive(self, kind: str = "model", timeout_s: float | None = None) -> Wait:
        """See :class:`simfl.clients.client_agents.Node`."""
        if kind != "model":
            raise self.error(f"receives '{kind}', which nobody sends; a client receives 'model'")
        self._duration("timeout_s", timeout_s)
        return self._make(lambda: self._await_mail(timeout_s), self._request_of)

    def train(self, request: Request, at_most_s: float | None = None, anew: bool = False) -> Wait:
        """See :class:`simfl.clients.client_agents.Node`."""
        talk = self._talk(request)
        self._duration("at_most_s", at_most_s)
        if talk.done:
            raise self.error("trains a request twice")
        if anew:
            talk.left_s = talk.work_s
        works_s = talk.left_s if at_most_s is None else min(talk.left_s, at_most_s)
        return self._make(lambda: self._work(talk, works_s), lambda code: self._worked(talk, works_s, code))

    def reply(
        self, request: Request, update: Update, timeout_s: float | None = None, breaks_s: float | None = None
    ) -> Wait:
        """See :class:`simfl.clients.client_agents.Node`."""
        talk = self._talk(request)
        self._duration("timeout_s", timeout_s)
        self._duration("breaks_s", breaks_s)
        if not (talk.done and isinstance(update, Update) and update.request is talk.request):
            raise self.error("replies to a request with what is not its update; train gives that")
        return self._make(
            lambda: self._send(talk, timeout_s, breaks_s), lambda code: None if code < 0 else bool(code)
        )

    def sleep(self, seconds: float) -> Wait:
        """See :class:`simfl.clients.client_agents.Node`."""
        self._duration("seconds", seconds)
        return self._make(lambda: self._until(self.now_s + seconds, 0.0), lambda code: None)

    def _make(self, begin: Callable[[], Any], value: Callable[[float], Any]) -> Wait:
        if self.made is not None:
            raise self.error("calls a method of its node and does not wait for what it gives; write yield before it")
        self.made = Wait(begin, value)
        return self.made

    def _talk(self, request: object) -> Talk:
        for talk in self.talks:
            if talk.request is request:
                return talk
        raise self.error("works on what is none of its requests; receive gives these")

    def _duration(self, name: str, seconds: object) -> None:
        if seconds is None and name != "seconds":
            return
        if not isinstance(seconds, (int, float, np.number)) or not (isfinite(seconds) and seconds >= 0):
            raise self.error(f"gives {seconds!r} as {name}, and a finite number from 0 is needed")

    def error(self, what: str) -> AgentError:
        """The line that says what the agent has done."""
        where = f"client/{self.client} at {self.now_s:.6g} s: agent '{self.agent.name}'"
        return AgentError(f"{where} {what}")

    # -- its process --------------------------------------------------------------------------------

    def live(self) -> Process[None]:
        """Drives the agent: first with what it was given before, then on the clock."""
        agent = self.agent.run(self)
        if not isinstance(agent, Generator):
            raise self.error("has a method run without yield; it must wait for what its node gives")
        try:
            wait = self._next(agent, None)
            while wait is not None:
                event, live = wait.begin(), not self.past
                time_s, code = self.past.popleft() if self.past else ((yield event), self.nodes.world.now)[::-1]
                self._count(time_s)
                self.given.append((time_s, code))
                wait = self._next(agent, wait.value(code))
                del live
        finally:
            self._close(agent)
        self._end()
