"""How long messages take: one file per kind of network. networkx is imported only when a graph is built."""

from simfl.network.base import NETWORKS, Links, Network

__all__ = ["NETWORKS", "Links", "Network"]
