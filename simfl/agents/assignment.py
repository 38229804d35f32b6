"""A request to a client with an agent, and what becomes of it."""

from math import inf
from typing import TYPE_CHECKING, Any

from simfl.agents.trips import AT_WORK, Trip
from simfl.clients.client_agents import Request
from simfl.core.types import JobId

if TYPE_CHECKING:
    from simfl.agents.agent_nodes import AgentNodes


class Assignment:
    """A request to a client with an agent of its own, and its answers.

    Args:
        trip: for which the server waits.
        request: what the agent sees of it.
        work_s, reply_s: seconds of the work, and of the first answer's way.
        lives: False if the client dies in the work.
        size_bytes: of the answer.
        loss: what of the first way is lost.
        serial: orders its arrivals.

    Attributes:
        trip: None once the server does not wait any more.
        left_s: of the work, seconds.
        done: whether the work is.
        attempts: answers that were sent.
        sent_s: when the first was, simulated seconds.
        worked_s: seconds of work until the last pause, or end.
    """

    __slots__ = (
        "trip", "request", "work_s", "reply_s", "lives", "size_bytes", "loss", "serial", "left_s", "done", "attempts",
        "sent_s", "worked_s",
    )  # fmt: skip

    def __init__(
        self,
        trip: "Trip | None",
        request: Request,
        work_s: float,
        reply_s: float,
        lives: bool,
        size_bytes: int,
        loss: int,
        serial: int,
    ) -> None:
        self.trip, self.request, self.work_s, self.reply_s, self.lives = trip, request, work_s, reply_s, lives
        self.size_bytes, self.loss, self.serial = size_bytes, loss, serial
        self.left_s, self.done, self.attempts, self.sent_s = work_s, False, 0, inf
        self.worked_s = 0.0


# -- Answers of clients with agents of their own, each time that one is sent -----------------------------------

REPLY = ("assignment", "attempt", "serial", "stage", "sent_s", "reply_s", "arrives_s", "is_lost", "acknowledged",
         "breaks_s", "heard_s")  # fmt: skip
"""Columns of a stored reply; its assignment by place."""


class Reply(Trip):
    """An answer on its way: a trip that is only the way back.

    Attributes:
        nodes: of its sender.
        of: the assignment that it answers.
        attempt: the answers to it that were sent before.
        sent_s: when it was, simulated seconds.
        is_lost: on its way.
        acknowledged: whether the server says that it has arrived.
        breaks_s: simulated time at which its connection breaks.
        heard_s: when its acknowledgement arrives, simulated seconds, infinite = not as far as is known.
        event: of the agent that waits for that.
    """

    __slots__ = ("nodes", "of", "attempt", "sent_s", "is_lost", "acknowledged", "breaks_s", "heard_s", "event")

    def __init__(
        self, nodes: "AgentNodes", of: Assignment, attempt: int, serial: int, sent_s: float, reply_s: float,
        is_lost: bool, acknowledged: bool, breaks_s: float, heard_s: float = inf,
    ) -> None:  # fmt: skip
        super().__init__(0.0, 0.0, reply_s, True, 0, of.size_bytes, 0)
        self.nodes, self.of, self.attempt, self.serial, self.sent_s = nodes, of, attempt, serial, sent_s
        self.is_lost, self.acknowledged, self.breaks_s, self.heard_s = is_lost, acknowledged, breaks_s, heard_s
        self.stage = AT_WORK
        self.event: Any = None

    @property
    def client(self) -> int:
        """Who has sent it."""
        return JobId(self.of.request.number).client

    @property
    def begins_s(self) -> float:
        """When it was sent."""
        return self.sent_s

    @property
    def number(self) -> int:
        """Of the job."""
        return self.of.request.number

    @property
    def version(self) -> int:
        """Of the model that was trained."""
        return self.of.request.round

    @property
    def is_work(self) -> bool:
        """The work was done before."""
        return False

    @property
    def shares_link(self) -> bool:
        """Whether others' messages can hold it up."""
        return bool(self.up_bytes) and self.nodes.trips.up.way(self.client) is not None

    @property
    def row(self) -> tuple[float, ...]:
        """As stored, but for its assignment."""
        way = self.stage, self.sent_s, self.reply_s, self.arrives_s
        return (self.attempt, self.serial, *way, self.is_lost, self.acknowledged, self.breaks_s, self.heard_s)

    def on_arrival(self) -> None:
        self.nodes.on_reply(self)
