"""A client's work, from the model's departure to the reply's arrival."""

from collections.abc import Callable
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.parts import Parts
from simfl.devices.base import checked_deaths, checked_durations_s
from simfl.network.base import checked_delays_s
from simfl.rng import Address
from simfl.types import SERVER, Job
from simfl.world import Message, World

__all__ = ["Flight", "Clients", "plan"]


class Flight:
    """One job under way. Its times were drawn when it was planned; a cancelled one no longer concerns anybody.

    Attributes:
        job: what is worked on.
        download_s, compute_s, reply_s: durations of its three legs, seconds.
        lives: False if the client dies during the computation; the reply is then the end of its connection.
        size_bytes: size of the model, and of an update.
        received_s: simulated time at which the model arrived; 0 before that.
        cancelled: True once the server has stopped waiting for it.
        leg: 0 while the model travels, 1 while the client computes, 2 while the reply travels.
        leg_ends_s: simulated time at which the current leg ends.
        serial: orders the legs that end at the same time.
        unit: the unit it belongs to; asynchronous servers only, as all that follows.
        ended_s: simulated time at which it stopped occupying a slot; NaN while it does.
        heard: the model's version when its update arrived; -1 before that.
    """

    __slots__ = (
        "job", "download_s", "compute_s", "reply_s", "lives", "size_bytes", "received_s", "cancelled", "leg",
        "leg_ends_s", "serial", "unit", "ended_s", "heard",
    )  # fmt: skip

    def __init__(self, job: Job, download_s: float, compute_s: float, reply_s: float, lives: bool, size: int) -> None:
        self.job = job
        self.download_s, self.compute_s, self.reply_s, self.lives = download_s, compute_s, reply_s, lives
        self.size_bytes = size
        self.received_s = 0.0
        self.cancelled = False
        self.leg = 0
        self.leg_ends_s = 0.0
        self.serial = 0
        self.unit: Any = None
        self.ended_s = nan
        self.heard = -1


def plan(parts: Parts, tick: int, version: int, clients: NDArray[np.int32], now_s: float) -> list[Flight]:
    """Draws the whole trip of a cohort at once.

    Args:
        parts: the built scenario.
        tick: number of the selection; with the client it addresses all draws of the job and names it.
        version: the model version that is downloaded.
        clients: who works, shape (n,), distinct.
        now_s: simulated time at which the jobs start, seconds.
    """
    where = Address(tick, clients, parts.clients)
    size, samples = parts.learner.model_bytes, parts.learner.samples[clients]
    n = len(clients)
    death = checked_deaths(parts.failing.draw(clients, where), n, parts.failing)
    lives = np.isnan(death)
    compute = parts.computing.duration_s(clients, samples, parts.rule.epochs(samples), where)
    compute = checked_durations_s(compute, n, parts.computing)
    reply = checked_delays_s(parts.links.up_s(clients, size, where), n, parts.links)
    if not lives.all():
        compute = compute * np.where(lives, 1.0, death)
        reply = np.where(lives, reply, parts.links.up_s(clients, 0, where))
    download = checked_delays_s(parts.links.down_s(clients, size, where), n, parts.links)
    columns = (column.tolist() for column in (clients, download, compute, reply, lives))
    return [Flight(Job((tick << 32) | client, client, version, now_s), *legs, size) for client, *legs in zip(*columns)]


class Clients:
    """How every client reacts: a model arrives, it computes, it replies or its connection breaks.

    Args:
        world: clock and post.
        log: called with a record for every computation, or None.
    """

    def __init__(self, world: World, log: Callable[[dict[str, Any]], None] | None) -> None:
        self.world, self.log = world, log
        self.legs = 0
        world.listen(self._receive)

    def start(self, flight: Flight) -> None:
        """Sends the client on its way: the model leaves the server now."""
        self._begin(flight, 0, flight.download_s)
        self.world.send(Message("model", SERVER, flight.job.client, flight, flight.size_bytes), flight.leg_ends_s)

    def resume(self, flight: Flight) -> None:
        """Takes up a flight in the middle of a leg, after a restart; in the order of (leg_ends_s, serial)."""
        client = flight.job.client
        self.legs = max(self.legs, flight.serial + 1)
        if flight.leg == 0:
            self.world.deliver_at(Message("model", SERVER, client, flight, 0), flight.leg_ends_s)
        elif flight.leg == 1:
            self.world.at(flight.leg_ends_s, self._reply, flight)
        else:
            self.world.deliver_at(self._answer(flight), flight.leg_ends_s)

    def _receive(self, message: Message) -> None:
        flight = message.body
        if message.kind == "model" and not flight.cancelled:
            flight.received_s = self.world.now
            self._begin(flight, 1, flight.compute_s)
            self.world.at(flight.leg_ends_s, self._reply, flight)

    def _reply(self, flight: Flight) -> None:
        if flight.cancelled:
            return
        now = self.world.now
        if self.log is not None:
            self.log({"event": "compute", "job": flight.job.id, "client": flight.job.client,
                      "start_s": flight.received_s, "end_s": now, "completed": flight.lives})  # fmt: skip
        self._begin(flight, 2, flight.reply_s)
        self.world.send(self._answer(flight), flight.leg_ends_s)

    def _begin(self, flight: Flight, leg: int, duration_s: float) -> None:
        flight.leg, flight.leg_ends_s, flight.serial = leg, self.world.now + duration_s, self.legs
        self.legs += 1

    @staticmethod
    def _answer(flight: Flight) -> Message:
        kind = "update" if flight.lives else "failure"
        return Message(kind, flight.job.client, SERVER, flight, flight.size_bytes if flight.lives else 0)
