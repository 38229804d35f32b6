"""What theory says of a scenario's sums, before any round is played: bytes, computation, tolerated dropouts, time."""

from typing import Any

import numpy as np

from simfl.agents.parts import Parts
from simfl.secagg.costs import costs
from simfl.types import SERVER

__all__ = ["expected"]


def expected(parts: Parts) -> dict[str, Any]:
    """What :func:`simfl.secagg.costs.costs` says of one aggregation in which nobody fails.

    Args:
        parts: the built scenario.

    Returns:
        Besides: ``clients`` whose updates are summed (a mean where ``sure`` is false: the policy sizes its selections
        itself), and ``unit`` of those that stand together; ``elements`` of an update; ``known``, see
        :meth:`simfl.secagg.base.Protocol.known`; ``one_by_one``, whether units are prepared one by one; ``latency_s``,
        where it is the same for all clients in both directions, and then ``round_s``: the time of the ways and of the
        protocol's computation, without training, bandwidth and jitter. Where policy or rule say nothing of a sum's
        size, ``clients`` is None and stands alone.
    """
    rule, policy, protocol = parts.rule, parts.policy, parts.protocol
    one_by_one = rule.asynchronous
    n = rule.buffer if one_by_one else policy.k
    if n is None or not (one_by_one or rule.losses):
        return {"clients": None}
    apart = rule.partial if one_by_one else rule.losses.on_failure == "partial"
    unit = 1 if apart else policy.unit_size
    cohort = parts.cohort(0, np.arange(n, dtype=np.int32).reshape(-1, unit))
    dense = parts.learner.model_bytes
    sizes = (dense, dense) if parts.learner.sizes_vary else parts.learner.sizes([])[:2]
    found = costs(protocol, cohort, one_by_one, sizes, parts.streams)
    about = {
        "clients": n,
        "sure": one_by_one or policy.fixed_size,
        "unit": unit,
        "elements": parts.elements,
        "one_by_one": one_by_one,
    }
    latency_s = _latency_s(parts)
    return about | {
        "known": protocol.known(cohort),
        **found,
        "latency_s": latency_s,
        "round_s": _time(found, latency_s),
    }


def _latency_s(parts: Parts) -> float | None:
    """The latency, if it is one for all."""
    clients, server = np.arange(parts.clients), np.full(parts.clients, SERVER)
    ways = np.concatenate([parts.links.latency_s(server, clients), parts.links.latency_s(clients, server)])
    return float(ways[0]) if (ways == ways[0]).all() else None


def _time(found: dict[str, Any], latency_s: float | None) -> float | None:
    if latency_s is None or "refused" in found:
        return None
    computed = sum(row["seconds"] for row in found["phases"] if row["times"])
    return float(sum(found["ways"]) * latency_s + computed + found["server_s"])
