"""Training rules, and what they are put together from."""

from simfl.clients.schedules import SCHEDULES, Schedule
from simfl.training.aggregates import AGGREGATES, AggregationRule, BesideUpdates, Factor
from simfl.training.base import RULES, BufferedRule, Progress, Rule, State, SynchronousRule
from simfl.training.fedavg import FedAvg
from simfl.training.fedbuff import FedBuff
from simfl.training.optimisers import SERVER_OPTIMISERS, ServerOptimiser
from simfl.training.sgd_rule import SgdRule
from simfl.training.staleness import ARRIVALS, STALENESS, Arrivals, Staleness

__all__ = [
    "AGGREGATES", "ARRIVALS", "AggregationRule", "Arrivals", "BesideUpdates", "BufferedRule", "Factor", "FedAvg",
    "FedBuff",
    "Progress", "RULES", "Rule", "SCHEDULES", "SERVER_OPTIMISERS", "STALENESS", "Schedule", "ServerOptimiser",
    "SgdRule", "Staleness", "State", "SynchronousRule",
]  # fmt: skip
