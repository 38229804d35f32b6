"""The buffered server where nobody looks at single events: all that happens up to an aggregation is one event.

It gives the same tables and the same checkpoints as :class:`simfl.agents.buffered.server.BufferedServer`, in a fraction
of the time. That one has an event for every job, and is needed where something depends on single jobs in the course of
a round: a trace, a shared link, a deadline, units of several clients, a protocol that prepares them, sizes or passes
that depend on the version or the client, data that grow, a policy that reads how long jobs took. So an arrival between
two aggregations changes nothing but who is at work. The loop knows a job's place in :class:`JobColumns`, how long it
takes, and whether it ends as usual; everything else is done with whole columns.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import repeat
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.accounts import RoundAccounts
from simfl.agents.aggregation.components import Components, RoundResult
from simfl.agents.aggregation.exchange import run_session, sample_delays, work
from simfl.agents.aggregation.global_model import GlobalModelState
from simfl.agents.aggregation.policy_queries import MAX_FAILED_JOBS, PolicyQueries, stall_error
from simfl.agents.buffered.async_job import NUMBERS, TIMES
from simfl.agents.servers import Server
from simfl.agents.world import Process
from simfl.core.rng import Address
from simfl.core.types import Arrays, Job, JobId, job_ids, prefix_arrays, under
from simfl.devices.base import is_told
from simfl.metrics.participation import Tally
from simfl.results.tables import JobRow
from simfl.secagg.sessions import SessionResult
from simfl.training.base import BufferedRule

MANY = 1000
"""Jobs from which on it is worth while to forget those that are over."""


class WorkingClients:
    """Gives out work whenever slots are free, and fills the buffer with what arrives.

    Args:
        parts: the built scenario.
        global_model: whose model versions go out.
        accounts: what is counted for the next round.

    Attributes:
        jobs: those in the buffer, at work and, last, to depart next.
        running: when each job at work arrives, simulated seconds, and its place; a heap. Who has departed later has a
            later place.
        buffer: places of the jobs whose updates wait for the aggregation, in the order of their arrivals.
        trips: seconds of download, work and upload of the jobs to depart next, the last one first.
        unusual: places of jobs whose arrival, before the next aggregation, gives no update for the buffer.
        retry_at: simulated time before which the policy is not asked again, seconds.
    """

    def __init__(
        self, parts: Components[BufferedRule], global_model: GlobalModelState, accounts: RoundAccounts
    ) -> None:
        self.parts, self.global_model, self.accounts = parts, global_model, accounts
        self.queries = PolicyQueries(parts, None)
        self.free: int = parts.rule.concurrency
        self.busy = np.zeros(parts.clients, dtype=bool)
        self.jobs = JobColumns()
        self.running: list[tuple[float, int]] = []
        self.buffer: list[int] = []
        self.trips: list[tuple[float, float, float]] = []
        self.unusual: set[int] = set()
        self.departures: list[tuple[float, float]] = []
        self.rejected: list[int] = []
        self.serial = 0
        self.retry_at = 0.0

    def fill(self, now_s: float) -> float:
        """Goes on from ``now_s`` until the buffer is full; the simulated time of that, seconds."""
        buffer, accounts, size = self.buffer, self.accounts, self.parts.rule.buffer
        costs = accounts.costs
        self._find_unusual()
        while True:
            running, unusual = self.running, self.unusual
            while running and running[0][0] <= now_s:
                arrived_s, place = heappop(running)
                self.free += 1
                if place in unusual:
                    if not self.jobs["lives"][place] and (failed := accounts.failed_in_a_row) > MAX_FAILED_JOBS:
                        raise stall_error(f"{failed} jobs in a row have failed", arrived_s)
                    costs.failed += 1
                    self.rejected.append(place)  # it ends outside of any sum
                    continue
                accounts.failed_at_success = costs.failed
                buffer.append(place)
                if len(buffer) >= size:
                    costs.bytes_up += int(self.jobs["up_bytes"][buffer].sum())
                    self._count_changes()
                    return now_s
            self._refill(now_s)
            running = self.running
            now_s = min(running[0][0] if running else inf, self.retry_at if self.retry_at > now_s else inf)

    def release(self, places: Sequence[int] | NDArray[np.int64]) -> None:
        """The fate of these jobs is decided; their clients can be selected again."""
        self.busy[self.jobs["client"][places]] = False
        self._for_versions(places, self.global_model.release)

    def _for_versions(self, places: Sequence[int] | NDArray[np.int64], tell: Callable[[int, int], None]) -> None:
        for version, number in Counter(self.jobs["version"][places].tolist()).items():
            tell(version, number)

    def _find_unusual(self) -> None:
        """Who dies in the computation, and whose update has become too old."""
        jobs, version = self.jobs, self.global_model.version
        unusual = jobs["lives"] == 0
        versions = sorted({*self.global_model.holders, version})
        refused = np.array([self.parts.rule.refuses(version - each) for each in versions])
        if refused.any():
            unusual |= refused[np.searchsorted(versions, jobs["version"])] & (jobs["serial"] > 0)
        self.unusual = set(np.flatnonzero(unusual).tolist())

    def _refill(self, now_s: float) -> None:
        """Gives out new work when all that happens at this instant has happened."""
        while True:
            trips, departing = self.trips, min(self.free, len(self.trips))
            first = self.jobs.used - len(trips)
            for place in range(first, first + departing):
                download_s, compute_s, reply_s = trips.pop()
                arrives_s = now_s + download_s + compute_s + reply_s
                heappush(self.running, (arrives_s, place))
                self.departures.append((now_s, arrives_s))
            self.free -= departing
            if trips or not self.free or now_s < self.retry_at or not self._ask(now_s):
                return

    def _ask(self, now_s: float) -> bool:
        """Asks the policy who shall work next; False if nobody can be selected, as far as is known."""
        self._count_changes()
        rule, model = self.parts.rule, self.global_model
        most = max(self.free, rule.lookahead or rule.buffer)
        known, nobody_active = model.records.known(model.version), self.free == rule.concurrency
        selection_id, units = self.queries.ask(
            model.version, self.busy, model.tally.participation, most, now_s, nobody_active, known
        )
        if not units.size:
            self.retry_at = now_s + rule.retry_s
            return False
        self._forget_ended()
        self._enqueue(selection_id, units.ravel())
        return True

    def _forget_ended(self) -> None:
        """Jobs that are over make room, if they are many."""
        if self.jobs.used < max(MANY, 2 * (len(self.running) + len(self.buffer))):
            return
        active = np.sort([*(place for _, place in self.running), *self.buffer]).astype(np.int64)
        self.jobs.keep(active)
        self.buffer[:] = np.searchsorted(active, self.buffer).tolist()
        places = np.searchsorted(active, [place for _, place in self.running]).tolist()
        self.running = [(arrives_s, place) for (arrives_s, _), place in zip(self.running, places, strict=True)]
        self._find_unusual()

    def _enqueue(self, selection_id: int, clients: NDArray[np.int32]) -> None:
        """Draws the whole trip of a selected cohort at once."""
        parts = self.parts
        where = Address(selection_id, clients, parts.clients)
        request = work(parts, clients, where, parts.learner.sizes([]))
        delays = sample_delays(parts, request, where)
        self.unusual.update((self.jobs.used + np.flatnonzero(~delays.lives)).tolist())
        trip_s = {"download_s": delays.down_s, "compute_s": delays.compute_s, "reply_s": delays.up_s}
        self.jobs.append(
            job=job_ids(selection_id, clients), client=clients, lives=delays.lives, down_bytes=delays.down_bytes,
            up_bytes=delays.up_bytes, **trip_s,
        )  # fmt: skip
        self.trips = list(zip(*(seconds[::-1].tolist() for seconds in trip_s.values()), strict=True))

    def _count_changes(self) -> None:
        """Writes down and counts in one go who has departed and who was rejected since the last time."""
        jobs, costs, departed = self.jobs, self.accounts.costs, len(self.departures)
        if departed:
            last = jobs.used - len(self.trips)
            places = slice(last - departed, last)
            started_s, arrives_s = np.array(self.departures).T
            jobs["started_s"][places], jobs["arrives_s"][places] = started_s, arrives_s
            jobs["version"][places] = self.global_model.version
            jobs["serial"][places] = np.arange(self.serial + 1, self.serial + departed + 1)
            self.serial += departed
            self.busy[jobs["client"][places]] = True
            down_bytes = int(jobs["down_bytes"][places].sum())
            costs.bytes_down += down_bytes
            costs.clear_bytes += down_bytes
            self.global_model.hold(self.global_model.version, departed)
            self.departures.clear()
        if self.rejected:
            self._end_rejected()

    def _end_rejected(self) -> None:
        """Jobs end outside of any sum: they have failed, or their updates are too old."""
        (places, self.rejected), jobs, costs = (self.rejected, []), self.jobs, self.accounts.costs
        lives, ended = jobs["lives"][places] == 1, jobs.jobs(places)
        for job, arrives_s, stale in zip(ended, jobs["arrives_s"][places].tolist(), lives.tolist(), strict=True):
            staleness = self.global_model.version - job.version if stale else None
            self.accounts.end_job(job, arrives_s, "stale" if stale else "failed", None, staleness)
        costs.failed_upload += int((~lives).sum())
        costs.bytes_up += int(jobs["up_bytes"][places][lives].sum())
        self.parts.learner.discard(ended)
        self.release(places)

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Who is at work and who is to be, as :meth:`simfl.agents.buffered.dispatcher.Dispatcher.state` names it."""
        return {
            "serial": np.int64(self.serial),
            "queue": self.jobs["job"][self.jobs.used - len(self.trips) :].copy(),
            **prefix_arrays("task", self.jobs.save(self.at_work())),
            **prefix_arrays("queries", self.queries.state()),
        }

    def at_work(self) -> NDArray[np.int64]:
        """Places of the jobs at work, in the order in which they departed."""
        return np.sort(np.array([place for _, place in self.running], dtype=np.int64))

    def restore(self, state: Arrays) -> None:
        """Goes back to a :meth:`state`; the global model must have been restored."""
        self.queries.restore(under("queries", state))
        self.serial = int(state["serial"])
        self.jobs.load(under("task", state))
        self.running = list(zip(self.jobs["arrives_s"].tolist(), range(self.jobs.used), strict=True))
        heapify(self.running)
        self.free -= len(self.running)
        places = self.at_work()
        self.busy[self.jobs["client"][places]] = True
        self._for_versions(places, self.global_model.hold)
        if queued := state["queue"].tolist():
            clients = np.array([JobId(job).client for job in queued], dtype=np.int32)
            self._enqueue(JobId(queued[0]).selection, clients)


class JobColumns:
    """Planned jobs and those at work, a place each, in the order in which they depart; a million of them cost little.

    Attributes:
        used: places that hold a job, the first ones.
    """

    def __init__(self) -> None:
        self.used = 0
        self._times = np.full((len(TIMES), 64), np.nan)
        self._numbers = np.zeros((len(NUMBERS), 64), dtype=np.int64)
        self._name_rows()

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column of :data:`simfl.agents.buffered.async_job.TIMES` or ``NUMBERS``, (used,); it can be written to."""
        table, i = self._rows[name]
        return table[i, : self.used]

    def append(self, **columns: NDArray[Any]) -> None:
        """More jobs: columns by name, ``job`` among them; the others are empty until they are written to."""
        size = len(columns["job"])
        first, self.used = self.used, self.used + size
        if (lacking := self.used - self._times.shape[1]) > 0:
            more = max(lacking, self._times.shape[1])
            self._times = np.pad(self._times, ((0, 0), (0, more)), constant_values=np.nan)
            self._numbers = np.pad(self._numbers, ((0, 0), (0, more)))
            self._name_rows()
        self._times[:, first : self.used], self._numbers[:, first : self.used] = np.nan, 0
        for name, values in columns.items():
            self[name][first:] = values

    def keep(self, places: NDArray[np.int64]) -> None:
        """Only these, ascending; they come to the first places."""
        self._times[:, : len(places)] = self._times[:, places]
        self._numbers[:, : len(places)] = self._numbers[:, places]
        self.used = len(places)

    def jobs(self, places: NDArray[np.int64] | Sequence[int]) -> list[Job]:
        """What the learner and the tables call these jobs."""
        columns = (self[name][places].tolist() for name in ("job", "client", "version", "started_s"))
        return list(map(Job, *columns))

    def save(self, places: NDArray[np.int64]) -> Arrays:
        """These jobs, as :func:`simfl.agents.buffered.async_job.save_jobs` does: each in a unit of its own."""
        times, numbers = self._times[:, places], self._numbers[:, places]
        units: Any = np.arange(len(places))
        for name, values in (("unit", units), ("received_version", -1), ("prepares", 0), ("departed", 1)):
            numbers[NUMBERS.index(name)] = values
        times[TIMES.index("unit_started_s")] = times[TIMES.index("started_s")]
        times[TIMES.index("ended_s")] = np.nan
        return {"times": np.ascontiguousarray(times.T), "numbers": np.ascontiguousarray(numbers.T)}

    def load(self, state: Arrays) -> None:
        """Appends the jobs that :meth:`save` was given."""
        self.append(**dict(zip((*TIMES, *NUMBERS), (*state["times"].T, *state["numbers"].T), strict=True)))

    def _name_rows(self) -> None:
        self._rows = {name: (self._times, i) for i, name in enumerate(TIMES)}
        self._rows |= {name: (self._numbers, i) for i, name in enumerate(NUMBERS)}


def takes_blocks(parts: Components[Any], traced: bool) -> bool:
    """Whether nothing depends on single events between two aggregations; ``traced``: they are written down."""
    protocol, rule = parts.protocol, parts.rule
    whole = protocol.sums_whoever_comes and not protocol.phases
    known_before = (
        not (parts.message_by_message or is_told(parts.available)) and rule.deadline_s is None and not parts.jobs_vary
    )
    return whole and known_before and parts.policy.unit_size == 1 and "seconds" not in parts.policy.reads and not traced


@dataclass(eq=False)
class BlockServer(Server[BufferedRule]):
    """Handles a block of arrivals, up to the next aggregation, as one event.

    Args: as for :class:`simfl.agents.servers.Server`, without a log.
    """

    counts_unsummed = True
    follows_policy = True

    def start(self) -> None:
        """Nobody is at work, and the buffer is empty."""
        self.working = WorkingClients(self.parts, self.global_model, self.accounts)
        self.recoveries = 0
        self.summed = np.empty(0, dtype=np.int64)

    def run(self) -> Process[None]:
        """Goes on until the rule says that the run ends."""
        last = False
        while not last:
            yield self.world.until(self.working.fill(self.world.now))
            last = self._aggregate()

    def _aggregate(self) -> bool:
        """Takes a step on the full buffer; True if it was the last."""
        parts, version, working = self.parts, self.global_model.version, self.working
        arrived = np.array(working.buffer, dtype=np.int64)
        clients = working.jobs["client"][arrived].astype(np.int32)
        everybody, nothing = np.ones((len(clients), 1), dtype=bool), [None] * len(clients)
        versions = working.jobs["version"][arrived][:, None]
        cohort = parts.buffered_cohort(parts.cohort(version, clients[:, None], versions), version - versions, 0)
        session = parts.protocol.recover(cohort, everybody, nothing, parts.streams)
        number, self.recoveries = self.recoveries, self.recoveries + 1
        completed = run_session(parts, session, number, self.world.now, "recover")
        self.accounts.add_session(completed, version)
        result = completed.result
        assert isinstance(result, SessionResult) and result.kept_units.all(), "it sums whoever comes"
        self.summed = arrived[np.argsort(clients)]
        working.buffer.clear()
        ages = version - working.jobs["version"][self.summed]
        done = self.aggregate(working.jobs.jobs(self.summed), result, ages, result.row)
        self.on_round(done)
        return done.last

    def end_jobs(self, jobs: list[Job], done: RoundResult, staleness: NDArray[np.int64] | None) -> None:
        """The aggregated jobs end."""
        assert staleness is not None, "a buffered server's updates have an age"
        table = self.working.jobs
        columns = (table[name][self.summed] for name in ("job", "client", "version", "started_s", "arrives_s"))
        cells = [
            *(column.tolist() for column in columns),
            repeat("aggregated"),
            repeat(done.number),
            staleness.tolist(),
        ]
        self.accounts.job_rows += map(JobRow, *cells)
        self.working.release(self.summed)

    def report(self, done: RoundResult) -> RoundResult:
        """The round with the fates of its jobs; after the last one the open ones' too."""
        if done.last:
            places, jobs, now = self.working.at_work(), self.working.jobs, self.world.now
            computed_s = (jobs["started_s"] + jobs["download_s"] + jobs["compute_s"])[places]
            sent = (jobs["lives"][places] == 1) & (computed_s <= now)
            for job, left in zip(jobs.jobs(places), sent.tolist(), strict=True):
                self.accounts.end_job(job, now, "open", sent=left)
        self.working.retry_at = 0.0  # a new model is a reason to ask again
        return super().report(done)

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Besides: who is at work; the buffer is empty after an aggregation."""
        return super().state() | {
            "recoveries": np.int64(self.recoveries),
            "buffer": np.empty(0, dtype=np.int64),
            **prefix_arrays("dispatcher", self.working.state()),
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`."""
        super().restore(state, tally)
        self.recoveries = int(state["recoveries"])
        self.working.restore(under("dispatcher", state))
