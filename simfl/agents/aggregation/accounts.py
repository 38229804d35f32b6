"""What a server reports with its next round: costs, phases of protocol sessions, fates of jobs, events."""

from collections.abc import Callable
from typing import Any

import numpy as np

from simfl.agents.aggregation.components import Components, RoundCosts
from simfl.agents.aggregation.exchange import CompletedSession, Exchange
from simfl.core.json_data import JsonObject
from simfl.core.types import Bools, Integers, Job, Units
from simfl.learning.base import Sizes
from simfl.results.tables import JobRow, PhaseRow
from simfl.secagg.sessions import Cohort, SessionFailure, SessionResult
from simfl.secagg.transcript import Transcript

Log = Callable[[JsonObject], None]
"""Takes a record of events.jsonl."""


class RoundAccounts:
    """Costs, phases and the fates of jobs since the last round.

    Args:
        log: called with a record for every event, or None.

    Attributes:
        costs: bytes and failures; what is no exchange is added here.
        failed_at_success: how many jobs had failed when an update was admitted last.
        sums: that sessions have opened.
        failed_draws: sums that failed because of what the server had drawn for them.
        unsummed: whose update was sent to the server and is in no session, a client as often as that happened.
        transcripts: whom the server heard in each session after the upload.
    """

    def __init__(self, log: Log | None) -> None:
        self.log = log
        self.begin()

    def begin(self) -> None:
        """Starts anew: what was counted has been reported."""
        self.costs = RoundCosts()
        self.failed_at_success = self.failed_draws = self.sums = 0
        self.phases: list[PhaseRow] = []
        self.job_rows: list[JobRow] = []
        self.unsummed: list[int] = []
        self.transcripts: list[Transcript] = []

    @property
    def failed_in_a_row(self) -> int:
        """Jobs that have failed since an update was admitted last."""
        return self.costs.failed - self.failed_at_success

    def end_job(
        self, job: Job, ended_s: float, outcome: str, round: int | None = None, staleness: int | None = None,
        sent: bool = True,
    ) -> None:  # fmt: skip
        """Notes a job's one and only end, as :class:`simfl.results.tables.JobRow` says; ``sent``: its update was sent,
        unless the client had failed. Those that are unrecovered are in a transcript.
        """
        if sent and outcome not in ("aggregated", "failed", "unrecovered"):
            self.unsummed.append(job.client)
        start = job.id, job.client, job.version, job.started_at
        self.job_rows.append(JobRow(*start, ended_s, outcome, round, staleness))

    def add_session(self, completed: CompletedSession[Any], round: int, instant_s: float | None = None) -> None:
        """Counts a protocol session that has ended.

        Args:
            completed: the session.
            round: the aggregation that pays for it.
            instant_s: when all of it is said to have happened; None = when it did, seconds.
        """
        for phase in completed.phases(round):
            timeless = phase if instant_s is None else phase._replace(started_s=instant_s, ended_s=instant_s)
            self.phases.append(timeless)
        for each in completed.exchanges:
            self.add_exchange(each, instant_s=instant_s)
        self.sums += isinstance(completed.result, SessionResult) and bool(completed.result.kept_units.any())
        if isinstance(completed.result, SessionFailure):
            self.failed_draws += completed.result.redraw

    def begin_work(self, round: int, clients: list[int], population: int) -> None:
        """Where the run ends before :meth:`add_work`, all of these, (n,), may have sent their updates."""
        self.transcripts = [Transcript.of(round, clients, population, summed=True, response_count=0)]

    def add_work(
        self, parts: Components[Any], t: int, units: Units, active: Bools, done: Exchange, sizes: Sizes
    ) -> tuple[Bools, Bools]:
        """Counts the work of a round's units, (units, size); who has sent what begins a transcript.

        Args:
            parts: the built scenario.
            t: the round.
            units: for whom the protocol has prepared the sum.
            active: who of them was asked, bool (clients in units,).
            done: the exchange with these.
            sizes: of their messages.

        Returns:
            Whose update arrived in time, and who was no longer waited for, bool (clients in units,).
        """
        clear = (sizes.down_bytes, parts.clear_bytes(sizes.up_bytes))
        down, up = (np.broadcast_to(np.asarray(size, dtype=np.int64), len(done.request.to)) for size in clear)
        self.costs.clear_bytes += int(down.sum() + up[done.responded].sum())
        self.costs.failed_upload += int((~(done.responded | done.late)).sum())
        arrived, late, sent = np.zeros((3, units.size), dtype=bool)
        arrived[active], late[active], sent[active] = done.responded, done.late, done.sent
        whole = np.repeat(arrived.reshape(units.shape).all(axis=1), units.shape[1])
        nobody = np.zeros(units.size, dtype=bool)
        self.transcripts = [Transcript(t, units.ravel(), active, sent, whole, nobody, False, 0, parts.clients)]
        return arrived, late

    def add_unopened(self, parts: Components[Any], t: int, cohort: Cohort, now_s: float, on_its_way: bool) -> None:
        """A round whose protocol is not asked for the sum of what has arrived, or could not give it: whom it tolerates
        all the same. Shared secrets of its cohort see to that, or that what has arrived tells the server nothing by
        itself, where nothing else is on its way.
        """
        protocol, tolerated = parts.protocol, -1
        if protocol.shows_updates or protocol.assumes:
            return
        if protocol.opens_last:
            tolerated = protocol.tolerance(cohort.units.size, parts.clients) or 0
        elif not on_its_way:
            rows = protocol.view(self.transcripts[-1], np.zeros(0, np.int32), parts.streams)
            tolerated = -bool(rows.nnz)
        self.phases.append(PhaseRow(t, "recover", now_s, now_s, 0, 0, 0, 0, 0, None, tolerated))

    def end_transcript(self, recovery: CompletedSession[SessionResult | SessionFailure], size: int) -> None:
        """Of the session that was heard last what came of it; its units have so many clients."""
        result, last = recovery.result, self.transcripts[-1]
        in_sum = np.repeat(result.kept_units, size) if isinstance(result, SessionResult) else None
        self.transcripts[-1] = last.after(in_sum, recovery.responders)

    def lose(self, round: int, clients: list[int], population: int, recovery: CompletedSession[Any]) -> None:
        """Notes updates that a session could not sum."""
        if clients:
            count = 0 if recovery.responders is None else len(recovery.responders)
            self.transcripts.append(Transcript.of(round, clients, population, summed=True, response_count=count))

    def add_exchange(self, exchange: Exchange, jobs: Integers | None = None, instant_s: float | None = None) -> None:
        """Counts an exchange that has ended; ``jobs`` are the numbers of its clients' jobs, ``instant_s`` as above."""
        self.costs.bytes_down += exchange.bytes_down
        self.costs.bytes_up += exchange.bytes_up
        self.costs.bytes_sent_up += exchange.bytes_sent_up
        if self.log is not None:
            for record in exchange.records(jobs):
                timeless = {k: instant_s if k.endswith("_s") else v for k, v in record.items()}
                self.log(record if instant_s is None else timeless)

    def note(self, event: str, time_s: float, **record: object) -> None:
        """Writes a record of events.jsonl."""
        self.write({"event": event, "time_s": time_s, **record})

    def write(self, record: JsonObject) -> None:
        """Writes a whole record of events.jsonl, where there is one."""
        if self.log is not None:
            self.log(record)
