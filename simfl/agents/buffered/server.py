"""The asynchronous server agent with a buffer (FedBuff, Nguyen et al. 2022, on a clock).

In synchronous training a round lasts as long as its slowest client. Here the server keeps ``concurrency`` clients at
work all the time and takes a step whenever K updates are in its buffer; clients that are still at work go on from the
older model that they have, and their updates are *stale* by the number of steps since then. What a server does next
depends on single arrivals, so that a job has events of its own, unlike in a synchronous round.

The order of things for a job: the policy selects its unit, which waits for slots; the protocol prepares the unit; the
model goes out; the answer arrives, or the end of the connection, or the deadline passes; when all members of the unit
have delivered it enters the buffer; the protocol recovers the sum of a full buffer; the jobs are trained and
aggregated. At one instant arrivals come first, then ends of sessions, then deadlines, then new work is given out, so
that a step that is taken now is in the model that goes out now.

Invariants: a job ends exactly once, as one row of jobs.csv. A client holds a slot until it has answered or is no longer
waited for, and cannot be selected again before the fate of its unit is decided. Units are in the buffer whole (unless
the rule takes single members), and one sum is recovered at a time. A version of the model is kept as long as an
open job began with it. Only jobs in a sum are trained, and those whose size on the wire depends on training.

Checkpoints are written after an aggregation, when no sum is being recovered. They need the global model with the
versions that are held, the buffer, the number of recoveries (which addresses their draws), and of the dispatcher the
jobs at work with their times, the queue and the policy's open questions. Events are not stored: they are scheduled
again in the order in which they were at first, so that equal times are resolved equally; sessions are repeated, with
the same draws.
"""

from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.accounts import Log
from simfl.agents.aggregation.components import Components, RoundResult
from simfl.agents.aggregation.exchange import CompletedSession, message
from simfl.agents.aggregation.policy_queries import MAX_FAILED_JOBS, stall_error
from simfl.agents.buffered.async_job import AsyncJob, Unit, records
from simfl.agents.buffered.block_server import BlockServer, takes_blocks
from simfl.agents.buffered.dispatcher import Dispatcher
from simfl.agents.servers import SERVERS, Server
from simfl.agents.world import Process
from simfl.core.rng import Address
from simfl.core.types import SERVER, Arrays, Job, prefix_arrays, under
from simfl.metrics.participation import Tally
from simfl.secagg.sessions import SessionFailure, SessionResult
from simfl.training.base import BufferedRule


@SERVERS("buffered")
@dataclass(eq=False)
class BufferedServer(Server[BufferedRule]):
    """Keeps up to ``concurrency`` clients at work and takes a step whenever its buffer holds K updates.

    A unit enters the buffer when all of it has delivered; a member that fails, or is late, takes its unit with it. A
    client cannot be selected again before its unit was aggregated or forfeited. A protocol recovers the sum of a full
    buffer; what arrives meanwhile waits for the next one. Everything happens in reaction to what arrives, so that the
    state after an aggregation is explicit.

    Args: as for :class:`simfl.agents.servers.Server`.
    """

    asks_agents = counts_unsummed = follows_policy = True
    reads = frozenset({"deadline_s", "quorum", "on_failure"})

    @classmethod
    def class_for(cls, parts: Components[Any], log: Log | None) -> type[Server[Any]]:
        """Where nothing depends on single events, a block of arrivals is one."""
        return BlockServer if cls is BufferedServer and takes_blocks(parts, log is not None) else cls

    def start(self) -> None:
        """Nobody is at work, and the buffer is empty."""
        self.dispatcher = Dispatcher(
            self.parts, self.trips, self.global_model, self.accounts, self._receive, self._late, self._drop_unprepared
        )
        self.run_ended = self.world.event()
        self.counts_clear_bytes = bool(self.parts.protocol.columns) and not self.parts.protocol.shows_updates
        self.buffer: list[Unit] = []
        self.buffered_updates = 0
        self.recoveries = 0

    def run(self) -> Process[None]:
        """Goes on until the rule says that the run ends."""
        if not self.global_model.version:
            self.note("round_start", round=0)
        self.go_on()
        yield self.run_ended

    def go_on(self) -> None:
        """Sums and gives out work, also after a pause."""
        self.dispatcher.paused = False
        self._recover()
        self.dispatcher.refill_soon()

    # -- what arrives --------------------------------------------------------------------------------

    def _receive(self, task: AsyncJob) -> None:
        if self.dispatcher.stopped or task.cancelled:
            return
        self._log(task)
        self.dispatcher.free_slot(task)
        if task.lives:
            self.accounts.costs.bytes_up += task.up_bytes
            if self.counts_clear_bytes:
                clear_bytes = self.parts.clear_bytes(self.parts.learner.sizes([task.job])[1])
                self.accounts.costs.clear_bytes += int(np.sum(clear_bytes))
            task.received_version = self.global_model.version
            duration_s = task.download_s + task.compute_s + task.reply_s
            self.global_model.records.add_durations(task.job.client, duration_s)
            unit = task.unit
            unit.missing -= 1
            if not unit.missing:
                self._admit(unit)
        else:
            self._forfeit(task, "failed")
        self.dispatcher.refill_soon()

    def _log(self, task: AsyncJob, open_end: bool = False) -> None:
        """Logs what a job did, unless its client's own agent has said it."""
        if self.log is not None and self.trips.nodes_of(task) is None:
            records(task, self.world.now, self.log, open_end)

    def _late(self, task: AsyncJob) -> None:
        if not (self.dispatcher.stopped or task.cancelled) and isnan(task.ended_s):
            self._cancel(task)
            self._forfeit(task, "late")
            self.dispatcher.refill_soon()

    def _drop_unprepared(self, unit: Unit, reason: str) -> None:
        for task in unit.members:
            self.dispatcher.free_slot(task)
            self._end(task, "failed")
        self._require_success(reason)

    def _cancel(self, task: AsyncJob) -> None:
        """The server no longer waits for a client, and tells it so; a message of no bytes."""
        self.dispatcher.cancel(task)
        self.dispatcher.free_slot(task)
        if self.log is not None:
            now, job = self.world.now, task.job
            self._log(task)
            where = Address(job.selection, np.array([job.client]), self.parts.clients)
            delay = float(self.parts.links.down_s(where.index, 0, where, "/cancel")[0])
            is_lost = bool(self.parts.are_lost("down/cancel", where)[0])
            self.log(message("cancel", SERVER, job.client, 0, now, now + delay, is_lost))
            self.note("cancel", job=job.id, client=job.client)

    def _forfeit(self, culprit: AsyncJob, outcome: str) -> None:
        """A member did not deliver: its unit is given up, and all of it is free to be selected again."""
        self._require_success("")
        self.accounts.costs.failed_upload += 1
        for task in culprit.unit.members:
            if task is not culprit and task.received_version < 0:
                self._cancel(task)
            self._end(task, outcome if task is culprit else "forfeited")

    def _require_success(self, reason: str) -> None:
        if (failed := self.accounts.failed_in_a_row) > MAX_FAILED_JOBS:
            why = f"{failed} jobs in a row have failed"
            raise stall_error(f"{why} ({reason})" if reason else why, self.world.now)

    def _admit(self, unit: Unit) -> None:
        if self._discard_stale(unit):
            return
        self.accounts.failed_at_success = self.accounts.costs.failed
        self.buffer.append(unit)
        self.buffered_updates += len(unit.members)
        self._recover()

    def _discard_stale(self, unit: Unit) -> bool:
        """Whether a unit is too stale to be used; its jobs have ended then."""
        staleness = self.global_model.version - unit.members[0].job.version
        if not self.parts.rule.refuses(staleness):
            return False
        for task in unit.members:
            self._end(task, "stale", staleness=staleness)
        return True

    # -- aggregation ---------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Has the protocol recover the sum of a full buffer, unless it is at it."""
        if self.dispatcher.recovering or self.dispatcher.paused or self.dispatcher.stopped:
            return
        if self.parts.protocol.phases and self.parts.rule.unit_weights == "common":
            self.buffer = [unit for unit in self.buffer if not self._discard_stale(unit)]  # old since the last recovery
            self.buffered_updates = sum(len(unit.members) for unit in self.buffer)
        if self.buffered_updates < self.parts.rule.buffer:
            return
        units = self._take()
        jobs = [[task.job for task in unit.members] for unit in units]
        ages = np.array([self._ages(unit.members) for unit in units], dtype=np.int64)
        cohort = self.parts.cohort_of(self.global_model.version, jobs)
        cohort = self.parts.buffered_cohort(cohort, ages, self.accounts.failed_draws)
        everybody, secrets = np.ones(cohort.units.shape, dtype=bool), [unit.secret for unit in units]
        protocol_session = self.parts.protocol.recover(cohort, everybody, secrets, self.parts.streams)
        number, self.recoveries = self.recoveries, self.recoveries + 1
        self.dispatcher.recovering = True
        self.dispatcher.sessions.recover(protocol_session, number, lambda session: self._on_recovery(units, session))

    def _on_recovery(self, units: list[Unit], session: CompletedSession[SessionResult | SessionFailure]) -> None:
        """A sum's session has ended."""
        self.dispatcher.recovering = False
        self._sum(units, session)
        if session.exchanges:
            self.dispatcher.refill_soon()

    def _take(self) -> list[Unit]:
        """The units that fill the buffer first."""
        count, left = 0, self.buffered_updates
        while self.buffered_updates - left < self.parts.rule.buffer:
            left -= len(self.buffer[count].members)
            count += 1
        units, self.buffer, self.buffered_updates = self.buffer[:count], self.buffer[count:], left
        return units

    def _sum(self, units: list[Unit], session: CompletedSession[SessionResult | SessionFailure]) -> None:
        self.accounts.add_session(session, self.global_model.version)
        outcome = session.result
        in_sum = [False] * len(units) if isinstance(outcome, SessionFailure) else outcome.kept_units.tolist()
        fates = [(task, good) for unit, good in zip(units, in_sum, strict=True) for task in unit.members]
        summed, rest = ([task for task, good in fates if good is wanted] for wanted in (True, False))
        self.accounts.lose(self.global_model.version, [task.job.client for task in rest], self.parts.clients, session)
        for task in rest:
            self._end(task, "unrecovered")
        if summed and isinstance(outcome, SessionResult):
            summed.sort(key=lambda task: task.job.client)
            jobs, ages = [task.job for task in summed], np.array(self._ages(summed), dtype=np.int64)
            self.on_round(self.aggregate(jobs, outcome, ages, outcome.row))
        else:
            self.accounts.failed_at_success = 0
            reason = outcome.reason if isinstance(outcome, SessionFailure) else "nothing could be recovered"
            self._require_success(reason)
        self._recover()

    def _ages(self, tasks: list[AsyncJob]) -> list[int]:
        """The staleness that weighs each."""
        t, by_member = self.global_model.version, self.parts.rule.unit_weights == "own"
        return [(each.received_version if by_member else t) - each.job.version for each in tasks]

    def end_jobs(self, jobs: list[Job], done: RoundResult, staleness: NDArray[np.int64] | None) -> None:
        """The aggregated jobs end."""
        for job, age in zip(jobs, [] if staleness is None else staleness.tolist(), strict=True):
            self._end(self.dispatcher.live[job.id], "aggregated", done.number, age)

    def report(self, done: RoundResult) -> RoundResult:
        """The round with the fates of its jobs; after the last one the open ones' too, before that a new model."""
        if done.last:
            self.stop()
        else:
            self.note("round_start", round=done.number + 1)
        self.dispatcher.retry_at = 0.0  # a new model is a reason to ask again
        return super().report(done)

    def stop(self) -> None:
        """The run ends, and with it all open jobs."""
        self.dispatcher.stopped = True
        for task in self.dispatcher.live.values():
            if task.unit.departed and isnan(task.ended_s):
                self.dispatcher.cancel(task, open_end=True)  # what it waited for on shared links is known then
                if self.log is not None:
                    self._log(task, open_end=True)
            self._add_row(task, "open")
        self.end_messages()
        self.run_ended.succeed()

    def _end(self, task: AsyncJob, outcome: str, round: int | None = None, staleness: int | None = None) -> None:
        """A job's one and only end; its client is idle again."""
        self._add_row(task, outcome, round, staleness)
        if outcome != "aggregated":
            self.accounts.costs.failed += 1
            self.parts.learner.discard([task.job])
        self.dispatcher.release(task)

    def _add_row(self, task: AsyncJob, outcome: str, round: int | None = None, staleness: int | None = None) -> None:
        """A job's fate, as a row of jobs.csv."""
        ended_s = self.world.now if isnan(task.ended_s) else task.ended_s
        has_sent = task.has_sent(self.world.now)
        if has_sent and self.trips.nodes_of(task) is None:
            self.accounts.costs.bytes_sent_up += task.up_bytes
        self.accounts.end_job(task.job, ended_s, outcome, round, staleness, has_sent)

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Besides: the buffer and who is at work; nothing is being recovered after an aggregation."""
        return super().state() | {
            "recoveries": np.int64(self.recoveries),
            "buffer": np.array([unit.members[0].job.id for unit in self.buffer], dtype=np.int64),
            **prefix_arrays("dispatcher", self.dispatcher.state()),
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`."""
        super().restore(state, tally)
        self.dispatcher.restore(under("dispatcher", state), under("agents", state))
        self.recoveries = int(state["recoveries"])
        self.buffer = [self.dispatcher.live[job].unit for job in state["buffer"].tolist()]
        self.buffered_updates = sum(len(unit.members) for unit in self.buffer)
