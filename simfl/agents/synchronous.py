"""The synchronous server agent (McMahan et al. 2017, Algorithm 1, on a clock)."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import RoundResult
from simfl.agents.aggregation.exchange import ASK, message, work
from simfl.agents.aggregation.policy_queries import question
from simfl.agents.servers import SERVERS, RoundServer, jobs_in_sum
from simfl.agents.world import Process
from simfl.core.columns import LATE, REFUSED
from simfl.core.errors import PluginError
from simfl.core.json_data import JsonObject
from simfl.core.payload import SCORE_BYTES
from simfl.core.rng import Address
from simfl.core.types import SERVER, Job, Units
from simfl.secagg.sessions import Cohort, PhaseRequest, PreparedUnits, SessionFailure, SessionResult
from simfl.selection.asking import ask_candidates
from simfl.training.base import SynchronousRule


@SERVERS("synchronous")
@dataclass(eq=False)
class SynchronousServer(RoundServer[SynchronousRule]):
    """Every round: ask the policy, prepare the sum, send the model, wait for the cohort, ask the policy whether the sum
    of those who arrived may be opened, recover it, step.

    Args: as for :class:`simfl.agents.servers.RoundServer`.
    """

    asks_agents = counts_unsummed = follows_policy = confirms = True
    reads = frozenset({"deadline_s", "quorum", "on_failure"})

    def start(self) -> None:
        """Nobody holds the model, and nobody works."""
        self.holds_model = np.zeros(self.parts.clients, dtype=bool)
        self.at_work: Cohort | None = None

    def set_up(self) -> Process[None]:
        """The protocol's set-up and the clients' own; both count for the first round."""
        everybody = np.arange(self.parts.clients, dtype=np.int32).reshape(-1, 1)
        session = self.parts.protocol.setup(self.parts.cohort(0, everybody, None), self.parts.streams)
        yield from self.run_session(session, 0, "setup")
        yield from self._train_alone(everybody.ravel())

    def _train_alone(self, everybody: NDArray[np.int32]) -> Process[None]:
        """What clients train alone before the first round, and the choice of a model among theirs."""
        parts = self.parts
        if (alone := parts.learner.pretrain()) is None:
            return
        if not {"model", "score"} <= {part.kind for part in parts.rule.algorithm.sends}:
            why = "pretrain has clients train alone, and their models and scores leave them"
            raise PluginError("learning", f"{why}; list a 'model' and a 'score' in the client algorithm's `sends`")
        where = Address(-1, everybody, parts.clients)
        request = work(parts, everybody, where, alone.sizes)._replace(up_bytes=parts.whole_bytes(alone.sizes.up_bytes))
        training = yield from self.gather(request, -1)
        responded = everybody[training.responded]
        request = PhaseRequest("choose", responded, training.bytes_up, SCORE_BYTES * len(responded))
        yield from self.gather(request, -1, "/choose")
        if (best := alone.best(training.responded)) is not None:
            self.global_model.begin_with(alone.start_from(best))

    def round(self, t: int) -> Process[RoundResult]:
        """Selects a cohort, has it work, and aggregates what the protocol has summed."""
        parts, units = self.parts, (yield from self._select_after_asking(t))
        outcome: SessionResult | SessionFailure | None = None
        jobs: list[Job] = []
        if units.size:
            outcome, jobs = yield from self._work_with(t, units)
            self.at_work = None
        else:
            yield self.world.wait(parts.rule.skipped_round_s)
        session = outcome if isinstance(outcome, SessionResult) and outcome.kept_units.any() else None
        summed = [] if session is None else jobs_in_sum(jobs, session, units)
        if summed and parts.rule.announce:
            yield from self._announce(t, jobs)
        row: JsonObject = {column.name: 0 for column in parts.policy.columns} | ({} if outcome is None else outcome.row)
        if LATE in parts.rule.columns:
            row[LATE.name] = self.accounts.costs.late
        done = self.aggregate(summed, session, row=row)
        parts.learner.discard(jobs)
        return done

    def leave(self) -> RoundResult:
        """The round that is under way when the run ends: nobody opens its sum, and whoever works may have sent."""
        if self.at_work is not None:
            self.accounts.add_unopened(self.parts, self.at_work.number, self.at_work, self.world.now, True)
        return self.aggregate([], None)

    def _select_after_asking(self, t: int) -> Process[Units]:
        """Selects the clients of a round; a policy that asks first hears what its candidates answer.

        Candidates who have answered hold the model and do not receive it again.
        """
        policy, view = self.parts.policy, self.view(t)
        self.holds_model = np.zeros(self.parts.clients, dtype=bool)
        if policy.asks:
            clients = ask_candidates(policy, view, policy.k, self.parts.streams("candidates", t))
            losses = np.full(self.parts.clients, np.nan)
            if clients.size:
                asking = yield from self.gather(question(self.parts, t, clients), t, f"/{ASK}")
                self.accounts.costs.clear_bytes += asking.bytes_down + asking.bytes_up  # all in clear
                self.accounts.phases.append(asking.phase(t))
                answered, batch = clients[asking.responded], policy.asked_batch if policy.asks == "batch_loss" else 0
                true = self.parts.learner.evaluator.training_losses(t, answered, batch)[:, 0]
                losses[answered] = self.global_model.records.attack_run.reports("loss", answered.tolist(), true)
                self.holds_model[answered] = True
            view = replace(view, reports={**view.reports, "asked_loss": losses})
        return self.select_among(view)

    def _work_with(self, t: int, units: Units) -> Process[tuple[SessionResult | SessionFailure | None, list[Job]]]:
        """The round's sessions and work; the protocol's end (None: the round was aborted), and the jobs by unit."""
        parts, rule, costs = self.parts, self.parts.rule, self.accounts.costs
        whole = units.reshape(-1, 1) if rule.on_failure == "partial" else units
        cohort = parts.cohort(t, whole, t)
        prepared = yield from self.prepare(t, whole)
        if isinstance(prepared, SessionFailure):
            costs.failed += whole.size
            return prepared, []
        jobs, self.at_work = Job.of_all(t, whole.ravel(), t, self.world.now), cohort
        arrived, late, on_its_way = yield from self._train(t, jobs, prepared, whole)
        failed = ~(arrived | late)
        costs.failed += int(failed.sum())
        costs.late += int(late.sum())
        if rule.on_failure == "abort" and failed.any():
            self.accounts.add_unopened(parts, t, cohort, self.world.now, on_its_way)
            return None, jobs
        if not self.admits(t, whole[arrived.reshape(whole.shape).all(axis=1)].ravel()):
            self.note("refused", round=t)
            self.accounts.add_unopened(parts, t, cohort, self.world.now, on_its_way)
            return SessionFailure("the selection policy refuses the sum", {REFUSED.name: 1}), jobs
        result = yield from self.recover(t, whole, arrived.reshape(whole.shape), prepared)
        if isinstance(result, SessionFailure) and on_its_way and not parts.protocol.opens_last:
            self.accounts.add_unopened(parts, t, cohort, self.world.now, on_its_way)
        return result, jobs

    def _train(
        self, t: int, jobs: list[Job], prepared: PreparedUnits, units: Units
    ) -> Process[tuple[NDArray[np.bool_], NDArray[np.bool_], bool]]:
        """Sends the model to the clients that were prepared and waits.

        Returns:
            Whose update arrived in time, bool (jobs,), who was no longer waited for, bool (jobs,), and whether one will
            arrive later: the server then has everything that the masks of all cancel in.
        """
        parts, rule = self.parts, self.parts.rule
        active = np.repeat(prepared.kept_units, units.shape[1])
        active_jobs = [jobs[i] for i in np.flatnonzero(active)]
        clients = units.ravel()[active]
        where = Address(t, clients, parts.clients)
        sizes = parts.learner.sizes(active_jobs)
        if self.holds_model[clients].any():
            sizes = sizes._replace(down_bytes=np.where(self.holds_model[clients], 0, sizes.down_bytes))
        request = work(parts, clients, where, sizes, t)
        extra = prepared.down_bytes, prepared.up_bytes, prepared.compute_s
        down, up, seconds = (np.broadcast_to(np.asarray(each), units.shape).ravel()[active] for each in extra)
        request = request._replace(
            down_bytes=request.down_bytes + down,
            up_bytes=request.up_bytes + up,
            compute_s=request.compute_s + seconds,
            deadline_s=rule.deadline_s,
            quorum=rule.quorum_clients(units.size),
            unit=units.shape[1],
        )
        self.accounts.begin_work(t, clients.tolist(), parts.clients)
        work_done = yield from self.gather(request, t, until_failure=rule.on_failure == "abort")
        durations_s = work_done.arrives_s - work_done.begins_s
        self.global_model.records.add_durations(clients[work_done.responded], durations_s[work_done.responded])
        arrived, late = self.accounts.add_work(parts, t, units, active, work_done, sizes)
        return arrived, late, bool((work_done.delays.lives & ~work_done.responded).any())

    def _announce(self, t: int, jobs: list[Job]) -> Process[None]:
        """Sends the new model to the round's clients without waiting for it to arrive; but until it has left a shared
        link, so that it does not share it with the next round.
        """
        parts, now = self.parts, self.world.now
        cohort = np.array([job.client for job in jobs], dtype=np.int32)
        sizes = np.broadcast_to(np.asarray(parts.learner.sizes(jobs)[0], dtype=np.int64), len(jobs))
        delays = parts.links.down_s(cohort, sizes, Address(t, cohort, parts.clients), "/announcement")
        ends_s = now
        flows = None if parts.sharing is None else parts.sharing.down_flows(cohort, sizes)
        if flows is not None:
            waits = flows.waits_s(np.full(len(cohort), now))
            delays, ends_s = delays + waits, now + float((flows.alone_s + waits).max())
        if self.log is not None:
            losses = parts.are_lost("down/announcement", Address(t, cohort, parts.clients))
            for client, size, delay, is_lost in zip(cohort.tolist(), sizes.tolist(), delays.tolist(), losses.tolist()):
                self.log(message("announcement", SERVER, client, size, now, now + delay, is_lost))
        self.accounts.costs.bytes_down += int(sizes.sum())
        self.accounts.costs.clear_bytes += int(sizes.sum())
        if ends_s > now:
            yield self.world.until(ends_s)
