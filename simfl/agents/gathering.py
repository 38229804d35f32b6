"""A request to each of a cohort and the wait for its answers, message by message on the clock.

What :func:`simfl.agents.aggregation.exchange.exchange` computes at once happens here; requests, draws and rules are the
same. It ends when all answers that come have arrived, or the quorum, or at the deadline, or at the first failure that
is heard of where that was asked; and always after all that arrives at that instant.
"""

from collections.abc import Callable, Sequence
from math import nan, nextafter
from typing import Any

import numpy as np

from simfl.agents.aggregation.exchange import WORK, Delays, Exchange, with_waits
from simfl.agents.trips import Trip, Trips
from simfl.agents.world import PHASE_ENDS
from simfl.core.types import JobId
from simfl.secagg.sessions import PhaseRequest


class CohortTrip(Trip):
    """The trip of one client of a cohort.

    Attributes:
        responded: the answer, or the end of the connection, has arrived.
    """

    __slots__ = ("gathering", "place", "responded")

    def __init__(self, gathering: "Gathering", place: int, *durations_and_sizes: Any) -> None:
        super().__init__(*durations_and_sizes)
        self.gathering, self.place, self.responded = gathering, place, False

    @property
    def client(self) -> int:
        """Who is asked."""
        return self.gathering.clients[self.place]

    @property
    def number(self) -> int:
        """Of the client's job."""
        return JobId.of(self.gathering.number, self.client)

    @property
    def version(self) -> int:
        """Of the model: that of the round."""
        return self.gathering.number

    @property
    def is_work(self) -> bool:
        """Whether the cohort trains."""
        return self.gathering.request.kind == WORK

    @property
    def begins_s(self) -> float:
        """When the requests left."""
        return self.gathering.begins_s

    def meets(self, clients: Sequence[range], within: str) -> int:
        cohort, unit = self.gathering.clients, self.gathering.request.unit
        first = self.place // unit * unit
        others = cohort if within == "cohort" else cohort[first : first + unit]
        return sum(other != self.client and any(other in each for each in clients) for other in others)

    def on_arrival(self) -> None:
        self.responded = True
        self.gathering.on_response(self)


class Gathering:
    """The wait for a cohort.

    Args:
        trips: which move its messages.
        request: what is asked of whom.
        number: of the round.
        delays: drawn for it.
        begins_s: when the requests leave, simulated seconds.
        ended: called at the end.
        until_failure: it ends at the first failure that is heard of.

    Attributes:
        under_way: the cohort's trips.
    """

    def __init__(
        self,
        trips: Trips,
        request: PhaseRequest,
        number: int,
        delays: Delays,
        begins_s: float,
        ended: Callable[[Exchange], object],
        until_failure: bool = False,
    ) -> None:
        if not trips.share_links:  # on the clock: then the cohort has its links to itself
            delays = with_waits(delays, begins_s)
        self.trips, self.world, self.request, self.delays, self.begins_s = trips, trips.world, request, delays, begins_s
        self.number, self.ended, self.until_failure = number, ended, until_failure
        self.closing = self.closed = False
        self.clients: list[int] = request.to.tolist()
        rows = zip(*(column.tolist() for column in delays[:7]), strict=True)
        self.under_way = [CohortTrip(self, place, *row) for place, row in enumerate(rows)]

    def start(self) -> None:
        """Sends the requests."""
        for trip in self.under_way:
            trip.serial, trip.deadline_s = self.trips.next_serial(), self.request.deadline_s
        for trip in self.under_way:
            self.trips.depart(trip)
        self.wait()

    def wait(self) -> None:
        """Until it ends."""
        request = self.request
        if request.deadline_s is not None:
            self.world.at(self.begins_s + request.deadline_s, self._close, None, PHASE_ENDS)
        self.silent = sum(not trip.responded for trip in self.under_way)
        self.answer_counts = [0] * -(-len(self.under_way) // request.unit)
        self.complete = 0
        for trip in self.under_way:
            if trip.responded:
                self._count(trip)
        self._look(any(trip.responded and not trip.lives for trip in self.under_way))

    def on_response(self, trip: CohortTrip) -> None:
        """Somebody has answered: perhaps it ends when all that arrives at this instant has arrived."""
        self.silent -= 1
        self._count(trip)
        self._look(not trip.lives)

    def _count(self, trip: CohortTrip) -> None:
        unit = self.request.unit
        self.answer_counts[trip.place // unit] += trip.lives
        self.complete += trip.lives and self.answer_counts[trip.place // unit] == unit

    def _look(self, failure: bool) -> None:
        quorum, unit = self.request.quorum, self.request.unit
        enough = quorum is not None and self.complete * unit >= quorum
        if not self.closing and (not self.silent or enough or (failure and self.until_failure)):
            self.closing = True
            self.world.at(self.world.now, self._close, None, PHASE_ENDS)

    def _close(self, _: object) -> None:
        """It ends; nobody waits for those who have not answered."""
        if self.closed:
            return
        self.closed, now, trips = True, self.world.now, self.under_way
        for trip in trips:
            if not trip.responded:
                self.trips.cancel(trip)
        received = [self.begins_s + trip.download_s for trip in trips]
        later_s = nextafter(now, np.inf)
        computed = [
            at_s + trip.compute_s if trip.assignment is None else min(trip.assignment.sent_s, later_s)
            for at_s, trip in zip(received, trips, strict=True)
        ]
        arrives = [
            trip.arrives_s if trip.responded else max(done_s + trip.reply_s, 0.0 if trip.loss else later_s)
            for trip, done_s in zip(trips, computed, strict=True)
        ]
        received_s, computed_s, arrives_s = np.array([received, computed, arrives], dtype=np.float64)
        responded = np.array([trip.responded and trip.lives for trip in trips], dtype=bool)
        self.under_way, delays = [], self.delays
        work_s = np.array([nan if self.trips.nodes_of(trip) is None else _worked_s(trip) for trip in trips])
        if not np.isnan(work_s).all():
            delays = delays._replace(losses=np.array([trip.loss for trip in trips], dtype=np.int64))
        times = self.begins_s, received_s, computed_s, arrives_s
        self.ended(Exchange(self.request, *times, delays, now, responded, None if np.isnan(work_s).all() else work_s))


def _worked_s(trip: Trip) -> float:
    """Seconds for which a client with an agent of its own has worked."""
    return 0.0 if trip.assignment is None else float(trip.assignment.worked_s)
