"""Requests and answers on the server's own link, on the clock: they arrive later while others share it.

Where nothing is shared, a job's whole trip is known when it departs. Here a request is on the link down until that says
that it has ended; the work, and the way of what a message is not on the link for, take what was drawn; the answer is on
the link up from then on. Who dies in its work sends no bytes. Who is cancelled leaves the link at once.

At one instant the link down ends first what ends on it, then answers enter the link up, then that ends what ends on it,
then what has arrived is told, in the order in which the trips began. So a resumed run meets all events in the order of
an undisturbed one. State are the two links and how far each trip is.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection
from math import inf
from typing import Any

import numpy as np

from simfl.agents.aggregation.state import Arrays
from simfl.agents.world import World
from simfl.network.fair_link import EqualLink, FairLink, UnequalLink
from simfl.network.links import PathLinks, SharedLink

DOWN_ENDS, UP_BEGINS, UP_ENDS = -3, -2, -1
"""Phases of an instant, before those of what arrives."""

NOT_BEGUN, ON_LINK_DOWN, AT_WORK, ON_LINK_UP, ARRIVES, OVER = range(6)
"""How far a trip is. ``AT_WORK`` until its answer is on the link up; ``ARRIVES`` if nothing holds it up any more."""


class Trip(ABC):
    """A request to one client, its work, and the answer.

    Attributes:
        download_s, compute_s, reply_s: durations of request, work and answer, seconds; those of messages alone on the
            shared link, until it is known how long they really took.
        lives: False if the client dies during the computation; the answer is then the end of its connection.
        down_bytes, up_bytes: sizes of request and answer.
        arrives_s: when the answer arrives, if nothing (more) holds it up and nobody cancels it.
        serial: orders what has been set going, for answers that arrive at the same time.
        stage: how far it is, on a shared link.
    """

    __slots__ = (
        "download_s", "compute_s", "reply_s", "lives", "down_bytes", "up_bytes", "arrives_s", "serial", "stage",
    )  # fmt: skip

    def __init__(
        self, download_s: float, compute_s: float, reply_s: float, lives: bool, down_bytes: int, up_bytes: int
    ) -> None:
        self.download_s, self.compute_s, self.reply_s, self.lives = download_s, compute_s, reply_s, lives
        self.down_bytes, self.up_bytes = down_bytes, up_bytes
        self.arrives_s = 0.0
        self.serial = 0
        self.stage = NOT_BEGUN

    @property
    @abstractmethod
    def client(self) -> int:
        """Whose it is."""

    @property
    @abstractmethod
    def begins_s(self) -> float:
        """When the request left the server, simulated seconds."""

    @abstractmethod
    def on_arrival(self) -> None:
        """The answer, or the end of the connection, has arrived."""


class _Direction:
    """The link in one direction, and the time of the event that looks at it next."""

    def __init__(self, link: SharedLink, phase: int) -> None:
        share = link.equal_share
        self.link: FairLink = UnequalLink() if share is None else EqualLink(share)
        self._whole = link
        self._line_and_share = None if share is None else (float(link.s_per_byte[0]), share)
        self.phase = phase
        self.looks_s = inf

    def rates(self, client: int) -> tuple[float, float]:
        """Seconds a byte of a client's message that is alone, and the share of the link that it can take."""
        if self._line_and_share is not None:
            return self._line_and_share
        s_per_byte = float(self._whole.s_per_byte[client])
        return s_per_byte, 1 / self._whole.bytes_per_s / s_per_byte


class SharedTrips:
    """All trips under way.

    Args:
        links: of which messages share some.
        world: the clock.
    """

    def __init__(self, links: PathLinks, world: World) -> None:
        assert links.shared is not None
        self.world = world
        down, up = links.shared.down, links.shared.up
        self.down = None if down is None else _Direction(down, DOWN_ENDS)
        self.up = None if up is None else _Direction(up, UP_ENDS)

    def depart(self, trip: Trip) -> None:
        """The request leaves the server now."""
        way = self.down
        if way is None or not trip.down_bytes:
            self._on_download(trip)
            return
        trip.stage, now = ON_LINK_DOWN, self.world.now
        s_per_byte, share = way.rates(trip.client)
        way.link.add(now, trip, trip.serial, now + trip.down_bytes * s_per_byte, share)
        self._watch(way)

    def cancel(self, trip: Trip) -> None:
        """Nobody waits for it any more. Its durations become what they would at least have been."""
        stage, trip.stage = trip.stage, OVER
        way = self.down if stage == ON_LINK_DOWN else self.up
        if stage not in (ON_LINK_DOWN, ON_LINK_UP) or way is None:
            return
        wait_s = way.link.remove(self.world.now, trip.serial)
        if stage == ON_LINK_DOWN:
            trip.download_s += wait_s
        else:
            trip.reply_s += wait_s
        trip.arrives_s = trip.begins_s + trip.download_s + trip.compute_s + trip.reply_s
        self._watch(way)

    # -- what happens -------------------------------------------------------------------------------

    def _on_download(self, trip: Trip) -> None:
        """The request is on no link any more: the rest of its way and the work are known."""
        computed_s = trip.begins_s + trip.download_s + trip.compute_s
        trip.arrives_s = computed_s + trip.reply_s
        if self.up is None or not trip.up_bytes:
            self._arrives(trip)
            return
        trip.stage = AT_WORK
        begins_s = max(computed_s, trip.arrives_s - trip.up_bytes * self.up.rates(trip.client)[0])
        self.world.at(begins_s, self._answer, trip, UP_BEGINS, trip.serial)

    def _answer(self, trip: Trip) -> None:
        """The answer enters the link."""
        way = self.up
        if trip.stage != AT_WORK or way is None:
            return
        trip.stage = ON_LINK_UP
        way.link.add(self.world.now, trip, trip.serial, trip.arrives_s, way.rates(trip.client)[1])
        self._watch(way)

    def _arrives(self, trip: Trip) -> None:
        trip.stage = ARRIVES
        self.world.at(trip.arrives_s, self._on_arrival, trip, 0, trip.serial)

    def _on_arrival(self, trip: Trip) -> None:
        if trip.stage == ARRIVES:
            trip.stage = OVER
            trip.on_arrival()

    def _watch(self, way: _Direction) -> None:
        """There is an event not after the next end on this link."""
        if way.link.next_s < way.looks_s:
            way.looks_s = way.link.next_s
            self.world.at(way.looks_s, self._look, way, way.phase)

    def _look(self, way: _Direction) -> None:
        now = self.world.now
        if now != way.looks_s:
            return  # an earlier event has taken its place
        way.looks_s = inf
        ended = []
        while way.link.next_s <= now:
            ended += way.link.end()
        self._watch(way)
        for trip, wait_s in ended:
            if way is self.down:
                trip.download_s += wait_s
                self._on_download(trip)
            else:
                trip.reply_s += wait_s
                trip.arrives_s = now
                trip.stage = ARRIVES
        if way is self.up:
            self._tell([trip for trip, _ in ended])

    def _tell(self, arrived: list[Trip]) -> None:
        if len(arrived) == 1 and self.world.settled:
            self._on_arrival(arrived[0])
            return
        for trip in arrived:
            self.world.at(trip.arrives_s, self._on_arrival, trip, 0, trip.serial)

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """The links; the trips are stored by those to whom they belong."""
        return {name: way.link.state() for name, way in (("down", self.down), ("up", self.up)) if way is not None}

    def restore(self, state: Arrays, trips: Collection[Trip]) -> None:
        """Goes back to a :meth:`state`; all trips under way are set going again."""
        by_serial: dict[int, Any] = {trip.serial: trip for trip in trips}
        for name, way in (("down", self.down), ("up", self.up)):
            if way is not None:
                way.link.restore(np.asarray(state[name]), by_serial)
                self._watch(way)
        for trip in trips:
            if trip.stage == AT_WORK:
                self._on_download(trip)
            elif trip.stage == ARRIVES:
                self.world.at(trip.arrives_s, self._on_arrival, trip, 0, trip.serial)
