"""Networks: seconds of many messages at once."""

from simfl.network.base import NETWORKS, Links, Network

__all__ = ["NETWORKS", "Links", "Network"]
