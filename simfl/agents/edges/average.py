"""What a cloud makes of its edges' models: their average, who is in it with which weight, and the row of the round."""

from collections.abc import Mapping, Sequence
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components, RoundResult
from simfl.agents.edges.edge import EdgeDelivery
from simfl.core.json_data import JsonObject
from simfl.core.types import Job, Vectors
from simfl.privacy.stage import Members
from simfl.training.base import Rule

LARGEST = 2**32
"""Rows with larger numbers are rounded instead."""


OWN_CELLS = ("round", "time_s", "skipped", "cardinality", "mean_cardinality", "fairness_gap", "train_loss")
"""Cells that the cloud fills itself."""


def share_of(done: RoundResult, parts: Components[Rule]) -> float:
    """What all updates in an edge's aggregate would weigh together if none was stale; 0 without any."""
    if not len(done.clients):
        return 0.0
    rule, examples = parts.rule, samples_in(done, parts)
    return float(rule.weights(examples, np.zeros(len(examples), dtype=np.int64)).sum())


def samples_in(done: RoundResult, parts: Components[Rule]) -> NDArray[np.int64]:
    """The samples of each client in an edge's aggregate, (n,)."""
    return parts.learner.counts(done.clients, done.number)


def row_of(delivery: EdgeDelivery, parts: Components[Rule], factor: float, scale: float) -> NDArray[Any]:
    """By what each member's update is multiplied in the root's average, but for what all of it is divided by, (m,): of
    one aggregation its row; of several their rows, each divided by what its own sum was divided by, times what all of
    their updates weigh, and times ``scale``.
    """
    total, share = np.zeros(parts.clients), sum(share_of(done, parts) for done in delivery.rounds)
    if len(delivery.rounds) == 1 and factor == 1.0 and share == delivery.rounds[0].divisor:
        total = total.astype(delivery.rounds[0].weights.dtype)
        total[delivery.rounds[0].clients] = delivery.rounds[0].weights
        return total
    for done in delivery.rounds:
        total[done.clients] += factor * share * done.weights * (scale / (done.divisor or 1.0))
    return total


def common_multiple(shares: Sequence[float]) -> float:
    """What all these are whole parts of, so that rows are whole numbers, and exact; 1 where that is too large."""
    whole = [int(share) for share in shares if share]
    multiple = lcm(*whole)
    return float(multiple) if multiple < LARGEST and whole == [share for share in shares if share] else 1.0


def weights_in(
    deliveries: Sequence[EdgeDelivery], parts: Components[Rule], factors: NDArray[np.float64]
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Whose updates are in an average, ascending, (m,), and what each counts in it, (m,): a whole number if it can be.

    Args:
        deliveries: the edges' models, n.
        parts: of the scenario.
        factors: by which each is multiplied, (n,).
    """
    sums, whole = np.zeros(parts.clients), True
    divisors = [done.divisor for each in deliveries for done in each.rounds]
    scale = common_multiple(divisors) if parts.topology.edge_rounds > 1 else 1.0
    for delivery, factor in zip(deliveries, factors.tolist(), strict=True):
        edge = parts.edges[delivery.edge]
        assert edge.members is not None
        of_members = row_of(delivery, edge, factor, scale)
        whole &= of_members.dtype.kind == "i"
        sums[edge.members.clients] += of_members
    clients = np.flatnonzero(sums).astype(np.int32)
    return clients, sums[clients].astype(np.int64) if whole else sums[clients]


def average_of(
    model: Vectors,
    deliveries: Sequence[EdgeDelivery],
    shares: NDArray[np.float64],
    factors: NDArray[np.float64],
    of_changes: bool,
) -> Vectors:
    """The average of the edges' models (Liu et al. 2020, Algorithm 1, line 14), or the cloud's model with that of their
    changes; it stays where nobody's update is in any.

    Args:
        model: the cloud's, float32 (d,).
        deliveries: the edges' models, n.
        shares: what the updates in each weigh, (n,).
        factors: by which each change is multiplied, (n,).
        of_changes: whether changes are averaged.
    """
    if not shares.any():
        return model
    parts_of_one = shares / shares.sum()
    if of_changes:
        moves = zip(parts_of_one * factors, deliveries, strict=True)
        total = model + sum(p * (each.after.astype(np.float64) - each.before) for p, each in moves)
    else:
        total = sum(p * each.after.astype(np.float64) for p, each in zip(parts_of_one, deliveries, strict=True))
    return np.asarray(total, dtype=np.float32)


def members_in(
    t: int, deliveries: Sequence[EdgeDelivery], parts: Components[Rule], divisor: float, now_s: float
) -> Members:
    """All updates in an average, for the stages that noise it."""
    rule, in_sum, step = parts.rule, list[tuple[int, float, int]](), 0.0
    for each in deliveries:
        edge = parts.edges[each.edge]
        assert edge.members is not None
        for done in each.rounds:
            examples = samples_in(done, edge)
            weights = rule.weights(examples, np.zeros(len(examples), dtype=np.int64))
            who = edge.members.clients[done.clients]
            in_sum += zip(who.tolist(), weights.tolist(), examples.tolist(), strict=True)
            step = max(step, done.step)
    clients, weights, examples = np.array(sorted(in_sum)).T
    jobs = tuple(Job.of(t, int(client), t, now_s) for client in clients)
    counts, follows = examples.astype(np.int64), rule.algorithm.follows_data
    return Members(t, jobs, weights, divisor, None, counts, None, follows, step, parts.elements)


def mean_loss(deliveries: Sequence[EdgeDelivery], parts: Components[Rule]) -> float | None:
    """Mean training loss over the samples of all updates."""
    losses, counts = [], []
    for each in deliveries:
        for done in each.rounds:
            if (loss := done.row["train_loss"]) is not None:
                losses.append(loss)
                counts.append(int(samples_in(done, parts.edges[each.edge]).sum()))
    return losses[0] if len(losses) == 1 else float(np.average(losses, weights=counts)) if losses else None


def merge_cells(rows: Sequence[Mapping[str, Any]]) -> JsonObject:
    """The cells of several aggregations together: counts add up, of other numbers it is the mean."""
    cells: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            if name not in OWN_CELLS and value is not None:
                cells.setdefault(name, []).append(value)
    return {name: _together(name, values) for name, values in cells.items()}


def _together(name: str, values: list[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    if name.endswith("_max") or "epsilon" in name:
        return max(values)
    return sum(values) if all(isinstance(value, (int, np.integer)) for value in values) else float(np.mean(values))
