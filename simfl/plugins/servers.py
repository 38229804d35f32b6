"""Servers on the simulated clock, and what each of them does between jobs and a row."""

from simfl.agents.aggregation.accounts import Log
from simfl.agents.aggregation.aggregation_result import AggregationResult
from simfl.agents.aggregation.components import Components, RoundCosts, RoundResult
from simfl.agents.aggregation.exchange import Delays, computation, exchange, message, sample_delays, work
from simfl.agents.aggregation.global_model import GlobalModelState
from simfl.agents.aggregation.pipeline import AggregationPipeline
from simfl.agents.own_models import OwnModelsServer
from simfl.agents.servers import SERVERS, RoundServer, Server, jobs_in_sum
from simfl.agents.synchronous import SynchronousServer
from simfl.agents.world import World
from simfl.metrics.participation import Tally
from simfl.results.tables import PhaseRow

__all__ = [
    "SERVERS", "GlobalModelState", "RoundCosts", "Delays", "Log", "Components", "OwnModelsServer", "PhaseRow",
    "RoundResult", "RoundServer", "Server", "AggregationResult", "AggregationPipeline", "SynchronousServer",
    "Tally", "World", "computation", "jobs_in_sum", "exchange", "sample_delays", "message", "work",
]  # fmt: skip
