"""The sessions of a buffered server; and all that it has under way, message by message."""

from collections.abc import Callable, Collection
from math import isnan
from typing import Any

import numpy as np

from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.exchange import CompletedSession, run_session
from simfl.agents.buffered.async_job import AsyncJob, Unit
from simfl.agents.live_session import LiveSession
from simfl.agents.trips import Trip, Trips
from simfl.agents.world import SESSION_ENDS
from simfl.core.types import Arrays, prefix_arrays, under
from simfl.secagg.sessions import R, Session
from simfl.training.base import BufferedRule

Prepared = Callable[[Unit, CompletedSession[Any]], None]
"""Called with a unit whose session before its models go out has ended."""


class LiveWork:
    """The sessions of a buffered server: message by message, or computed when they begin.

    Args:
        parts: the built scenario.
        trips: which move the messages.

    Attributes:
        is_live: they are played message by message.
        sessions: of the units at work, by their serial numbers; also those that have ended, for their secrets.
    """

    def __init__(self, parts: Components[BufferedRule], trips: Trips) -> None:
        self.parts, self.trips = parts, trips
        self.is_live = parts.message_by_message and bool(parts.protocol.phases)
        self.sessions: dict[int, LiveSession] = {}

    def prepare(self, unit: Unit, prepared: Prepared) -> None:
        """Plays the session before a unit's models go out."""
        if self.is_live:
            self._open(unit, prepared).start()
        else:
            self.end_later(unit, self.compute(unit), prepared)

    def compute(self, unit: Unit) -> CompletedSession[Any]:
        """The same, known when it begins."""
        return run_session(self.parts, self._session_of(unit), unit.selection_id, unit.started_s, "prepare")

    def end_later(self, unit: Unit, whole: CompletedSession[Any], prepared: Prepared) -> None:
        """Has a computed session end at its time."""
        self._end_later(whole, unit.serial, lambda whole: prepared(unit, whole))

    def recover(self, session: Session[R], number: int, ended: Callable[[CompletedSession[R]], None]) -> None:
        """Plays the session that recovers a sum; ``ended`` is called at its end, at once where it asks nobody."""
        if self.is_live:
            order = self.trips.next_serial()
            LiveSession(self.parts, self.trips, session, number, "recover", order, ended).start()
            return
        whole = run_session(self.parts, session, number, self.trips.world.now, "recover")
        self._end_later(whole, self.trips.next_serial() if whole.exchanges else 0, ended)

    def _session_of(self, unit: Unit) -> Session[Any]:
        cohort = self.parts.cohort_of(unit.selection_id, [[task.job for task in unit.members]])
        return self.parts.protocol.prepare(cohort, self.parts.streams)

    def _open(self, unit: Unit, prepared: Prepared) -> LiveSession:
        """A unit's session, not started."""
        session, about = self._session_of(unit), (unit.selection_id, "prepare", unit.serial)
        live = LiveSession(self.parts, self.trips, session, *about, lambda whole: prepared(unit, whole))
        self.sessions[unit.serial] = live
        return live

    def _end_later(self, whole: CompletedSession[R], order: int, ended: Callable[[CompletedSession[R]], None]) -> None:
        if whole.exchanges:
            self.trips.world.at(whole.ends_s, ended, whole, SESSION_ENDS, order)
        else:
            ended(whole)

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
            session = self._open(unit, prepared)
            under_way += session.restore(under(f"session{unit.serial}", state), unit.departed)
            if unit.departed:
                unit.secret = session.result.secret
            else:
                waiting.append(session)
        self.trips.restore(under("links", state), under_way)
        for session in waiting:
            session.resume()
        return departed
