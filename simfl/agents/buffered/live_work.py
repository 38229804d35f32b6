"""What a buffered server has under way, message by message: its jobs, and the sessions to which some of them belong."""

from collections.abc import Callable, Collection
from math import isnan
from typing import Any

import numpy as np

from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.exchange import CompletedSession
from simfl.agents.buffered.async_job import AsyncJob, Unit
from simfl.agents.live_session import LiveSession
from simfl.agents.trips import Trip, Trips
from simfl.core.types import Arrays, prefix_arrays, under
from simfl.secagg.sessions import R, Session
from simfl.training.base import BufferedRule

Prepared = Callable[[Unit, CompletedSession[Any]], None]
"""Called with a unit whose session before its models go out has ended."""


class LiveWork:
    """All messages of a buffered server, and the sessions to which some of them belong.

    Args:
        parts: the built scenario.
        trips: which move the messages.

    Attributes:
        sessions: of the units at work, by their serial numbers; also those that have ended, for their secrets.
    """

    def __init__(self, parts: Components[BufferedRule], trips: Trips) -> None:
        self.parts, self.trips = parts, trips
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
        self._session(session, number, "recover", self.trips.next_serial(), ended).start()

    def _session(
        self,
        session: Session[R],
        selection_id: int,
        name: str,
        order: int,
        ended: Callable[[CompletedSession[R]], None],
    ) -> LiveSession:
        return LiveSession(self.parts, self.trips, session, selection_id, name, order, ended)

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
