"""A protocol's session on the server's own link: its messages share it with those of jobs and of other sessions.

What :func:`simfl.agents.aggregation.exchange.run_session` computes at once happens here message by message;
requests, draws and rules are the same. A phase ends when all answers that come have arrived, or the quorum, or at the
deadline, after all that arrives at that instant. A session under way is stored as the clients' times of the
phases that have ended and the trips of the one that goes on; everything else is drawn again.
"""

from collections.abc import Callable, Collection
from math import isnan, nextafter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.exchange import (
    CompletedSession,
    Delays,
    Exchange,
    check_result,
    quorum_reached,
    sample_delays,
)
from simfl.agents.buffered.async_job import AsyncJob, Unit
from simfl.agents.buffered.shared_trips import SharedTrips, Trip
from simfl.agents.world import PHASE_ENDS, SESSION_ENDS, World
from simfl.core.rng import Address
from simfl.core.types import Arrays, prefix_arrays, under
from simfl.network.links import PathLinks
from simfl.secagg.sessions import PhaseRequest, R, Session, SessionResult
from simfl.training.base import BufferedRule, Rule

TRIP = ("download_s", "reply_s", "arrives_s", "serial", "stage", "responded")
"""Columns of a stored trip of the phase that goes on."""

PAST = ("received_s", "computed_s", "arrives_s", "responded")
"""Columns of a stored client of a phase that has ended."""

Prepared = Callable[[Unit, CompletedSession[Any]], None]
"""Called with a unit whose session before its models go out has ended."""


class PhaseTrip(Trip):
    """A client's part in one phase.

    Attributes:
        responded: the answer, or the end of the connection, has arrived.
    """

    __slots__ = ("session", "to", "sent_s", "responded")

    def __init__(self, session: "LiveSession", to: int, sent_s: float, *durations_and_sizes: Any) -> None:
        super().__init__(*durations_and_sizes)
        self.session, self.to, self.sent_s, self.responded = session, to, sent_s, False

    @property
    def client(self) -> int:
        """Who is asked."""
        return self.to

    @property
    def begins_s(self) -> float:
        """When the phase began."""
        return self.sent_s

    def on_arrival(self) -> None:
        self.responded = True
        self.session.on_response()


class LiveSession:
    """A session from its first request to its end.

    Args:
        parts: the built scenario.
        trips: on the shared link.
        world: the clock.
        serials: gives the next number that orders what is set going.
        session: the protocol's side of it.
        selection_id, name: as for :func:`~simfl.agents.aggregation.exchange.run_session`.
        ended: called with the whole at its end.

    Attributes:
        order: its own number.
        exchanges: the phases that have ended.
        result: what the session returned; None before it has ended.
    """

    def __init__(
        self,
        parts: Components[Rule],
        trips: SharedTrips,
        world: World,
        serials: Callable[[], int],
        session: Session[Any],
        selection_id: int,
        name: str,
        order: int,
        ended: Callable[[CompletedSession[Any]], None],
    ) -> None:
        self.parts, self.trips, self.world, self.serials = parts, trips, world, serials
        self.session, self.selection_id, self.name, self.order, self.ended = session, selection_id, name, order, ended
        self.exchanges: list[Exchange] = []
        self.under_way: list[PhaseTrip] = []
        self.request: PhaseRequest | None = None
        self.delays: Delays | None = None
        self.begins_s = world.now
        self.closing = self.reported = False
        self.result: Any = None

    def start(self) -> None:
        """Sends the first requests."""
        self._advance(None)

    def _advance(self, responded: NDArray[np.bool_] | None) -> None:
        """Goes on with the next phase, or ends."""
        if (request := self._next(responded)) is not None:
            self._open(request, self.world.now)
            for trip in self.under_way:
                trip.serial = self.serials()
            for trip in self.under_way:
                self.trips.depart(trip)
            self._wait()

    def _next(self, responded: NDArray[np.bool_] | None) -> PhaseRequest | None:
        """The next request; None once the session has ended, which is told at its end."""
        try:
            return next(self.session) if responded is None else self.session.send(responded)
        except StopIteration as end:
            self.result = end.value
        check_result(f"secagg '{self.parts.protocol.name}'", self.name, self.result, None)
        now_s = self.exchanges[-1].ends_s if self.exchanges else self.begins_s
        ends_s = now_s + (self.result.compute_s if isinstance(self.result, SessionResult) else 0.0)
        whole = CompletedSession(self.name, ends_s, self.result, self.exchanges)
        if not self.reported and self.exchanges:
            self.world.at(ends_s, self.ended, whole, SESSION_ENDS, self.order)
        elif not self.reported:
            self.ended(whole)
        return None

    def _open(self, request: PhaseRequest, begins_s: float) -> None:
        """Draws the phase's trips."""
        where = Address(self.selection_id, request.to, self.parts.clients)
        delays = sample_delays(self.parts, request, where, f"/{self.name}/{len(self.exchanges)}")
        rows = zip(request.to.tolist(), *(column.tolist() for column in delays[:6]), strict=True)
        self.request, self.delays, self.begins_s, self.closing = request, delays, begins_s, False
        self.under_way = [PhaseTrip(self, client, begins_s, *row) for client, *row in rows]

    def _wait(self) -> None:
        """Until the phase ends."""
        assert self.request is not None
        if self.request.deadline_s is not None:
            self.world.at(self.begins_s + self.request.deadline_s, self._close, self.under_way, PHASE_ENDS)
        self.on_response()

    def on_response(self) -> None:
        """Somebody has answered: perhaps the phase ends when all that arrives at this instant has arrived."""
        request = self.request
        if self.closing or request is None:
            return
        answered = np.array([trip.responded and trip.lives for trip in self.under_way], dtype=bool)
        if all(trip.responded for trip in self.under_way) or quorum_reached(answered, request):
            self.closing = True
            self.world.at(self.world.now, self._close, self.under_way, PHASE_ENDS)

    def _close(self, trips: list[PhaseTrip]) -> None:
        """The phase ends; nobody waits for those who have not answered."""
        if trips is not self.under_way or self.request is None:
            return  # it has ended before
        now = self.world.now
        for trip in trips:
            if not trip.responded:
                self.trips.cancel(trip)
        computed = [trip.begins_s + trip.download_s + trip.compute_s for trip in trips]
        self._past(
            now,
            np.array([trip.begins_s + trip.download_s for trip in trips], dtype=np.float64),
            np.array(computed, dtype=np.float64),
            np.array([
                trip.arrives_s if trip.responded else max(done_s + trip.reply_s, nextafter(now, np.inf))
                for trip, done_s in zip(trips, computed, strict=True)
            ], dtype=np.float64),
            np.array([trip.responded and trip.lives for trip in trips], dtype=bool),
        )  # fmt: skip
        self._advance(self.exchanges[-1].responded)

    def _past(self, ends_s: float, *columns: Any) -> None:
        assert self.request is not None and self.delays is not None
        received_s, computed_s, arrives_s, responded = columns
        self.exchanges.append(
            Exchange(self.request, self.begins_s, received_s, computed_s, arrives_s, self.delays, ends_s, responded)
        )
        self.under_way, self.request = [], None

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """The phases that have ended, and the trips of the one that goes on."""
        past = [np.column_stack([each.received_s, each.computed_s, each.arrives_s, each.responded])
                for each in self.exchanges]  # fmt: skip
        trips = [[float(getattr(trip, name)) for name in TRIP] for trip in self.under_way]
        return {
            "past": np.vstack([np.empty((0, len(PAST))), *past]),
            "ends_s": np.array([each.ends_s for each in self.exchanges], dtype=np.float64),
            "begins_s": np.array([*(each.begins_s for each in self.exchanges), self.begins_s], dtype=np.float64),
            "trips": np.array(trips, dtype=np.float64).reshape(-1, len(TRIP)),
            "order": np.int64(self.order),
        }

    def restore(self, state: Arrays, was_reported: bool) -> list[PhaseTrip]:
        """Goes back to a :meth:`state`.

        Args:
            state: as stored.
            was_reported: whether its end has been reported already; it is then restored for its result.

        Returns:
            The trips that are under way; they must be restored before :meth:`resume`.
        """
        self.reported = was_reported
        past, begins_s, row = np.asarray(state["past"]), state["begins_s"].tolist(), 0
        did_respond: NDArray[np.bool_] | None = None
        for i, ends_s in enumerate(state["ends_s"].tolist()):
            request = self._next(did_respond)
            assert request is not None, "it asked then"
            self._open(request, begins_s[i])
            received_s, computed_s, arrives_s, responded = past[row : row + len(request.to)].T
            row, did_respond = row + len(request.to), responded > 0
            self._past(ends_s, received_s, computed_s, arrives_s, did_respond)
        if (request := self._next(did_respond)) is None:
            return []
        self._open(request, begins_s[-1])
        for trip, values in zip(self.under_way, state["trips"].tolist(), strict=True):
            trip.download_s, trip.reply_s, trip.arrives_s = values[:3]
            trip.serial, trip.stage, trip.responded = int(values[3]), int(values[4]), bool(values[5])
        return self.under_way

    def resume(self) -> None:
        """Goes on waiting."""
        if self.request is not None:
            self._wait()


class SharedWork:
    """All messages of a buffered server, and the sessions to which some of them belong.

    Args:
        parts: the built scenario.
        links: of which messages share some.
        world: the clock.
        next_serial: gives the next number that orders what is set going.

    Attributes:
        trips: on the link.
        sessions: of the units at work, by their serial numbers; also those that have ended, for their secrets.
    """

    def __init__(
        self, parts: Components[BufferedRule], links: PathLinks, world: World, next_serial: Callable[[], int]
    ) -> None:
        self.parts, self.world, self.next_serial = parts, world, next_serial
        self.trips = SharedTrips(links, world)
        self.sessions: dict[int, LiveSession] = {}

    def prepare(self, unit: Unit, prepared: Prepared) -> LiveSession:
        """The session before a unit's models go out; it is not started."""
        cohort = self.parts.cohort_of(unit.selection_id, [[task.job for task in unit.members]])
        session = self.parts.protocol.prepare(cohort, self.parts.streams)
        live = self._session(
            session, unit.selection_id, "prepare", unit.serial, lambda completed: prepared(unit, completed)
        )
        self.sessions[unit.serial] = live
        return live

    def recover(self, session: Session[R], number: int, ended: Callable[[CompletedSession[R]], None]) -> None:
        """Starts the session that recovers a sum."""
        self._session(session, number, "recover", self.next_serial(), ended).start()

    def _session(
        self,
        session: Session[R],
        selection_id: int,
        name: str,
        order: int,
        ended: Callable[[CompletedSession[R]], None],
    ) -> LiveSession:
        return LiveSession(
            self.parts, self.trips, self.world, self.next_serial, session, selection_id, name, order, ended
        )

    def forget(self, unit: Unit) -> None:
        """The fate of a unit is decided."""
        self.sessions.pop(unit.serial, None)

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self, tasks: Collection[AsyncJob]) -> Arrays:
        """How far all is, as named arrays; ``tasks`` are the jobs whose fate is open."""
        state = {
            "stages": np.array([task.stage for task in tasks], dtype=np.int64),
            **prefix_arrays("links", self.trips.state()),
        }
        for serial, session in self.sessions.items():
            state |= prefix_arrays(f"session{serial}", session.state())
        return state

    def restore(
        self, state: Arrays, tasks: list[AsyncJob], answered: Callable[[AsyncJob], None], prepared: Prepared
    ) -> list[AsyncJob]:
        """Goes back to a :meth:`state`; the jobs whose models have gone out and who have not answered."""
        for task, stage in zip(tasks, state["stages"].tolist(), strict=True):
            task.stage, task.answered = stage, answered
        departed = [task for task in tasks if task.unit.departed and isnan(task.ended_s)]
        under_way: list[Trip] = list(departed)
        waiting = []
        for unit in {id(task.unit): task.unit for task in tasks}.values() if self.parts.protocol.phases else ():
            session = self.prepare(unit, prepared)
            under_way += session.restore(under(f"session{unit.serial}", state), unit.departed)
            if unit.departed:
                unit.secret = session.result.secret
            else:
                waiting.append(session)
        self.trips.restore(under("links", state), under_way)
        for session in waiting:
            session.resume()
        return departed
