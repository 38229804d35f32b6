"""A protocol's session on the clock: its messages may share links with those of jobs and of other sessions.

What :func:`simfl.agents.aggregation.exchange.run_session` computes at once happens here, a phase a
:class:`simfl.agents.gathering.Gathering`. A session under way is stored as the clients' times of the phases that have
ended and the trips of the one that goes on; everything else is drawn again.
"""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.exchange import CompletedSession, Exchange, sample_delays
from simfl.agents.aggregation.session_checks import check_request, check_result
from simfl.agents.gathering import CohortTrip, Gathering
from simfl.agents.trips import Trips
from simfl.agents.world import SESSION_ENDS
from simfl.core.rng import Address
from simfl.core.types import Arrays
from simfl.core.validation import checked_type
from simfl.secagg.sessions import PhaseRequest, Session, SessionResult
from simfl.training.base import Rule

TRIP = ("download_s", "reply_s", "arrives_s", "serial", "stage", "responded")
"""Columns of a stored trip of the phase that goes on."""

PAST = ("received_s", "computed_s", "arrives_s", "responded")
"""Columns of a stored client of a phase that has ended."""


class LiveSession:
    """A session from its first request to its end.

    Args:
        parts: the built scenario.
        trips: on the shared link.
        world: the clock.
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
        trips: Trips,
        session: Session[Any],
        selection_id: int,
        name: str,
        order: int,
        ended: Callable[[CompletedSession[Any]], object],
        units: int | None = None,
    ) -> None:
        self.parts, self.trips, self.world = parts, trips, trips.world
        self.session, self.selection_id, self.name, self.order, self.ended = session, selection_id, name, order, ended
        self.units = units
        self.exchanges: list[Exchange] = []
        self.phase: Gathering | None = None
        self.begins_s = self.world.now
        self.reported = False
        self.result: Any = None
        checked_type(session, Generator, f"secagg '{parts.protocol.name}'", name, "a generator that yields phases")

    def start(self) -> None:
        """Sends the first requests."""
        self._advance(None)

    def _advance(self, responded: NDArray[np.bool_] | None) -> None:
        """Goes on with the next phase, or ends."""
        if (request := self._next(responded)) is not None:
            self._open(request, self.world.now).start()

    def _next(self, responded: NDArray[np.bool_] | None) -> PhaseRequest | None:
        """The next request; None once the session has ended, which is told at its end."""
        try:
            request = next(self.session) if responded is None else self.session.send(responded)
            check_request(self.parts.protocol, self.name, request, self.parts.clients)
            return request
        except StopIteration as end:
            self.result = end.value
        check_result(self.parts.protocol, self.name, self.result, self.units)
        now_s = self.exchanges[-1].ends_s if self.exchanges else self.begins_s
        ends_s = now_s + (self.result.compute_s if isinstance(self.result, SessionResult) else 0.0)
        whole = CompletedSession(self.name, ends_s, self.result, self.exchanges)
        if not self.reported and self.exchanges:
            self.world.at(ends_s, self.ended, whole, SESSION_ENDS, self.order)
        elif not self.reported:
            self.ended(whole)
        return None

    def _open(self, request: PhaseRequest, begins_s: float) -> Gathering:
        """Draws the phase's trips."""
        where = Address(self.selection_id, request.to, self.parts.clients)
        delays = sample_delays(self.parts, request, where, f"/{self.name}/{len(self.exchanges)}")
        self.begins_s = begins_s
        self.phase = Gathering(self.trips, request, self.selection_id, delays, begins_s, self._on_phase)
        return self.phase

    def _on_phase(self, ended: Exchange) -> None:
        self.exchanges.append(ended)
        self.phase = None
        self._advance(ended.responded)

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """The phases that have ended, and the trips of the one that goes on."""
        past = [np.column_stack([each.received_s, each.computed_s, each.arrives_s, each.responded])
                for each in self.exchanges]  # fmt: skip
        under_way = [] if self.phase is None else self.phase.under_way
        trips = [[float(getattr(trip, name)) for name in TRIP] for trip in under_way]
        return {
            "past": np.vstack([np.empty((0, len(PAST))), *past]),
            "ends_s": np.array([each.ends_s for each in self.exchanges], dtype=np.float64),
            "begins_s": np.array([*(each.begins_s for each in self.exchanges), self.begins_s], dtype=np.float64),
            "trips": np.array(trips, dtype=np.float64).reshape(-1, len(TRIP)),
            "order": np.int64(self.order),
        }

    def restore(self, state: Arrays, was_reported: bool) -> list[CohortTrip]:
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
            phase = self._open(request, begins_s[i])
            received_s, computed_s, arrives_s, responded = past[row : row + len(request.to)].T
            row, did_respond = row + len(request.to), responded > 0
            times = received_s, computed_s, arrives_s
            self.exchanges.append(Exchange(request, begins_s[i], *times, phase.delays, ends_s, did_respond))
        self.phase = None
        if (request := self._next(did_respond)) is None:
            return []
        under_way = self._open(request, begins_s[-1]).under_way
        for trip, values in zip(under_way, state["trips"].tolist(), strict=True):
            trip.download_s, trip.reply_s, trip.arrives_s = values[:3]
            trip.serial, trip.stage, trip.responded = int(values[3]), int(values[4]), bool(values[5])
        return under_way

    def resume(self) -> None:
        """Goes on waiting."""
        if self.phase is not None:
            self.phase.wait()
