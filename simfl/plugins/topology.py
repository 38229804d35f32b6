"""Who talks with whom."""

from simfl.topology.base import TOPOLOGIES, EdgeNode, Topology
from simfl.topology.gossip import GossipTopology
from simfl.topology.tree import Servers, Tree

__all__ = ["TOPOLOGIES", "EdgeNode", "GossipTopology", "Servers", "Topology", "Tree"]
