"""The clients at work for an asynchronous server: free slots, who is busy, who starts next."""

from collections import deque
from collections.abc import Callable, Collection
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.accounts import RoundAccounts
from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.exchange import CompletedSession, run_session
from simfl.agents.aggregation.global_model import GlobalModelState
from simfl.agents.aggregation.policy_queries import PolicyQueries
from simfl.agents.buffered.async_job import AsyncJob, Unit, load_jobs, save_jobs, schedule
from simfl.agents.live_session import LiveSession
from simfl.agents.trips import Trip, Trips
from simfl.agents.world import DEADLINES, REFILL, SESSION_ENDS
from simfl.core.types import Arrays, JobId, prefix_arrays, under
from simfl.devices.base import is_told
from simfl.secagg.sessions import PreparedUnits, R, Session, SessionFailure
from simfl.training.base import BufferedRule


class Dispatcher:
    """Gives out work whenever slots are free.

    The policy is asked for several units at a time; they wait in the queue and start, whole, as slots get free. A
    protocol prepares each unit before its models go out. A client occupies a slot from its start until its update, or
    the news of its failure, arrives, and is busy until the server has dismissed it.

    Args:
        parts: the built scenario.
        trips: which move messages on the clock.
        global_model: whose model versions go out.
        accounts: what is counted for the next round.
        answered: called with a job whose answer, or the end of its connection, arrives.
        late: called with a job that has not answered at its deadline.
        unprepared: called with a unit that could not be prepared, and the reason.

    Attributes:
        live: the jobs whose fate is open, by number.
        stopped: nothing is given out any more.
        paused: nothing is given out, or summed, for now.
    """

    def __init__(
        self,
        parts: Components[BufferedRule],
        trips: Trips,
        global_model: GlobalModelState,
        accounts: RoundAccounts,
        answered: Callable[[AsyncJob], None],
        late: Callable[[AsyncJob], None],
        unprepared: Callable[[Unit, str], None],
    ) -> None:
        self.parts, self.world, self.global_model, self.accounts = parts, trips.world, global_model, accounts
        self.answered, self.late, self.unprepared = answered, late, unprepared
        self.free: int = parts.rule.concurrency
        self.busy = np.zeros(parts.clients, dtype=bool)
        self.live: dict[int, AsyncJob] = {}
        self.queue: deque[list[AsyncJob]] = deque()
        self.queries = PolicyQueries(parts, accounts.log)
        self.trips = trips
        self.sessions = LiveWork(parts, trips)
        self.retry_at = 0.0
        self.refilling = self.stopped = self.paused = self.recovering = False

    # -- slots ---------------------------------------------------------------------------------------

    def free_slot(self, task: AsyncJob) -> None:
        """A client no longer works; its slot is free."""
        task.ended_s = self.world.now
        self.free += 1
        if is_told(self.parts.available) and task.unit.departed:
            clients, seconds = np.array([task.client]), np.array([task.worked_s(self.world.now)])
            self.parts.available.on_work(clients, seconds, self.world.now)

    def release(self, task: AsyncJob) -> None:
        """A job's fate is decided; its client can be selected again."""
        del self.live[task.job.id]
        self.busy[task.job.client] = False
        if task.unit.departed:
            self.global_model.release(task.job.version)
        self.sessions.forget(task.unit)
        task.unit = None  # which would otherwise wait for the collector of cycles

    def refill_soon(self) -> None:
        """New work is given out when all that happens at this instant has happened."""
        if self.world.settled:
            self._refill(None)
        elif not self.refilling:
            self.refilling = True
            self.world.at(self.world.now, self._refill, phase=REFILL)

    def _refill(self, _: None) -> None:
        self.refilling = False
        while not (self.stopped or self.paused):
            while self.queue and len(self.queue[0]) <= self.free:
                self._start(self.queue.popleft())
            if self.queue or self.free < self.parts.policy.unit_size or not self._ask():
                return

    def _ask(self) -> bool:
        """Asks the policy who shall work next; False if nobody can be selected, as far as is known."""
        rule, now, participation = self.parts.rule, self.world.now, self.global_model.tally.participation
        if now < self.retry_at:
            return False
        most = max(self.free, rule.lookahead or rule.buffer)
        known = self.global_model.records.known(self.global_model.version)
        nobody_active = self.free == rule.concurrency and not self.recovering
        selection_id, units = self.queries.ask(
            self.global_model.version, self.busy, participation, most, now, nobody_active, known
        )
        if not units.size:
            self.retry_at = now + rule.retry_s
            self.world.at(self.retry_at, self._refill, phase=REFILL)
            return False
        self._enqueue(selection_id, units)
        return True

    def _enqueue(self, selection_id: int, units: NDArray[np.int32]) -> None:
        """Draws the trips of selected units."""
        version, now = self.global_model.version, self.world.now
        tasks = schedule(self.parts, selection_id, version, units.ravel(), now, sized=False)
        size = units.shape[1]
        self.queue.extend(tasks[first : first + size] for first in range(0, len(tasks), size))

    # -- from the queue to the departure ------------------------------------------------------------

    def _start(self, tasks: list[AsyncJob]) -> None:
        """Takes slots for the clients of a unit; its models go out once it is prepared."""
        now, version, phases = self.world.now, self.global_model.version, self.parts.protocol.phases
        self.free -= len(tasks)
        for task in tasks:
            if phases:
                task.job = task.job._replace(version=version, started_at=now)
            self.live[task.job.id] = task
            self.busy[task.job.client] = True
        for members in [[task] for task in tasks] if self.parts.rule.partial else [tasks]:
            unit = Unit(members, now)
            for task in members:
                task.unit = unit
            if phases:
                unit.serial = self.trips.next_serial()
                self.sessions.prepare(unit, self._launch)
            else:
                self._depart(unit)

    def _launch(self, unit: Unit, session: CompletedSession[PreparedUnits | SessionFailure]) -> None:
        """A unit's session has ended."""
        if self.stopped:
            return
        self.accounts.add_session(session, self.global_model.version)
        prepared = session.result
        if isinstance(prepared, PreparedUnits) and prepared.kept_units.all():
            unit.secret = prepared.secret
            self._depart(unit)
        else:
            self.unprepared(
                unit, prepared.reason if isinstance(prepared, SessionFailure) else "a unit could not be prepared"
            )
        if session.exchanges:
            self.refill_soon()

    def _depart(self, unit: Unit) -> None:
        """The models leave the server."""
        version, deadline_s = self.global_model.version, self.parts.rule.deadline_s
        unit.departed, now, costs = True, self.world.now, self.accounts.costs
        if self.parts.jobs_vary:
            self._replan(unit, version)
        for task in unit.members:
            task.depart(version, now, self.trips.next_serial())
            costs.bytes_down += task.down_bytes
            costs.clear_bytes += task.down_bytes
            task.answered, task.deadline_s = self.answered, deadline_s
            self.trips.depart(task)
            if deadline_s is not None:
                self._set_deadline(task, deadline_s)
        self.global_model.hold(version, len(unit.members))

    def cancel(self, task: AsyncJob, open_end: bool = False) -> None:
        """Nobody waits for a job's answer any more; its client stops, and what it had of a shared link is free."""
        task.cancelled = True
        self.trips.cancel(task, open_end)

    def _replan(self, unit: Unit, version: int) -> None:
        """Sizes, samples and passes may depend on the version, which is known only now; the draws stay the same."""
        clients = np.array([task.job.client for task in unit.members], dtype=np.int32)
        planned = schedule(self.parts, unit.selection_id, version, clients, self.world.now, sized=True)
        for task, fresh in zip(unit.members, planned, strict=True):
            task.download_s, task.compute_s, task.reply_s = fresh.download_s, fresh.compute_s, fresh.reply_s
            task.down_bytes, task.up_bytes = fresh.down_bytes, fresh.up_bytes

    def _set_deadline(self, task: AsyncJob, deadline_s: float) -> None:
        """Where durations are known when a job starts, only late ones need an alarm."""
        ends_s = task.job.started_at + deadline_s
        if self.parts.message_by_message or task.loss or task.arrives_s > ends_s:
            self.world.at(ends_s, self.late, task, DEADLINES, task.serial)

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Who is at work and who is to be, as named arrays."""
        queued = [task.job for unit in self.queue for task in unit]
        return {
            "serial": np.int64(self.trips.serial),
            "queue": np.array([job.id for job in queued], dtype=np.int64),
            **prefix_arrays("task", save_jobs(self.live.values())),
            **prefix_arrays("queries", self.queries.state()),
            **({} if self.parts.sharing is None else self.sessions.state(self.live.values())),
        }

    def restore(self, state: Arrays, agents: Arrays) -> None:
        """Goes back to a :meth:`state`, and to that of clients' agents; the global model must have been restored."""
        self.queries.restore(under("queries", state))
        self.trips.serial = int(state["serial"])
        if queued := state["queue"].tolist():
            clients = [JobId(job).client for job in queued]
            units = np.array(clients, dtype=np.int32).reshape(-1, self.parts.policy.unit_size)
            self._enqueue(JobId(queued[0]).selection, units)
        tasks = load_jobs(under("task", state))
        self.live = {task.job.id: task for task in tasks}
        self.free -= sum(isnan(task.ended_s) for task in tasks)
        for task in tasks:
            self.busy[task.job.client] = True
            if task.unit.departed:
                self.global_model.hold(task.job.version)
        if self.trips.nodes is not None:
            waited_for = {task.job.id: task for task in tasks if task.unit.departed and isnan(task.ended_s)}
            self.trips.nodes.restore(agents, waited_for)
        if self.parts.sharing is None:  # all that is under way follows from its draws
            self._resume(tasks)
            return
        for task in self.sessions.restore(state, tasks, self.answered, self._launch):
            if (deadline_s := self.parts.rule.deadline_s) is not None:
                self._set_deadline(task, deadline_s)

    def _resume(self, tasks: list[AsyncJob]) -> None:
        """Takes up everything that was going on, in the order in which it was set going."""
        pending: list[tuple[int, AsyncJob | Unit]] = []
        deadline_s = self.parts.rule.deadline_s
        units = list({id(task.unit): task.unit for task in tasks}.values())
        sessions: dict[Unit, CompletedSession[PreparedUnits | SessionFailure]] = {}
        if self.parts.protocol.phases:
            sessions = {unit: self.sessions.compute(unit) for unit in units}
            for unit in units:
                if unit.departed:
                    prepared = sessions[unit].result
                    assert isinstance(prepared, PreparedUnits)  # its models have gone out, and draws are repeated
                    unit.secret = prepared.secret
                else:
                    pending.append((unit.serial, unit))
        pending += [(task.serial, task) for task in tasks if task.unit.departed and isnan(task.ended_s)]
        for _, each in sorted(pending, key=lambda item: item[0]):
            if isinstance(each, Unit):
                self.sessions.end_later(each, sessions[each], self._launch)
            else:
                each.answered, each.deadline_s = self.answered, deadline_s
                self.trips.resume(each)
                if deadline_s is not None:
                    self._set_deadline(each, deadline_s)


# -- The sessions of a buffered server; and all that it has under way, message by message ----------------------

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
