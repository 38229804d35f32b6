"""Networks: seconds of many messages at once."""

from simfl.network.base import NETWORKS, Links, Network
from simfl.network.fair_sharing import waits_s
from simfl.network.shared_edges import ServerLink

__all__ = [
    "Links", "NETWORKS", "Network", "ServerLink", "waits_s",
]  # fmt: skip
