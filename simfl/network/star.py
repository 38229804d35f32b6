"""Every client has its own line to the server: arrays only, so that a million clients fit."""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.distributions import PerClient, length_problems, per_client, reaching
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Name
from simfl.network.base import NETWORKS
from simfl.network.links import NARROWEST, Jitter, Loss, PathLinks, Paths, seconds_per_byte
from simfl.network.shared_edges import ServerLink, share_server, shares_nothing


@NETWORKS("star")
@dataclass(frozen=True)
class Star:
    """A line of its own between each client and the server; clients reach one another through the server."""

    latency_s: Annotated[
        PerClient,
        Field(description="one-way latency in seconds: a number, one value a client, or a distribution drawn for each"),
    ] = 0.0
    bandwidth_bytes_per_s: Annotated[
        PerClient | None, Field(description="the line's bytes per second, in the same three forms; null = unlimited")
    ] = None
    up_bandwidth_bytes_per_s: Annotated[
        PerClient | None, Field(description="bytes per second from client to server; null = bandwidth_bytes_per_s")
    ] = None
    jitter_s: Jitter = None
    loss: Loss = field(default=0.0, metadata=SINCE_LATER)
    names: Annotated[tuple[Name, ...] | None, Field(description="a name for each client; null = numbers")] = None
    server: Annotated[ServerLink, Field(description="the server's own link, which all messages share")] = field(
        default=ServerLink(), metadata=SINCE_LATER
    )

    @property
    def independent(self) -> bool:
        """No message waits for another, as no link is shared."""
        return shares_nothing(self.server, {})

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = length_problems("latency_s", self.latency_s, setting.clients)
        problems += length_problems("bandwidth_bytes_per_s", self.bandwidth_bytes_per_s, setting.clients)
        problems += length_problems("up_bandwidth_bytes_per_s", self.up_bandwidth_bytes_per_s, setting.clients)
        problems += length_problems("names", self.names, setting.clients)
        for key in ("bandwidth_bytes_per_s", "up_bandwidth_bytes_per_s"):
            problems += reaching(key, getattr(self, key), least=NARROWEST)
        if self.names is not None and len(set(self.names)) < len(self.names):
            problems.append(("names", "a name is given to two clients; each needs its own"))
        return problems

    def cautions(self, setting: ScenarioView) -> list[str]:
        limits = (self.bandwidth_bytes_per_s, self.up_bandwidth_bytes_per_s, self.jitter_s)
        delays = (
            limits != (None, None, None)
            or self.server != ServerLink()
            or self.latency_s not in (0.0, (0.0,) * setting.clients)
            or setting.devices.profiles is not None
        )
        if delays or not setting.devices.computation.instant or setting.training.asynchronous:
            return []
        why = "nothing takes time, so that time_s is 0 but for skipped rounds"
        return [f"{why}; give network.latency_s or devices.computation"]

    def build(self, setting: ScenarioView, streams: Streams) -> PathLinks:
        clients = setting.clients
        latency = _with_server(per_client(self.latency_s, clients, streams("latency"), "latency_s"))
        jitter = np.broadcast_to(1.0, clients + 1)
        key, rng = "bandwidth_bytes_per_s", streams("bandwidth/down")
        down = Paths(latency, _line(key, self.bandwidth_bytes_per_s, clients, rng), jitter)
        up = down
        if self.up_bandwidth_bytes_per_s is not None:
            key, rng = "up_bandwidth_bytes_per_s", streams("bandwidth/up")
            up = Paths(latency, _line(key, self.up_bandwidth_bytes_per_s, clients, rng), jitter)

        def between(sources: NDArray[np.integer], destinations: NDArray[np.integer]) -> Paths:
            first, second = up.take(sources), down.take(destinations)
            return Paths(
                first.latency_s + second.latency_s, np.maximum(first.s_per_byte, second.s_per_byte), first.jitter
            )

        return share_server(PathLinks(self.names, down, up, between, self.jitter_s, streams), self.server, True)


def _line(key: str, bandwidth: object, clients: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Seconds per byte of each client's line and of the server's; nothing where the bandwidth is unlimited."""
    if bandwidth is None:
        return np.zeros(clients + 1)
    return _with_server(seconds_per_byte(key, per_client(bandwidth, clients, rng, key)))


def _with_server(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values and a last one, of the server itself, at position SERVER = -1: its own line costs nothing."""
    return np.append(values, 0.0)
