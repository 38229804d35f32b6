"""The buffered server where nobody looks at single events: all that happens up to an aggregation is one event.

It gives the same tables and the same checkpoints as :class:`simfl.agents.buffered.server.BufferedServer`, in a fraction
of the time. That one has an event for every job, and is needed where something depends on single jobs in the course of
a round: a trace, a shared link, a deadline, units of several clients, a protocol that prepares them, sizes or passes
that depend on the version or the client, data that grow, a policy that reads how long jobs took.
"""

from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components, RoundResult
from simfl.agents.aggregation.session_run import run_session
from simfl.agents.aggregation.state import Arrays, prefix_arrays, under
from simfl.agents.buffered.working_clients import WorkingClients
from simfl.agents.servers import Server
from simfl.agents.world import Process
from simfl.core.types import Job
from simfl.metrics.participation import Tally
from simfl.results.tables import JobRow
from simfl.secagg.sessions import SessionResult
from simfl.training.base import BufferedRule


def takes_blocks(parts: Components[Any], traced: bool) -> bool:
    """Whether nothing depends on single events between two aggregations; ``traced``: they are written down."""
    protocol, rule = parts.protocol, parts.rule
    whole = protocol.sums_whoever_comes and not protocol.phases
    known_before = parts.sharing is None and rule.deadline_s is None and not parts.jobs_vary
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
