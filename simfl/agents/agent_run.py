"""One run of a client's agent of its own: the process that drives it, and what it knows as its node.

A generator cannot be stored, but what it was given can: a run that goes on is stored as its requests and the times and
values with which its waits have ended, and played again with these from its beginning, without the clock and without
training. Its draws are addressed, and its memory goes back to what it was.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Sequence
from copy import deepcopy
from math import inf
from typing import Any, NamedTuple

import numpy as np

from simfl.agents.aggregation.components import Components
from simfl.agents.assignment import Assignment
from simfl.agents.generator_run import MOST_AT_AN_INSTANT, AgentError, GeneratorRun
from simfl.agents.world import DEADLINES, Process, World
from simfl.clients.client_agents import ClientAgent, Request, Update
from simfl.core.registration.packages import raised_at
from simfl.core.types import Arrays


class Nodes(ABC):
    """The clients whose agents run on one clock.

    Args:
        parts: the built scenario.
        world: the clock.

    Attributes:
        mail: the requests that wait for a client's agent.
        runs: the agents that run, by client.
        most_waits: of one run of an agent; more go on for ever.
    """

    most_waits = inf

    def __init__(self, parts: Components[Any], world: World) -> None:
        self.parts, self.world = parts, world
        self.mail: dict[int, deque[Assignment]] = {}
        self.runs: dict[int, AgentRun] = {}

    def on_idle(self, run: "AgentRun") -> None:
        """An agent waits for a request, and none is there."""
        return

    @abstractmethod
    def on_end(self, run: "AgentRun") -> None:
        """An agent has ended."""

    @abstractmethod
    def stop(self, run: "AgentRun") -> None:
        """Ends an agent in the middle."""

    @abstractmethod
    def on_death(self, assignment: Assignment) -> None:
        """A client has died in its work; the end of its connection is on its way."""

    @abstractmethod
    def answer(self, run: "AgentRun", assignment: Assignment, until_s: float | None, breaks_s: float | None) -> Any:
        """Sends an answer now; the event at which its sender has the acknowledgement, or waits no more, whose value is
        whether it has. None where nobody waits for one (``until_s`` is None), or has waited before.
        """

    @abstractmethod
    def note_work(self, assignment: Assignment, client: int, since_s: float, completed: bool | None) -> None:
        """Writes what a client has worked."""

    @staticmethod
    def check_memory(run: "AgentRun") -> None:
        """
        Raises:
            AgentError: an agent that has ended did not receive what has started it, or keeps what cannot be stored.
        """
        if not run.assignments:
            raise run.error("ends without receiving the request that has started it")
        run.check_memory()


class Wait(NamedTuple):
    """What a node's methods give.

    Attributes:
        begin: begins it, and gives its event, whose value is a number; None where its end is known already.
        value: what the agent gets for that number.
    """

    begin: Callable[[], Any]
    value: Callable[[float], Any]


class AgentRun(GeneratorRun[Wait]):
    """One run of an agent.

    Args:
        nodes: of all clients.
        client: its number.
        agent: what it does.
        memory: of the client.
        first: the number of the request that starts it.
        assignments: the requests that it has got, where it is played again.
        past: times and numbers with which its waits have ended, in the order of the waits.
        began_s: when it began, simulated seconds.

    Attributes:
        ends: times and numbers with which its waits have ended.
        is_replay: what it does has been done before.
        works_on: the assignment for which it works now, and since when.
        mail: what it waits for, if that is a request.
    """

    def __init__(
        self,
        nodes: Nodes,
        client: int,
        agent: ClientAgent,
        memory: Arrays,
        first: int,
        began_s: float,
        assignments: Sequence[Assignment] = (),
        past: Sequence[tuple[float, float]] | None = None,
    ) -> None:
        self.nodes, self.client, self.agent, self.memory = nodes, client, agent, memory
        self.memory_before, self.first, self.began_s = deepcopy(memory), first, began_s
        self.rng = nodes.parts.streams("agent", first)
        self.assignments, self.ends = list(assignments), list(past or ())
        self.is_replay, self.past = past is not None, deque(past or ())
        self.now_s, self.at_instant = began_s, 0
        self.process: Any = None
        self.works_on: tuple[Assignment, float] | None = None
        self.mail: Any = None

    # -- what the agent sees -------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Simulated time, seconds."""
        return self.now_s

    def receive(self, kind: str = "model", timeout_s: float | None = None) -> Wait:
        """See :class:`simfl.clients.client_agents.Node`."""
        if kind != "model":
            raise self.error(f"receives '{kind}', which nobody sends; a client receives 'model'")
        self._check("timeout_s", timeout_s)
        return self._make(
            lambda: self._await_mail(timeout_s),
            lambda place: None if place < 0 else self.assignments[int(place)].request,
        )

    def train(self, request: Request, at_most_s: float | None = None, anew: bool = False) -> Wait:
        """See :class:`simfl.clients.client_agents.Node`."""
        assignment = self._assignment(request)
        self._check("at_most_s", at_most_s)
        if assignment.done:
            raise self.error("trains a request twice")
        if anew:
            assignment.left_s = assignment.work_s
        seconds = assignment.left_s if at_most_s is None else min(assignment.left_s, float(at_most_s))
        return self._make(
            lambda: self._work(assignment, seconds), lambda is_done: self._end_work(assignment, seconds, is_done)
        )

    def reply(
        self, request: Request, update: Update, timeout_s: float | None = None, breaks_s: float | None = None
    ) -> Wait:
        """See :class:`simfl.clients.client_agents.Node`."""
        assignment = self._assignment(request)
        self._check("timeout_s", timeout_s)
        self._check("breaks_s", breaks_s)
        if not (assignment.done and isinstance(update, Update) and update.request is assignment.request):
            raise self.error("replies with what is not the update of that request; train gives that")
        return self._make(
            lambda: self._send(assignment, timeout_s, breaks_s), lambda code: None if code < 0 else code > 0
        )

    def evaluate(self, request: Request) -> Wait:
        """See :class:`simfl.clients.client_agents.Node`."""
        if not (self.agent.reads_data and self.nodes.parts.agents.reads_data):  # certificates ask the latter
            raise self.error("evaluates a model, and it or the agent that the scenario names does not say so; set "
                             "reads_data = True")  # fmt: skip
        if not self._assignment(request).done:
            raise self.error("evaluates the model of a request before its work is done; train it first")
        return self._make(lambda: self._evaluate(request.round), lambda loss: loss)

    def meets(self, request: Request, clients: Sequence[range], within: str = "unit") -> Wait:
        """See :class:`simfl.clients.client_agents.Node`."""
        assignment = self._assignment(request)
        return self._make(lambda: self._meet(assignment, clients, within), int)

    def sleep(self, seconds: float) -> Wait:
        """See :class:`simfl.clients.client_agents.Node`."""
        self._check("seconds", seconds)
        return self._make(lambda: self.until(self.now_s + float(seconds), 0.0), lambda _: None)

    def _make(self, begin: Callable[[], Any], value: Callable[[float], Any]) -> Wait:
        return self.give(Wait(begin, value))

    def _assignment(self, request: object) -> Assignment:
        for assignment in self.assignments:
            if assignment.request is request:
                return assignment
        self.refuse_pending()
        raise self.error("works on what is none of its requests; receive gives these")

    def _check(self, name: str, seconds: object) -> None:
        if seconds is not None or name == "seconds":
            self.check_seconds(name, seconds)

    def error(self, what: str) -> AgentError:
        """The line that says what the agent has done."""
        return AgentError(f"client/{self.client} at {self.now_s:.6g} s: agent '{self.agent.name}' {what}")

    # -- its process ---------------------------------------------------------------------------------

    def live(self) -> Process[None]:
        """Drives the agent: with what it was given before, then on the clock."""
        agent = self.agent.run(self)
        try:
            wait = self.next_wait(agent, None)
            while wait is not None:
                event = wait.begin()
                if self.past:
                    self.now_s, number = self.past.popleft()
                else:
                    self.is_replay = False
                    number = yield event
                    self._go_on()
                    self.ends.append((self.now_s, number))
                wait = self.next_wait(agent, wait.value(number))
        finally:
            self._close(agent)
        self.is_replay = False
        self.nodes.on_end(self)

    def _go_on(self) -> None:
        now_s = self.nodes.world.now
        self.at_instant = self.at_instant + 1 if now_s == self.now_s else 0
        self.now_s = now_s
        if self.at_instant > MOST_AT_AN_INSTANT:
            raise self.error(f"goes on {MOST_AT_AN_INSTANT} times without letting time pass")
        if len(self.ends) >= self.nodes.most_waits:
            raise self.error(f"waits {self.nodes.most_waits:g} times in a round, for whose end all wait")

    def _close(self, agent: Generator[Any, Any, Any]) -> None:
        try:
            agent.close()
        except Exception as error:
            raise self.error(f"does not end when it is stopped: {raised_at(error)}") from error

    # -- what it does --------------------------------------------------------------------------------

    def until(self, time_s: float, number: float) -> Any:
        """The event of a time, simulated seconds, with a number as its value; None where it has been waited for."""
        if self.past:
            return None
        return self.nodes.world.until(max(time_s, self.nodes.world.now), number, self.client + 1)

    def _meet(self, assignment: Assignment, clients: Sequence[range], within: str) -> Any:
        if self.past:
            return None
        return self.until(self.now_s, 0.0 if assignment.trip is None else assignment.trip.meets(clients, within))

    def _evaluate(self, version: int) -> Any:
        if self.past:
            return None
        client = np.array([self.client], dtype=np.int32)
        loss = self.nodes.parts.learner.evaluator.training_losses(version, client)[0, 0]
        return self.until(self.now_s, float(loss))

    def _await_mail(self, timeout_s: float | None) -> Any:
        if self.past:
            return None
        event = self.mail = self.nodes.world.event()
        if self.nodes.mail.get(self.client):
            self.take_mail()
            return event
        if timeout_s is not None:
            self.nodes.world.at(self.now_s + float(timeout_s), self._no_mail, event, DEADLINES)
        self.nodes.on_idle(self)
        return event

    def _no_mail(self, event: Any) -> None:
        if self.mail is event:
            self.mail = None
            event.succeed(-1.0)

    def take_mail(self) -> None:
        """The first request that waits goes to the agent, which waits for one."""
        event, self.mail = self.mail, None
        self.assignments.append(self.nodes.mail[self.client].popleft())
        event.succeed(len(self.assignments) - 1.0)

    def _work(self, assignment: Assignment, seconds: float) -> Any:
        ends_s, is_done = self.now_s + seconds, seconds == assignment.left_s
        self.works_on = assignment, self.now_s
        if is_done and not assignment.lives and not self.past:
            self.nodes.world.at(ends_s, self._die, assignment, serial=self.client + 1)
            return self.nodes.world.event()
        return self.until(ends_s, float(is_done))

    def _end_work(self, assignment: Assignment, seconds: float, is_done: float) -> Update | None:
        self.rest(True)
        assignment.worked_s += seconds
        assignment.left_s -= seconds
        assignment.done = is_done > 0
        return Update(assignment.request) if assignment.done else None

    def rest(self, completed: bool | None, dies: bool = False) -> None:
        """It works no more. What is stopped at the instant at which it began is not written, unless the client dies."""
        if self.works_on is not None:
            (assignment, since_s), self.works_on = self.works_on, None
            if not completed:
                assignment.worked_s += self.nodes.world.now - since_s
            took_time = since_s < self.nodes.world.now
            if not self.is_replay and (completed or dies or took_time):
                self.nodes.note_work(assignment, self.client, since_s, completed)

    def _die(self, assignment: Assignment) -> None:
        if self.process.is_alive and self.works_on is not None and self.works_on[0] is assignment:
            self.rest(False, dies=True)
            self.nodes.stop(self)
            self.nodes.on_death(assignment)

    def _send(self, assignment: Assignment, timeout_s: float | None, breaks_s: float | None) -> Any:
        until_s = None if timeout_s is None else self.now_s + float(timeout_s)
        event = self.nodes.answer(self, assignment, until_s, breaks_s)
        return self.until(self.now_s, -1.0) if until_s is None else event
