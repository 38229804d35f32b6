"""How updates become the next global model: one file per rule."""

from simfl.training import fedavg, fedbuff, masked, presets, serverless
from simfl.training.aggregates import AGGREGATES
from simfl.training.arrivals import ARRIVALS
from simfl.training.base import RULES, Rule
from simfl.training.optimisers import SERVER_OPTIMISERS
from simfl.training.staleness import STALENESS

__all__ = [
    "AGGREGATES",
    "ARRIVALS",
    "RULES",
    "SERVER_OPTIMISERS",
    "STALENESS",
    "Rule",
    "fedavg",
    "fedbuff",
    "masked",
    "presets",
    "serverless",
]
