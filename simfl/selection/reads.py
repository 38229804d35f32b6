"""Whether a policy can be told what it declares to read."""

from simfl.core.errors import suggestion
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import CLEAR_FIELDS, VIEW_FIELDS

ROUND_BY_ROUND = "synchronous"
OBSERVED_BY = frozenset({ROUND_BY_ROUND, "buffered"})
"""Servers that see single jobs: how long each takes, and the losses that come with its update."""


def unreadable(setting: ScenarioView) -> list[str]:
    """What the policy cannot be told, in words about it."""
    policy, server = setting.selection, setting.training.server
    problems = [f"reads '{name}', which nobody knows{suggestion(name, VIEW_FIELDS)}" for name in sorted(policy.reads)
                if name not in VIEW_FIELDS]  # fmt: skip
    losses = policy.reads & set(CLEAR_FIELDS)
    if (losses or policy.asks) and not setting.learning.measures_losses:
        problems.append("reads losses of the clients, and there are none: use learning with data that simfl trains on")
    if policy.asks and server != ROUND_BY_ROUND:
        problems.append("asks clients before it selects, which needs rounds; use training: fedavg")
    elif (losses or "seconds" in policy.reads) and server not in OBSERVED_BY:
        problems.append("reads what single jobs tell, which this training rule does not look at; use training: fedavg")
    return problems
