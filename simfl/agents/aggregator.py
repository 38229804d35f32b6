"""The global model: its versions, the server's step, and the row that each round leaves."""

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.asking import stalled
from simfl.agents.evaluation import Evaluation
from simfl.agents.observing import Observing
from simfl.agents.parts import Cost, Parts, Phase, Round
from simfl.agents.state import Arrays, prefixed, under
from simfl.agents.summing import Sum, Summing
from simfl.columns import failing
from simfl.metrics import Tally
from simfl.secagg.base import Summed
from simfl.trace import PHASES
from simfl.training.base import Progress
from simfl.types import Job
from simfl.variant import Conclusion

__all__ = ["STANDSTILL", "Aggregator"]

STANDSTILL = 10_000
"""A run is given up after so many rounds, and one for each client, that summed something and still brought nothing
nearer that ends it: where nobody takes any time, every client's update may fall on one instant once."""

NUMBER_BYTES = 4
"""Of the message that a client has left."""


class Aggregator:
    """What every server does with the updates that count, however they came together.

    Training, stages, the protocol's sum, the rule's step, observers, the row: this is the one place. A version of the
    model is kept while it is the current one or somebody holds it.

    Args:
        parts: the built scenario.

    Attributes:
        tally: who was aggregated so far.
        model: the current global model, float32 (d,).
        present: bool (clients,): who has not left for good.
        left: who has left with the latest aggregate.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.tally = Tally(parts.clients)
        self.evaluation = Evaluation(parts)
        self.summing = Summing(parts)
        self.model = parts.learner.initial()
        self.optimiser = parts.rule.start(parts.learner.dimension)
        self.observing = Observing(parts)
        self.holders: Counter[int] = Counter()
        self.traffic_bytes = 0
        self.present = np.ones(parts.clients, dtype=bool)
        self.left: list[int] = []
        self.so_far = Progress(0, 0, -inf, 0, None)
        self.standing = 0
        parts.learner.put(0, self.model)

    @property
    def version(self) -> int:
        """The current model's version: rounds so far."""
        return self.tally.rounds

    def begin_with(self, model: NDArray[np.float32]) -> None:
        """Another initial model, (d,), before the first round."""
        self.model = model
        self.parts.learner.put(0, model)

    def hold(self, version: int, times: int = 1) -> None:
        """Keeps a version until it has been released as many times."""
        self.holders[version] += times

    def release(self, version: int) -> None:
        """Gives back one hold."""
        self.holders[version] -= 1
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
        done: Summed | None,
        now_s: float,
        cost: Cost,
        *,
        phases: Sequence[Phase] = (),
        row: dict[str, Any] | None = None,
    ) -> Round:
        """Takes the server's step on these updates; a round without any counts as skipped.

        Then the model stays, unless the rule divides by a fixed number: that is a step on a sum of 0 and its noise.

        Args:
            jobs: whose updates count, n, by ascending client.
            staleness: the staleness that weighs each, (n,); None where updates are never stale.
            done: the protocol's good end; None without jobs.
            now_s: simulated time, seconds.
            cost: what this round cost.
            phases: rows of phases.csv.
            row: further cells of rounds.csv.
        """
        t, found, loss = self.version, None, None
        if jobs and done is not None:
            stale = np.zeros(len(jobs), dtype=np.int64) if staleness is None else staleness
            updates = self.summing.train(jobs)
            loss = updates.mean_loss
            found = self.summing.sum(t, jobs, updates, stale, self.model, done)
        before = self.model
        clients, weights = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
        released = found or self.summing.nobody(t)
        if found is not None:
            clients, weights = found.total.clients, found.total.weights
        if released is not None and self.parts.learner.dimension:
            after, self.optimiser = self.parts.rule.step(before, released.change, self.optimiser)
            self.model = after if found is None or found.mask is None else _masked(before, after, found.mask)
        seen, errors = (None, []) if found is None else self.observing.after(t, now_s, found, before, self.model)
        self._conclude(found, cost)
        self.parts.learner.put(t + 1, self.model)
        self.tally.add(clients)
        self._forget(t)
        cells = (
            _ages(jobs, staleness, clients)
            | cost.row()
            | self._protocol(phases, cost)
            | (row or {})
            | (released.row if released else {})
            | self.observing.cells(errors)
        )
        cells, last = self._row(t, cells, loss, now_s, summed=bool(len(clients)), changed=released is not None)
        facts = released.facts if released else ()
        return Round(t, clients, weights, cells, last, phases=phases, facts=facts, errors=errors, seen=seen)

    def _conclude(self, found: Sum | None, cost: Cost) -> None:
        """Clients look at what became of their updates; whoever leaves is named to those who stay."""
        learner, self.left = self.parts.learner, []
        if found is None or not learner.concludes:
            return
        given, shares = found.given, found.given.weights / found.given.divisor(found.given.weights)
        downloaded = [learner.get(job.version) for job in given.jobs]
        rows = zip(downloaded, found.updates.deltas, given.vectors, shares.tolist(), strict=True)
        leaving = learner.conclude(given.jobs, [Conclusion(*row, self.model) for row in rows])
        self.left = given.clients[leaving].tolist()
        self.present[self.left] = False
        cost.bytes_down += NUMBER_BYTES * len(self.left) * int(self.present.sum())

    def _row(
        self, t: int, cells: dict[str, Any], loss: float | None, now_s: float, summed: bool, changed: bool
    ) -> tuple[dict[str, Any], bool]:
        rule, tally = self.parts.rule, self.tally
        self.traffic_bytes += cells["bytes_down"] + cells["bytes_up"]
        so_far = Progress(tally.rounds, tally.aggregated, now_s, self.traffic_bytes, None)
        last = rule.ends(so_far) or int(self.present.sum()) < min(2, len(self.present))
        self._advance(so_far, summed)
        measured = self.evaluation.after(t, changed=changed, last=last)
        row = {
            "round": t,
            "time_s": now_s,
            "skipped": int(not summed),
            "cardinality": tally.latest,
            "mean_cardinality": tally.mean_cardinality,
            "fairness_gap": tally.fairness_gap,
            "train_loss": loss,
            **cells,
            **measured,
        }
        return row, last or rule.ends(so_far._replace(accuracy=measured.get("test_accuracy")))

    def _advance(self, so_far: Progress, summed: bool) -> None:
        """Looks whether the run gets on; a round that summed nothing says nothing.

        Raises:
            SimflError: it will never end.
        """
        before, self.so_far = self.so_far, so_far
        if self.parts.rule.advances(before, so_far):
            self.standing = 0
        else:
            self.standing += summed
        if self.standing > STANDSTILL + self.parts.clients:
            why = f"{self.standing} rounds in a row have brought the end of the run no nearer; give training.rounds"
            raise stalled(why, so_far.time_s)

    def _protocol(self, phases: Sequence[Phase], cost: Cost) -> dict[str, Any]:
        """What a protocol's phases cost and lost, where the protocol lists these columns."""
        if not self.parts.protocol.columns:
            return {}
        known: dict[str, Any] = {failing(kind).name: 0 for kind in self.parts.protocol.phases}
        known |= {"clear_bytes": cost.clear_bytes, "failed_upload": cost.failed_upload}
        rows = [dict(zip(PHASES, phase, strict=True)) for phase in phases]
        for row in rows:
            lost = failing(row["phase"]).name
            known[lost] = known.get(lost, 0) + row["failed"]
        known["secagg_bytes"] = sum(row["bytes_down"] + row["bytes_up"] for row in rows)
        known["secagg_s"] = float(sum(row["ended_s"] - row["started_s"] for row in rows))
        known["secagg_failed"] = sum(row["failure"] is not None for row in rows)
        return {column.name: known[column.name] for column in self.parts.protocol.columns if column.name in known}

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """All of this as named arrays; the versions that are held, too."""
        learner = self.parts.learner
        return {
            "rounds": np.int64(self.version),
            "traffic_bytes": np.int64(self.traffic_bytes),
            "model": self.model,
            "present": self.present,
            **{f"version/{version}": learner.get(version) for version in sorted(self.holders)},
            **prefixed("evaluation", self.evaluation.state()),
            **prefixed("optimiser", self.optimiser),
            **prefixed("stages", self.summing.state()),
            **self.observing.state(),
            **prefixed("learner", learner.state()),
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`; whoever held versions must hold them again."""
        learner = self.parts.learner
        self.tally, self.model, self.optimiser = tally, state["model"], under("optimiser", state)
        self.traffic_bytes, self.present = int(state["traffic_bytes"]), np.array(state["present"])
        self.evaluation.restore(under("evaluation", state))
        self.summing.restore(under("stages", state))
        self.observing.restore(state)
        learner.restore(under("learner", state))
        learner.drop(0)
        for version, model in under("version", state).items():
            learner.put(int(version), model)
        learner.put(self.version, self.model)


def _masked(before: NDArray[np.float32], after: NDArray[np.float32], mask: Any) -> NDArray[np.float32]:
    """The step from one model to the other, multiplied by a mask; where that is 1, exactly the other."""
    return np.where(mask == 1, after, before + mask * (after - before))


def _ages(jobs: Sequence[Job], staleness: NDArray[np.int64] | None, members: NDArray[np.int32]) -> dict[str, Any]:
    """How old the updates in the sum are; ``staleness``: of each job."""
    if staleness is None or not len(members):
        return {}
    ages = staleness[np.isin([job.client for job in jobs], members)]
    return {"staleness_mean": float(ages.mean()), "staleness_max": int(ages.max())}
