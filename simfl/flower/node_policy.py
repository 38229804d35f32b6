"""The selection policy of a real server: out of a text, and able to decide by what such a server knows."""

from typing import Any

from simfl.core.errors import SimflError
from simfl.core.rng import Streams
from simfl.forecasting.policies import scenario_policy
from simfl.selection.asking import shuffle_clients
from simfl.selection.base import Policy

REAL: dict[str, Any] = {
    "devices": {"availability": {"name": "bernoulli", "dropout": {"name": "uniform", "low": 0.1, "high": 0.9}}},
    "learning": {"data": "digits", "model": "logistic"},
}
"""A scenario like a real deployment: clients that train, and are not equally often available (``mode: auto``)."""


def node_policy(text: str, clients: int, seed: int) -> Policy:
    """The policy of a text such as ``batch_partition:k=8,T=4``, its clients assigned by the seed if it shuffles.

    Raises:
        SimflError: there is none, it cannot be, or needs what a real server does not have.
    """
    policy = scenario_policy(text, clients, REAL)
    if policy.asks:
        raise SimflError(f"policy {text}: asks clients before it selects, and a strategy of Flower sends once a round")
    if "upload_estimate_s" in policy.reads:
        raise SimflError(f"policy {text}: reads how long uploads take, which a server of Flower does not see")
    return shuffle_clients(policy, Streams(seed)("assignment").permutation(clients)) if policy.shuffle else policy
