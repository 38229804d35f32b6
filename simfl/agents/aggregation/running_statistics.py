"""Running statistics that clients average: they are no parameters, so that no optimiser makes a step of them."""

import numpy as np

from simfl.agents.aggregation.aggregation_result import AggregationResult
from simfl.agents.aggregation.components import Components
from simfl.core.types import Vectors
from simfl.training.base import Rule


def set_statistics(
    parts: Components[Rule], after: Vectors, result: AggregationResult | None, before: Vectors, own_base: bool = False
) -> Vectors:
    """The next model, (d,), with the mean of the clients' statistics, weighed as the sum is: sum(w s) / sum(w).

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
