"""Who talks with whom."""

from simfl.topology.base import TOPOLOGIES, GossipTopology, Topology
from simfl.topology.tree import Servers, Tree

__all__ = [
    "TOPOLOGIES",
    "GossipTopology",
    "Servers",
    "Topology",
    "Tree",
]
