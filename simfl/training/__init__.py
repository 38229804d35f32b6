"""How updates become the next global model: one file per rule."""

from simfl.training import fedavg
from simfl.training.aggregates import AGGREGATES
from simfl.training.base import RULES, Rule
from simfl.training.optimisers import SERVER_OPTIMISERS

__all__ = ["AGGREGATES", "RULES", "SERVER_OPTIMISERS", "Rule", "fedavg"]
