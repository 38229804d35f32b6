"""The global model: its versions, the server's step, and what each aggregation leaves behind."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.accounts import RoundAccounts
from simfl.agents.aggregation.aggregation_result import AggregationResult, ReleasedUpdate
from simfl.agents.aggregation.attack_runner import AttackRunner
from simfl.agents.aggregation.components import Components, RoundCosts, RoundResult
from simfl.agents.aggregation.exchange import ASK
from simfl.agents.aggregation.pipeline import AggregationPipeline
from simfl.agents.aggregation.policy_queries import ClientRecords, stall_error
from simfl.clients.local_values import RoundOutcome
from simfl.core.columns import failing
from simfl.core.errors import PluginError
from simfl.core.json_data import JsonObject
from simfl.core.types import Arrays, Job, Vectors, prefix_arrays, under
from simfl.core.validation import read_only
from simfl.metrics.participation import Tally
from simfl.results.tables import PhaseRow
from simfl.secagg.sessions import SessionResult
from simfl.training.base import Progress, Rule

NUMBER_BYTES = 4
"""Of the message that a client has left."""

MAX_STAGNANT_ROUNDS = 10_000
"""A run is given up after so many rounds, and one for each client, that summed something and still brought nothing
nearer that ends it: where nobody takes any time, every client's update may fall on one instant once."""


class GlobalModelState:
    """What every server does with the updates that count, however they came together.

    Training, stages, the protocol's sum, the rule's step, observers, the row: this is the one place. A version of the
    model is kept while it is the current one or somebody holds it.

    Attributes:
        progress: rounds, updates and traffic so far.
        model: the current global model, float32 (d,).
        present: bool (clients,): who has not left for good.
        records: what the server has learned of each client, for the selection.
        left: who has left with the latest aggregate.
    """

    def __init__(self, parts: Components[Rule]) -> None:
        self.parts = parts
        self.progress = RunProgress(parts)
        self.pipeline = AggregationPipeline(parts)
        self.model = parts.learner.initial()
        self.optimiser = parts.rule.start(parts.learner.dimension)
        self.attacks = AttackRunner(parts)
        self.records = ClientRecords(parts)
        self.holders: Counter[int] = Counter()
        self.present = np.ones(parts.clients, dtype=bool)
        self.left: list[int] = []
        parts.learner.put(0, self.model)

    @property
    def tally(self) -> Tally:
        """Who was aggregated so far."""
        return self.progress.tally

    @property
    def version(self) -> int:
        """The current model's version: rounds so far."""
        return self.progress.tally.rounds

    def begin_with(self, model: NDArray[np.float32]) -> None:
        """Another model, (d,), in place of the current version, with which nobody has begun yet."""
        self.model = model
        self.parts.learner.put(self.version, model)

    def replace(self, model: NDArray[np.float32]) -> None:
        """Another model, (d,), as the next version: servers that do not step from one to the next."""
        self.model = model
        self.parts.learner.put(self.version + 1, model)

    def hold(self, version: int, times: int = 1) -> None:
        """Keeps a version until it has been released as many times."""
        self.holders[version] += times

    def release(self, version: int, times: int = 1) -> None:
        """Gives back so many holds."""
        self.holders[version] -= times
        self._forget(version)

    def _forget(self, version: int) -> None:
        if not self.holders[version]:
            del self.holders[version]
            if version != self.version:
                self.parts.learner.drop(version)

    def aggregate(
        self,
        jobs: Sequence[Job],
        staleness: NDArray[np.int64] | None,
        session: SessionResult | None,
        now_s: float,
        accounts: RoundAccounts,
        row: JsonObject,
    ) -> RoundResult:
        """Takes the server's step on these updates; a round without any counts as skipped.

        Then the model stays, unless the rule divides by a fixed number: that is a step on a sum of 0 and its noise.

        Args:
            jobs: whose updates count, n, by ascending client.
            staleness: the staleness that weighs each, (n,); None where updates are never stale.
            session: the protocol's good end; None without jobs.
            now_s: simulated time, seconds.
            accounts: what this round cost.
            row: further cells of rounds.csv.
        """
        t, result, loss, before = self.version, None, None, self.model
        if jobs and session is not None:
            stale = np.zeros(len(jobs), dtype=np.int64) if staleness is None else staleness
            updates = self.pipeline.train(jobs)
            loss = updates.mean_loss
            result = self.pipeline.sum(t, jobs, updates, stale, before, session)
        clients, weights = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
        if result is not None:
            clients, weights = result.total.clients, result.total.weights
        released = result or self.pipeline.nobody(t)
        self._step(result, released)
        view, errors = (None, []) if result is None else self.attacks.after(t, now_s, result, before, self.model)
        costs, phases = accounts.costs, accounts.phases
        self._conclude(result, costs)
        self.parts.learner.put(t + 1, self.model)
        cells = _ages(jobs, staleness, clients) | costs.row(self.parts) | self._protocol(phases, costs) | row
        cells |= (released.row if released else {}) | self.attacks.cells(errors)
        enough = int(np.count_nonzero(self.present)) >= min(2, len(self.present))
        cells, last = self.progress.end_round(
            clients, now_s, cells, train_loss=loss, model_changed=released is not None, clients_left=enough
        )
        cells |= self.attacks.measure(last)
        self.records.add_aggregate(t, clients, jobs, self.tally.participation)
        self._forget(t)
        facts = released.facts if released else ()
        done = RoundResult(t, clients, weights, cells, last, phases=phases, facts=facts, errors=errors, seen=view)
        return (
            done
            if result is None
            else replace(done, step=result.total.step, divisor=result.divisor, believed=result.believed)
        )

    def _step(self, result: AggregationResult | None, released: AggregationResult | ReleasedUpdate | None) -> None:
        """The next model; ``result``: None where nobody was summed."""
        if released is None or not self.parts.learner.dimension:
            return
        before, mask = self.model, None if result is None else result.mask
        after, self.optimiser = self.parts.rule.step(read_only(before), released.server_update, self.optimiser)
        if mask is not None:  # where that is 1, exactly the other model
            after = np.where(mask == 1, after, before + mask * (after - before))
        self.model = set_statistics(self.parts, after, result, before)

    def _conclude(self, result: AggregationResult | None, costs: RoundCosts) -> None:
        """Clients look at what became of their updates; whoever leaves is named to those who stay."""
        learner, self.left = self.parts.learner, []
        if result is None or not learner.uses_outcomes:
            return
        updates = result.client_updates
        shares = updates.weights / updates.divisor(updates.weights)
        downloaded = [learner.get(job.start) for job in updates.jobs]
        rows = zip(downloaded, result.updates.deltas, updates.vectors, shares.tolist(), strict=True)
        leaving = learner.report_outcomes(updates.jobs, [RoundOutcome(*row, self.model) for row in rows])
        if leaving.any() and not self.parts.rule.algorithm.follows_data:
            raise PluginError(self.parts.rule.algorithm, "has a client leave, which `follows_data` denies")
        self.left = updates.clients[leaving].tolist()
        self.present[self.left] = False
        told_bytes = NUMBER_BYTES * len(self.left) * int(self.present.sum())
        costs.bytes_down += told_bytes
        costs.clear_bytes += told_bytes

    def _protocol(self, phases: Sequence[PhaseRow], costs: RoundCosts) -> JsonObject:
        """What a protocol's phases cost and lost, where the protocol lists these columns."""
        if not self.parts.protocol.columns:
            return {}
        known: JsonObject = {failing(kind).name: 0 for kind in self.parts.protocol.phases}
        known |= {"clear_bytes": costs.clear_bytes, "failed_upload": costs.failed_upload}
        phases = [row for row in phases if row.phase != ASK]
        for row in phases:
            column = failing(row.phase).name
            known[column] = known.get(column, 0) + row.failed
        known["secagg_bytes"] = sum(row.bytes_down + row.bytes_up for row in phases)
        known["secagg_s"] = float(sum(row.ended_s - row.started_s for row in phases))
        known["secagg_failed"] = sum(row.failure is not None for row in phases)
        return {column.name: known[column.name] for column in self.parts.protocol.columns if column.name in known}

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """All of this as named arrays; the versions that are held, too."""
        learner = self.parts.learner
        return {
            "model": self.model,
            "present": self.present,
            **{f"version/{version}": learner.get(version) for version in sorted(self.holders)},
            **self.progress.state(),
            **prefix_arrays("optimiser", self.optimiser),
            **prefix_arrays("stages", self.pipeline.state()),
            **self.attacks.state(),
            **prefix_arrays("learner", learner.state()),
            **prefix_arrays("records", self.records.state()),
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`; whoever held versions must hold them again."""
        learner = self.parts.learner
        self.model, self.optimiser = state["model"], under("optimiser", state)
        self.present = np.array(state["present"])
        self.progress.restore(state, tally)
        self.pipeline.restore(under("stages", state))
        self.attacks.restore(state)
        learner.restore(under("learner", state))
        self.records.restore(under("records", state))
        learner.drop(0)
        for version, model in under("version", state).items():
            learner.put(int(version), model)
        learner.put(self.version, self.model)


def _ages(jobs: Sequence[Job], staleness: NDArray[np.int64] | None, members: NDArray[np.int32]) -> JsonObject:
    """How old the updates in the sum are; ``staleness``: of each job."""
    if staleness is None or not len(members):
        return {}
    ages = staleness[np.isin([job.client for job in jobs], members)]
    return {"staleness_mean": float(ages.mean()), "staleness_max": int(ages.max())}


class RunProgress:
    """Counts rounds, updates and traffic, writes each round's row, and asks the rule whether the run ends.

    Attributes:
        tally: who was aggregated so far.
    """

    def __init__(self, parts: Components[Rule]) -> None:
        self.parts = parts
        self.tally = Tally(parts.clients, parts.policy.reads_history)
        self.measured: dict[str, float] = {}
        self.model_changed = True
        self.traffic_bytes = 0
        self.latest = Progress(0, 0, -inf, 0, None)
        self.stagnant_rounds = 0
        self.best_validation, self.no_better = inf, 0

    def end_round(
        self,
        clients: NDArray[np.int32],
        now_s: float,
        cells: JsonObject,
        *,
        train_loss: float | None,
        model_changed: bool,
        clients_left: bool = True,
    ) -> tuple[JsonObject, bool]:
        """Counts a round; its row of rounds.csv, and whether the run ends with it.

        Args:
            clients: whose updates were aggregated, distinct.
            now_s: simulated time, seconds.
            cells: further cells of the row, ``bytes_down`` and ``bytes_up`` among them.
            train_loss: mean over the updates, None where nothing was learned.
            model_changed: whether the model is to be measured again.
            clients_left: whether enough clients are left for another round.

        Raises:
            SimflError: the run will never end.
        """
        rule, tally, t = self.parts.rule, self.tally, self.tally.rounds
        tally.add(clients)
        self.traffic_bytes += cells["bytes_down"] + cells["bytes_up"]
        so_far = Progress(
            tally.rounds, tally.aggregated, now_s, self.traffic_bytes, None, aggregations=tally.aggregations
        )
        last = rule.ends(so_far) or not clients_left
        self._require_progress(so_far, bool(len(clients)))
        measured = self._measure(t, model_changed, last)
        row = {
            "round": t,
            "time_s": now_s,
            "skipped": int(not len(clients)),
            "cardinality": tally.latest,
            "mean_cardinality": tally.mean_cardinality,
            "fairness_gap": tally.fairness_gap,
            "train_loss": train_loss,
            **cells,
            **measured,
        }
        accuracy = measured.get("test_accuracy")
        return row, last or rule.ends(so_far._replace(accuracy=accuracy, no_better=self.no_better))

    def _measure(self, t: int, changed: bool, last: bool) -> dict[str, float]:
        """The measurements due after round t (of version t + 1), by name: every ``evaluate_every`` rounds (0: in none)
        and after the last one. A model that has not changed is not measured twice.
        """
        self.model_changed |= changed
        every = self.parts.evaluate_every
        if not (last or every and (t + 1) % every == 0):
            return {}
        if self.model_changed:
            self.measured, self.model_changed = self.parts.learner.evaluator.evaluate(t + 1), False
            loss = self.measured.get("validation_loss", inf)
            better = loss < self.best_validation
            self.best_validation, self.no_better = (loss, 0) if better else (self.best_validation, self.no_better + 1)
        return self.measured

    def _require_progress(self, so_far: Progress, summed: bool) -> None:
        """Looks whether the run comes nearer its end; a round that summed nothing says nothing.

        Raises:
            SimflError: it will never end.
        """
        before, self.latest = self.latest, so_far
        if self.parts.rule.advances(before, so_far):
            self.stagnant_rounds = 0
        else:
            self.stagnant_rounds += summed
        if self.stagnant_rounds > MAX_STAGNANT_ROUNDS + self.parts.clients:
            rounds = f"{self.stagnant_rounds} rounds in a row"
            raise stall_error(
                f"{rounds} have brought the end of the run no nearer; give training.rounds", so_far.time_s
            )

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """All of this as named arrays; the tally stands in participation.csv."""
        return {
            "rounds": np.int64(self.tally.rounds),
            "traffic_bytes": np.int64(self.traffic_bytes),
            "evaluation/changed": np.bool_(self.model_changed),
            "evaluation/best": np.array([self.best_validation, self.no_better]),
            **{f"evaluation/value/{name}": np.float64(value) for name, value in self.measured.items()},
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`."""
        self.tally, self.traffic_bytes = tally, int(state["traffic_bytes"])
        self.model_changed = bool(state["evaluation/changed"])
        best, no_better = state["evaluation/best"].tolist()
        self.best_validation, self.no_better = float(best), int(no_better)
        self.measured = {name: float(value) for name, value in under("evaluation/value", state).items()}


def set_statistics(
    parts: Components[Rule], after: Vectors, result: AggregationResult | None, before: Vectors, own_base: bool = False
) -> Vectors:
    """The next model, (d,), with the mean of the clients' running statistics, weighed as the sum is: sum(w s) / sum(w).
    They are no parameters, so that no optimiser makes a step of them.

    A client sends s - b; b is the model that it downloaded, or what the rule subtracts in its place. The server knows
    all b, and of the changes needs the sum only. Where nobody was summed the statistics stay as they were.

    Args:
        after: what the rule made of the model ``before``.
        own_base: b is ``before`` for everybody.
    """
    learner, rule = parts.learner, parts.rule
    if (shared := learner.statistics) is None:
        return after
    at, least = shared
    after = after.copy()
    if result is None:
        after[at] = before[at]
        return after
    shares = np.asarray(result.total.shares, dtype=np.float64)
    base = np.broadcast_to(before[at], (len(shares), len(at)))
    if not own_base:
        summed = set(result.total.clients.tolist())
        jobs = [job for job in result.client_updates.jobs if job.client in summed]
        starts = [learner.get(job.start)[at] for job in jobs]
        base = np.stack(starts) - rule.contributions(np.zeros_like(base), lambda: starts, before[at])
    weight = float(shares.sum())
    step = result.summed[at] / (weight if rule.aggregate.sum_only else 1.0)
    mean = step + np.einsum("n,nk->k", shares / weight, base.astype(np.float64))
    after[at] = np.maximum(mean, least)  # a sum in a field is off by what its grid rounds
    return after
