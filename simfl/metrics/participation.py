"""Cardinality and fairness over the rounds so far (science: Multi-RoundSecAgg, arXiv 2106.03328, section 3.3);
what asynchronous jobs cost: staleness, concurrency, waste; how far the global model moves.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.core.columns import Column
from simfl.core.types import Arrays, Floats, Integers
from simfl.metrics.base import METRICS, Metric, RoundSnapshot


class Tally:
    """Counts who was aggregated, a round at a time.

    Attributes:
        rounds: rounds counted, skipped ones included.
        aggregated: client updates aggregated in all of them.
        aggregations: how many of the rounds aggregated any.
        latest: in the last of them.
        participation: int64 (clients,): aggregations each client took part in.
        history: who was aggregated in each round but the skipped ones, int32 (n,), ascending; None = not kept.
    """

    def __init__(self, clients: int, history: bool = False) -> None:
        self.history: list[NDArray[np.int32]] | None = [] if history else None
        self.rounds = 0
        self.aggregated = self.aggregations = 0
        self.latest = 0
        self.participation: Integers = np.zeros(clients, dtype=np.int64)
        self._most = self._least = 0
        self._at_least = clients  # how many clients have taken part in just so many

    @classmethod
    def of(
        cls, participation: Integers, rounds: int, history: list[NDArray[np.int32]] | None = None, aggregations: int = 0
    ) -> "Tally":
        """The tally that has led to this participation, int64 (clients,), in so many rounds and aggregations."""
        tally = cls(len(participation))
        tally.history, tally.aggregations = history, aggregations
        tally.rounds, tally.aggregated, tally.participation = rounds, int(participation.sum()), participation
        tally._most = int(participation.max())
        tally._find_least()
        return tally

    def add(self, clients: NDArray[np.integer]) -> None:
        """Counts one round in which ``clients`` (distinct, maybe none) were aggregated."""
        self.rounds += 1
        self.latest = len(clients)
        self.aggregated += self.latest
        if not self.latest:
            return
        self.aggregations += 1
        if self.history is not None:
            self.history.append(np.sort(clients).astype(np.int32))
        before = self.participation[clients]
        self.participation[clients] = before + 1
        self._most = max(self._most, int(before.max()) + 1)
        self._at_least -= int(np.count_nonzero(before == self._least))
        if not self._at_least:
            self._find_least()

    def _find_least(self) -> None:
        self._least = int(self.participation.min())
        self._at_least = int(np.count_nonzero(self.participation == self._least))

    @property
    def mean_cardinality(self) -> float:
        """Aggregation cardinality C(t): aggregated updates per round so far."""
        return self.aggregated / self.rounds

    @property
    def fairness_gap(self) -> float:
        """F(t): largest minus smallest share of the rounds so far in which a client took part."""
        return float(self._most - self._least) / self.rounds


def staleness_histogram(ages: Mapping[int, int]) -> list[int]:
    """How many aggregated updates were 0, 1, 2, ... versions old, of how many there are of each age."""
    return [ages.get(age, 0) for age in range(max(ages, default=-1) + 1)]


def concurrency(started_s: Floats, ended_s: Floats) -> tuple[Floats, Integers]:
    """Clients at work over time, of when each job held a slot, (n,): ascending times, and how many from each on."""
    times, where = np.unique(np.concatenate([started_s, ended_s]), return_inverse=True)
    steps = np.bincount(where, np.repeat([1.0, -1.0], [len(started_s), len(ended_s)]), len(times))
    return times, np.cumsum(steps).astype(np.int64)


def mean_concurrency(occupied_s: Floats, until_s: float) -> float | None:
    """Clients at work on average from time 0 to ``until_s``, of how long each job occupied a slot, seconds, (n,).

    None where no time passed.
    """
    return float(np.sum(occupied_s)) / until_s if until_s else None


@METRICS("model_change")
@dataclass(frozen=True)
class ModelChange(Metric):
    """Euclidean norm of what each round adds to the global model; from the second round on."""

    columns = (
        Column("model_change", "Model change", "number", "Euclidean norm of what the round added to the model."),
    )

    def after(self, snapshot: RoundSnapshot, state: Arrays) -> tuple[Mapping[str, float | None], Arrays]:
        after = {"model": snapshot.model}
        if "model" not in state or not len(snapshot.model):
            return {}, after
        return {"model_change": float(np.linalg.norm(snapshot.model.astype(np.float64) - state["model"]))}, after


@METRICS("fairness_unskipped")
@dataclass(frozen=True)
class FairnessUnskipped(Metric):
    """The fairness gap among the rounds that were not skipped.

    ``fairness_gap`` divides by all rounds, as arXiv 2106.03328 defines it (section 3.3); the figures of that paper, by
    its authors' public code, divide by the rounds with an aggregation. The two differ by the share of skipped rounds.
    """

    columns = (
        Column(
            "fairness_gap_unskipped", "Fairness gap, unskipped", "number",
            "Largest minus smallest share of the rounds so far with an aggregation in which a client took part.", -1,
            words="fairness gap of rounds not skipped",
        ),
    )  # fmt: skip

    def start(self, clients: int, dimension: int) -> Arrays:
        return {"took": np.zeros(clients, dtype=np.int64), "rounds": np.array(0)}

    def after(self, snapshot: RoundSnapshot, state: Arrays) -> tuple[Mapping[str, float | None], Arrays]:
        took = state["took"].copy()
        took[snapshot.clients] += 1
        rounds = np.array(state["rounds"] + (len(snapshot.clients) > 0))
        gap = None if rounds == 0 else float((took.max() - took.min()) / rounds)
        return {"fairness_gap_unskipped": gap}, {"took": took, "rounds": rounds}


@METRICS("attackers")
@dataclass(frozen=True)
class Attackers(Metric):
    """How many of a round's updates are attackers', their share of the absolute weights in the aggregate (empty where
    these are not known, as of a median), and how far attacks have come by what the agents say, which costs an
    evaluation. Who only does damage has no success: compare ``test_accuracy`` with that of standard clients.
    """

    reads_shares = True
    columns = (
        Column("attackers", "Attackers", "count", "Aggregated updates that are of attackers."),
        Column("attacker_share", "Attackers' share", "share", "Weight of attackers' updates in the aggregate.", -1),
        Column("attack_success", "Attack success", "share", "Test samples that the model takes as attackers want.", -1),
    )

    def after(self, snapshot: RoundSnapshot, state: Arrays) -> tuple[Mapping[str, float | None], Arrays]:
        share, success = None, snapshot.success()
        if snapshot.shares is not None and len(snapshot.clients):
            weights = np.abs(snapshot.shares)
            share = float(weights[snapshot.attackers].sum() / (weights.sum() or 1.0))
        count = int(snapshot.attackers.sum())
        return {"attackers": count, "attacker_share": share, "attack_success": success}, state
