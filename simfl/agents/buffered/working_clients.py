"""The clients at work for a buffered server where nobody looks at single events: all up to a full buffer in one loop.

The order of things is that of :mod:`simfl.agents.buffered.server`. Here every unit is one client, nothing is prepared,
no link is shared, nobody is late and no job depends on the version of the model, so that between two aggregations an
arrival changes nothing but who is at work.
The loop knows a job's place in :class:`simfl.agents.buffered.job_columns.JobColumns`, how long it takes, and whether it
ends as usual; everything else is done with whole columns.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from math import inf

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.accounts import RoundAccounts
from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.exchange import sample_delays, work
from simfl.agents.aggregation.global_model import GlobalModelState
from simfl.agents.aggregation.policy_queries import MAX_FAILED_JOBS, PolicyQueries, stall_error
from simfl.agents.aggregation.state import Arrays, prefix_arrays, under
from simfl.agents.buffered.job_columns import JobColumns
from simfl.core.rng import Address
from simfl.core.types import JobId, job_ids
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
                    self._reject(place, arrived_s)
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

    def _reject(self, place: int, now_s: float) -> None:
        """A job ends outside of any sum."""
        if not self.jobs["lives"][place] and (failed := self.accounts.failed_in_a_row) > MAX_FAILED_JOBS:
            raise stall_error(f"{failed} jobs in a row have failed", now_s)
        self.accounts.costs.failed += 1
        self.rejected.append(place)

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
            self._end_rejected(self.rejected)
            self.rejected = []

    def _end_rejected(self, places: list[int]) -> None:
        """Jobs end outside of any sum: they have failed, or their updates are too old."""
        jobs, costs = self.jobs, self.accounts.costs
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
