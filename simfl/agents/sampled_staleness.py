"""The asynchronous server without a clock: staleness is drawn, as in arXiv 2110.02177, section 6."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import RoundResult
from simfl.agents.aggregation.exchange import WORK, CompletedSession, computation, message, run_session
from simfl.agents.aggregation.policy_queries import MAX_FAILED_JOBS, PolicyQueries, stall_error
from simfl.agents.servers import SERVERS, RoundServer
from simfl.agents.world import Process
from simfl.core.rng import Address
from simfl.core.types import SERVER, Arrays, Job, Units, prefix_arrays, under
from simfl.devices.base import checked_deaths
from simfl.metrics.participation import Tally
from simfl.secagg.sessions import PreparedUnits, SessionFailure, SessionResult
from simfl.training.base import SampledStalenessRule

Member = tuple[Job, int]
"""A job and the staleness of its update."""


@SERVERS("drawn")
@dataclass(eq=False)
class SampledStalenessServer(RoundServer[SampledStalenessRule]):
    """Aggregation t takes K clients by the policy; each has worked on the model of τ aggregations ago.

    τ is uniform on 0 ... min(max, t): one draw for a unit, or one for each client where the rule weighs its members
    separately. Nothing prevents a client from taking part while an older update of its own is on its way: there is no
    way. A protocol's phases cost bytes, and those that recover the sum cost time; every aggregation takes the same.

    Args: as for :class:`simfl.agents.servers.RoundServer`.
    """

    counts_unsummed = True
    follows_policy = True

    def start(self) -> None:
        """Nobody has delivered yet; version 0 may be worked on."""
        self.global_model.hold(0)
        self.queries = PolicyQueries(self.parts, self.log)
        self.recoveries = 0
        self.units: list[tuple[list[Member], Any]] = []

    def round(self, t: int) -> Process[RoundResult]:
        """Fills the buffer and recovers its sum, again and again until there is one."""
        self.note("round_start", round=t)
        reason = ""
        while True:
            yield from self._fill(reason)
            yield self.world.wait(self.parts.rule.arrivals.seconds)
            members, session = yield from self._recover()
            if members and isinstance(session, SessionResult):
                members = sorted(members, key=lambda member: member[0].client)
                staleness = np.array([age for _, age in members], dtype=np.int64)
                return self.aggregate([job for job, _ in members], session, staleness, session.row)
            self.accounts.failed_at_success = 0
            reason = session.reason if isinstance(session, SessionFailure) else "nothing could be recovered"

    def _fill(self, reason: str) -> Process[None]:
        """Selects until K clients have delivered; ``reason``: why the sum before has failed, if it has."""
        rule = self.parts.rule
        while True:
            busy = np.zeros(self.parts.clients, dtype=bool)
            busy[[job.client for unit, _ in self.units for job, _ in unit]] = True
            if (missing := rule.buffer - int(busy.sum())) <= 0:
                return
            version, known = self.global_model.version, self.global_model.records.known(self.global_model.version)
            selection_id, units = self.queries.ask(
                version, busy, self.tally.participation, missing, self.world.now, True, known
            )
            if not units.size:
                yield self.world.wait(rule.retry_s)
            if (failed := self.accounts.failed_in_a_row) > MAX_FAILED_JOBS:
                why = f"{failed} jobs in a row have failed"
                raise stall_error(f"{why} ({reason})" if reason else why, self.world.now)
            for unit in self._units(self._at_most(missing, units, selection_id), selection_id):
                self._deliver(unit)

    def _at_most(self, clients: int, units: Units, selection_id: int) -> Units:
        """The units, clients one by one where the rule takes them so; a random part of them if more than fit."""
        if self.parts.rule.partial:
            units = units.reshape(-1, 1)
        if units.size <= clients:
            return units
        order = self.parts.streams("surplus", selection_id).permutation(len(units))
        return units[np.sort(order[: clients // units.shape[1]])]

    def _units(self, units: Units, selection_id: int) -> list[list[tuple[Job, int, bool]]]:
        """Each unit's jobs with their staleness and whether they deliver."""
        parts, rule, t = self.parts, self.parts.rule, self.global_model.version
        clients = units.ravel()
        where = Address(selection_id, clients, parts.clients)
        u = parts.streams.at("staleness", where, lambda rng, size: rng.random(size)).reshape(units.shape)
        if rule.unit_weights == "common":
            u = np.broadcast_to(u[:, :1], units.shape)
        staleness: NDArray[np.int64] = (u * (min(rule.arrivals.max, t) + 1)).astype(np.int64)
        death = checked_deaths(parts.failing.draw(clients, where, WORK), len(clients), parts.failing)
        lives: NDArray[np.bool_] = np.isnan(death).reshape(units.shape)
        return [
            [
                (Job.of(selection_id, client, t - age, self.world.now), age, alive)
                for client, age, alive in zip(*columns, strict=True)
            ]
            for columns in zip(units.tolist(), staleness.tolist(), lives.tolist(), strict=True)
        ]

    def _deliver(self, unit: list[tuple[Job, int, bool]]) -> None:
        """A unit enters the buffer, or all of its jobs end: it was not prepared, somebody died, or it is too stale."""
        session = self._prepare(unit)
        whole, oldest = all(alive for _, _, alive in unit), max(age for _, age, _ in unit)
        prepared = None if session is None else session.result
        ready = session is None or isinstance(prepared, PreparedUnits) and bool(prepared.kept_units.all())
        if ready and whole and not self.parts.rule.refuses(oldest):
            self.accounts.failed_at_success = self.accounts.costs.failed
            secret = prepared.secret if isinstance(prepared, PreparedUnits) else None
            self.units.append(([(job, age) for job, age, _ in unit], secret))
            return
        stale = ready and whole
        if ready:
            self._add_work(unit)
        for job, age, alive in unit:
            outcome = "stale" if stale else "forfeited" if ready and alive else "failed"
            self._fail(job, outcome, age if stale else None)

    def _fail(self, job: Job, outcome: str, staleness: int | None = None) -> None:
        """A job ends without having been aggregated."""
        self.accounts.end_job(job, self.world.now, outcome, None, staleness)
        self.accounts.costs.failed += 1
        self.parts.learner.discard([job])

    def _prepare(self, unit: list[tuple[Job, int, bool]]) -> CompletedSession[PreparedUnits | SessionFailure] | None:
        """The protocol's session before a unit's models went out; when that was nobody says, so it takes no time."""
        parts = self.parts
        if not parts.protocol.phases:
            return None
        jobs = [job for job, _, _ in unit]
        selection_id = jobs[0].selection
        session = parts.protocol.prepare(parts.cohort_of(selection_id, [jobs]), parts.streams)
        completed = run_session(parts, session, selection_id, self.world.now, "prepare")
        self.accounts.add_session(completed, self.global_model.version, instant_s=self.world.now)
        return completed

    def _add_work(self, unit: list[tuple[Job, int, bool]]) -> None:
        """The models and updates of a unit; only between its start and now, when it delivers, does time pass."""
        jobs, now, costs = [job for job, _, _ in unit], self.world.now, self.accounts.costs
        down, clear, _ = self.parts.learner.sizes(jobs)
        up, clear = self.parts.upload_bytes(clear), self.parts.clear_bytes(clear)
        lives = np.array([alive for _, _, alive in unit])
        down, up, clear = (np.broadcast_to(np.asarray(size, dtype=np.int64), len(unit)) for size in (down, up, clear))
        up = np.where(lives, up, 0)
        costs.bytes_down += int(down.sum())
        costs.bytes_up += int(up.sum())
        costs.clear_bytes += int(down.sum() + clear[lives].sum())
        costs.failed_upload += int((~lives).sum())
        if self.log is None:
            return
        for (job, _, alive), sent, back in zip(unit, down.tolist(), up.tolist(), strict=True):
            self.log(message("model", SERVER, job.client, sent, job.started_at, job.started_at))
            self.log(computation(job.id, job.client, job.started_at, now, alive))
            self.log(message("update" if alive else "failure", job.client, SERVER, back, now, now))

    def _recover(self) -> Process[tuple[list[Member], SessionResult | SessionFailure]]:
        """The protocol's sum of the buffer, which is empty then: the members of the units in it, and its end."""
        parts, delivered = self.parts, self.units
        ages = np.array([[age for _, age in unit] for unit, _ in delivered], dtype=np.int64)
        cohort = parts.cohort_of(self.global_model.version, [[job for job, _ in unit] for unit, _ in delivered])
        cohort = parts.buffered_cohort(cohort, ages, self.accounts.failed_draws)
        everybody, secrets = np.ones(cohort.units.shape, dtype=bool), [secret for _, secret in delivered]
        session = parts.protocol.recover(cohort, everybody, secrets, parts.streams)
        number, self.recoveries = self.recoveries, self.recoveries + 1
        recovery = yield from self.run_session(session, number, "recover")
        outcome = recovery.result
        in_sum = [False] * len(delivered) if isinstance(outcome, SessionFailure) else outcome.kept_units.tolist()
        self.units = []
        members: list[Member] = []
        lost_units = (unit for (unit, _), good in zip(delivered, in_sum, strict=True) if not good)
        clients = [job.client for unit in lost_units for job, _ in unit]
        self.accounts.lose(self.global_model.version, clients, parts.clients, recovery)
        for (unit, _), summed in zip(delivered, in_sum, strict=True):
            self._add_work([(job, age, True) for job, age in unit])
            if summed:
                members += unit
            else:
                for job, _ in unit:
                    self._fail(job, "unrecovered")
        return members, outcome

    def end_jobs(self, jobs: list[Job], done: RoundResult, staleness: NDArray[np.int64] | None) -> None:
        """The jobs' rows; and the versions that no update of the next aggregation can have worked on are forgotten."""
        ages = [] if staleness is None else staleness.tolist()
        for job, age in zip(jobs, ages, strict=True):
            self.accounts.end_job(job, self.world.now, "aggregated", done.number, age)
        version, window = self.global_model.version, self.parts.rule.arrivals.max
        self.global_model.hold(version)
        if version > window:
            self.global_model.release(version - window - 1)

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Besides: how many selections and recoveries there were, which address draws."""
        numbers = {"recoveries": np.int64(self.recoveries)}
        return super().state() | numbers | prefix_arrays("queries", self.queries.state())

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`."""
        self.global_model.release(0)
        super().restore(state, tally)
        for version in range(max(0, tally.rounds - self.parts.rule.arrivals.max), tally.rounds + 1):
            self.global_model.hold(version)
        self.recoveries = int(state["recoveries"])
        self.queries.restore(under("queries", state))
