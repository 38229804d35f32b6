"""A request to a client with an agent, and what becomes of it."""

from math import inf
from typing import TYPE_CHECKING

from simfl.clients.client_agents import Request

if TYPE_CHECKING:
    from simfl.agents.trips import Trip


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
