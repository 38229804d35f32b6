"""The clients at work for a buffered server where nobody looks at single events: all up to a full buffer in one loop.

The order of things is that of :mod:`simfl.agents.buffered.server`. Here every unit is one client, nothing is prepared,
no link is shared and nobody is late, so that between two aggregations an arrival changes nothing but who is at work.
"""

from collections import Counter, deque
from heapq import heapify, heappop, heappush
from math import inf
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.accounts import RoundAccounts
from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.exchange import sample_delays, work
from simfl.agents.aggregation.global_model import GlobalModelState
from simfl.agents.aggregation.policy_queries import MAX_FAILED_JOBS, PolicyQueries, stall_error
from simfl.agents.aggregation.state import Arrays, prefix_arrays, under
from simfl.agents.buffered.running_jobs import Planned, Running, load_running, save_running
from simfl.core.rng import Address
from simfl.core.types import JobId, job_ids
from simfl.training.base import BufferedRule


class WorkingClients:
    """Gives out work whenever slots are free, and fills the buffer with what arrives.

    Args:
        parts: the built scenario.
        global_model: whose model versions go out.
        accounts: what is counted for the next round.

    Attributes:
        running: the jobs at work, a heap.
        buffer: the jobs whose updates wait for the aggregation, in the order of their arrivals.
        retry_at: simulated time before which the policy is not asked again, seconds.
    """

    def __init__(
        self, parts: Components[BufferedRule], global_model: GlobalModelState, accounts: RoundAccounts
    ) -> None:
        self.parts, self.global_model, self.accounts = parts, global_model, accounts
        self.queries = PolicyQueries(parts, None)
        self.free: int = parts.rule.concurrency
        self.busy = np.zeros(parts.clients, dtype=bool)
        self.queue: deque[Planned] = deque()
        self.queue_version = 0
        self.running: list[Running] = []
        self.buffer: list[Running] = []
        self.started: list[Planned] = []
        self.rejected: list[Running] = []
        self.serial = 0
        self.retry_at = 0.0

    def fill(self, now_s: float) -> float:
        """Plays on from ``now_s`` until the buffer is full; the simulated time of that, seconds."""
        running, buffer, accounts, rule = self.running, self.buffer, self.accounts, self.parts.rule
        version, size = self.global_model.version, rule.buffer
        while True:
            while running and running[0].arrives_s <= now_s:
                job = heappop(running)
                self.free += 1
                if not job.planned.lives:
                    self._fail(job)
                elif rule.refuses(version - job.version):
                    accounts.costs.bytes_up += job.planned.up_bytes
                    self._reject(job, "stale", version - job.version)
                else:
                    accounts.failed_at_success = accounts.costs.failed
                    buffer.append(job)
                    if len(buffer) >= size:
                        accounts.costs.bytes_up += sum(job.planned.up_bytes for job in buffer)
                        self._count_changes()
                        return now_s
            self._refill(now_s)
            now_s = min(running[0].arrives_s if running else inf, self.retry_at if self.retry_at > now_s else inf)

    def release(self, jobs: list[Running]) -> None:
        """The fate of these jobs is decided; their clients can be selected again."""
        self.busy[[job.planned.client for job in jobs]] = False
        for version, times in Counter([job.version for job in jobs]).items():
            self.global_model.release(version, times)

    def _fail(self, job: Running) -> None:
        if (failed := self.accounts.failed_in_a_row) > MAX_FAILED_JOBS:
            raise stall_error(f"{failed} jobs in a row have failed", job.arrives_s)
        self.accounts.costs.failed_upload += 1
        self._reject(job, "failed")

    def _reject(self, job: Running, outcome: str, staleness: int | None = None) -> None:
        """A job ends outside of any sum."""
        ended = job.job
        self.accounts.end_job(ended, job.arrives_s, outcome, None, staleness)
        self.accounts.costs.failed += 1
        self.parts.learner.discard([ended])
        self.rejected.append(job)

    def _refill(self, now_s: float) -> None:
        """Gives out new work when all that happens at this instant has happened."""
        queue, running, version = self.queue, self.running, self.global_model.version
        while True:
            for _ in range(min(self.free, len(queue))):
                planned = queue.popleft()
                self.free -= 1
                self.serial += 1
                arrives_s = now_s + planned.download_s + planned.compute_s + planned.reply_s
                heappush(running, Running(arrives_s, self.serial, version, now_s, planned))
                self.started.append(planned)
            if queue or not self.free or now_s < self.retry_at or not self._ask(now_s):
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
        self._enqueue(selection_id, model.version, units.ravel())
        return True

    def _enqueue(self, selection_id: int, version: int, clients: NDArray[np.int32]) -> None:
        """Draws the whole trip of a cohort at once, which was selected at a version of the model."""
        parts, self.queue_version = self.parts, version
        where = Address(selection_id, clients, parts.clients)
        request = work(parts, clients, where, parts.learner.sizes([]), version)
        columns = (job_ids(selection_id, clients), clients, *sample_delays(parts, request, where)[:6])
        self.queue.extend(map(Planned._make, zip(*(column.tolist() for column in columns), strict=True)))

    def _count_changes(self) -> None:
        """Counts in one go who has started and who was rejected since the last time."""
        started, costs = self.started, self.accounts.costs
        if started:
            self.busy[[planned.client for planned in started]] = True
            down_bytes = sum(planned.down_bytes for planned in started)
            costs.bytes_down += down_bytes
            costs.clear_bytes += down_bytes
            self.global_model.hold(self.global_model.version, len(started))
        if self.rejected:
            self.release(self.rejected)
        self.started, self.rejected = [], []

    # -- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Who is at work and who is to be, as :meth:`simfl.agents.buffered.dispatcher.Dispatcher.state` names it."""
        return {
            "serial": np.int64(self.serial),
            "queue": np.array([planned.id for planned in self.queue], dtype=np.int64),
            "queue_version": np.int64(self.queue_version if self.queue else 0),
            **prefix_arrays("task", save_running(self.in_order())),
            **prefix_arrays("queries", self.queries.state()),
        }

    def in_order(self) -> list[Running]:
        """The jobs at work, in the order in which they started."""
        return sorted(self.running, key=attrgetter("serial"))

    def restore(self, state: Arrays) -> None:
        """Goes back to a :meth:`state`; the global model must have been restored."""
        self.queries.restore(under("queries", state))
        self.serial = int(state["serial"])
        if queued := state["queue"].tolist():
            clients = np.array([JobId(job).client for job in queued], dtype=np.int32)
            self._enqueue(JobId(queued[0]).selection, int(state["queue_version"]), clients)
        self.running = load_running(under("task", state))
        heapify(self.running)
        self.free -= len(self.running)
        self.busy[[job.planned.client for job in self.running]] = True
        for version, times in Counter([job.version for job in self.running]).items():
            self.global_model.hold(version, times)
