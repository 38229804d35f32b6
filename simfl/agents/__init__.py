"""The server and its clients on the world's clock.

A client is a row in arrays until a model reaches it. The world decides when an update arrives and whether it
does; what it is gets computed later, in one batch, for those that count.
"""

from simfl.agents.aggregation.attack_runner import finalise_attacks
from simfl.agents.aggregation.components import Components, RoundResult
from simfl.agents.aggregation.global_model import GlobalModelState
from simfl.agents.aggregation.metric_runner import MetricRunner
from simfl.agents.aggregation.pipeline import AggregationPipeline, AggregationResult
from simfl.agents.buffered.server import BufferedServer
from simfl.agents.edges.tree_server import TreeServer
from simfl.agents.gossip_server import GossipServer
from simfl.agents.peer_to_peer import PeerToPeerServer
from simfl.agents.sampled_staleness import SampledStalenessServer
from simfl.agents.server_choice import make_server, server_for, server_of
from simfl.agents.servers import SERVERS, Server
from simfl.agents.synchronous import SynchronousServer

__all__ = [
    "SERVERS",
    "GlobalModelState",
    "BufferedServer",
    "SampledStalenessServer",
    "GossipServer",
    "MetricRunner",
    "Components",
    "RoundResult",
    "Server",
    "PeerToPeerServer",
    "AggregationResult",
    "AggregationPipeline",
    "SynchronousServer",
    "TreeServer",
    "finalise_attacks",
    "make_server",
    "server_for",
    "server_of",
]
