"""The global model of an asynchronous run: its versions, the server's step and the row that each step leaves."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.evaluation import Evaluation
from simfl.agents.parts import Parts, Round
from simfl.agents.state import Arrays, prefixed, under
from simfl.metrics import Tally
from simfl.types import Job, Updates

__all__ = ["Aggregator"]


class Aggregator:
    """What every asynchronous server does with a full buffer, however it came to be full.

    A version of the model is kept while it is the current one or somebody holds it.

    Args:
        parts: the built scenario.

    Attributes:
        tally: who was aggregated so far.
        model: the current global model, float32 (d,).
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.tally = Tally(parts.clients)
        self.evaluation = Evaluation(parts)
        self.model = parts.learner.initial()
        self.optimiser = parts.rule.start(parts.learner.dimension)
        self.holders: Counter[int] = Counter()
        parts.learner.put(0, self.model)

    @property
    def version(self) -> int:
        """The current model's version: aggregations so far."""
        return self.tally.rounds

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

    def aggregate(self, jobs: Sequence[Job], staleness: NDArray[np.int64], now_s: float) -> Round:
        """Trains exactly these updates, in one batch, and takes the server's step.

        Args:
            jobs: what the buffer holds, by ascending client.
            staleness: the staleness that weighs each, shape (n,).
            now_s: simulated time, seconds.
        """
        parts, t = self.parts, self.version
        updates = parts.learner.train(jobs)
        if parts.learner.dimension:
            self._step(jobs, updates, staleness)
        clients = np.fromiter((job.client for job in jobs), dtype=np.int32, count=len(jobs))
        parts.learner.put(t + 1, self.model)
        self.tally.add(clients)
        self._forget(t)
        row, last = self._row(t, staleness, updates.mean_loss, now_s)
        return Round(t, clients, parts.rule.discount(staleness), row, last)

    def _step(self, jobs: Sequence[Job], updates: Updates, staleness: NDArray[np.int64]) -> None:
        rule, deltas = self.parts.rule, updates.deltas
        if rule.mix == "models":
            deltas = deltas + np.stack([self.parts.learner.get(job.version) for job in jobs]) - self.model
        weights, divisor = rule.weights(updates.examples, staleness), rule.divisor(updates.examples, staleness)
        self.model, self.optimiser = rule.step(self.model, deltas, weights, self.optimiser, divisor)

    def _row(
        self, t: int, staleness: NDArray[np.int64], loss: float | None, now_s: float
    ) -> tuple[dict[str, Any], bool]:
        rule, tally = self.parts.rule, self.tally
        last = rule.ends(tally.rounds, tally.aggregated, now_s, None)
        measured = self.evaluation.after(t, changed=True, last=last)
        row = {
            "round": t,
            "time_s": now_s,
            "skipped": 0,
            "cardinality": len(staleness),
            "mean_cardinality": tally.mean_cardinality,
            "fairness_gap": tally.fairness_gap,
            "staleness_mean": float(staleness.mean()),
            "staleness_max": int(staleness.max()),
            "train_loss": loss,
            **measured,
        }
        return row, last or rule.ends(tally.rounds, tally.aggregated, now_s, measured.get("test_accuracy"))

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """All of this as named arrays; the versions that are held, too."""
        learner = self.parts.learner
        return {
            "rounds": np.int64(self.version),
            "model": self.model,
            **{f"version/{version}": learner.get(version) for version in sorted(self.holders)},
            **prefixed("evaluation", self.evaluation.state()),
            **prefixed("optimiser", self.optimiser),
            **prefixed("learner", learner.state()),
        }

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`; whoever held versions must hold them again."""
        learner = self.parts.learner
        self.tally, self.model, self.optimiser = tally, state["model"], under("optimiser", state)
        self.evaluation.restore(under("evaluation", state))
        learner.restore(under("learner", state))
        learner.drop(0)
        for version, model in under("version", state).items():
            learner.put(int(version), model)
        learner.put(self.version, self.model)
