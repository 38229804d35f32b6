"""Who talks with whom."""

from simfl.topology.base import TOPOLOGIES, Topology
from simfl.topology.gossip import GossipTopology
from simfl.topology.tree import Servers, Tree

__all__ = ["TOPOLOGIES", "GossipTopology", "Servers", "Topology", "Tree"]
