"""What an aggregation leaves to whoever steps, attacks or reports; and running statistics that clients average, which
are no parameters, so that no optimiser makes a step of them.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components
from simfl.core.types import Aggregate, Updates, Vectors
from simfl.secagg.sessions import ClientUpdates, SessionResult
from simfl.training.base import Rule


class ReleasedUpdate(NamedTuple):
    """What the server's stages make of an aggregate, also of a round in whose sum nobody is.

    Attributes:
        server_update: the aggregate after them, float32 (d,).
        facts, row: as of a :class:`AggregationResult`.
    """

    server_update: NDArray[np.float32]
    facts: tuple[dict[str, float], ...]
    row: dict[str, float]


@dataclass(frozen=True)
class AggregationResult:
    """An aggregate and how it came about.

    Attributes:
        total: as the protocol gives it; its clients are those who hold samples.
        server_update: what the server's stages make of its vector, float32 (d,).
        client_updates: what was added up.
        done: the protocol's good end.
        updates: what training made.
        contributions: what the clients had to send before any stage, float32 (n, d).
        facts: of each stage.
        row: the training's, the stages', the protocol's and the aggregate's columns of rounds.csv.
        divisor: what the sum was divided by.
        mask: what the server's step is multiplied with, float32 (d,) or one number; None = nothing.
        legible: each update and the aggregate as the server reads them, float32 (n, d) and (d,); None = coded.
        summed: what the protocol gives, before any factor.
        believed: what each update counts in it, (n,); None = nobody asks, or not known.
    """

    total: Aggregate
    server_update: NDArray[np.float32]
    client_updates: ClientUpdates
    done: SessionResult
    updates: Updates
    contributions: NDArray[np.float32]
    facts: tuple[dict[str, float], ...]
    row: dict[str, float]
    divisor: float
    mask: Any = None
    legible: tuple[NDArray[np.float32] | None, ...] = (None, None)
    summed: Any = None
    believed: NDArray[np.float64] | None = None


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
