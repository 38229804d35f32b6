"""The one implementation of :class:`simfl.network.base.Links`: arrays of paths."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.distributions import Distribution, DistributionField, checked_draws
from simfl.core.errors import ScenarioError
from simfl.core.rng import Address, Streams
from simfl.core.types import Bools, Floats, Integers
from simfl.network.base import Links
from simfl.network.fair_sharing import waits_s
from simfl.network.link_network import Codes, LinkNetwork, NetworkFlows, flows_over

Jitter = Annotated[DistributionField | None, Field(description="seconds added to each message; null = no jitter")]

Loss = Annotated[
    float, Field(ge=0, lt=1, description="probability that a message is lost, each by itself; deadlines tell of it")
]

NARROWEST = 1e-9
"""The least bandwidth in bytes per second: delays stay finite."""


class Paths(NamedTuple):
    """Paths, one an entry.

    Attributes:
        latency_s: propagation delay.
        s_per_byte: reciprocal of the narrowest link's bandwidth; 0 = unlimited.
        jitter: factor of the path's jitter draws.
    """

    latency_s: Floats
    s_per_byte: Floats
    jitter: Floats

    def take(self, index: NDArray[np.generic]) -> "Paths":
        """The paths at the given positions."""
        return Paths(self.latency_s[index], self.s_per_byte[index], self.jitter[index])


class Flows(NamedTuple):
    """Messages as a shared link sees them, one an entry.

    Attributes:
        alone_s: seconds on the link if nothing else is on it; 0 for those without bytes.
        share: of the link that each can take at most, as its own path is narrow, in (0, 1].
    """

    alone_s: Floats
    share: Floats

    def waits_s(self, begins_s: Floats) -> Floats:
        """By how many seconds they end later than they would alone, (n,), see
        :func:`simfl.network.fair_sharing.waits_s`.
        """
        return waits_s(begins_s, *self)


class SharedLink(NamedTuple):
    """A link that messages share.

    Attributes:
        bytes_per_s: of all of them together.
        s_per_byte: of each client's messages alone, (clients,).
    """

    bytes_per_s: float
    s_per_byte: Floats

    def flows(self, clients: NDArray[np.integer], size_bytes: float | NDArray[np.generic]) -> Flows:
        """Messages of these clients; sizes in bytes, a number or (n,)."""
        s_per_byte = self.s_per_byte[clients]
        return Flows(size_bytes * s_per_byte, 1 / self.bytes_per_s / s_per_byte)

    @property
    def equal_share(self) -> float | None:
        """The share of every client's messages; None where they differ."""
        first = self.s_per_byte[0]
        return float(1 / self.bytes_per_s / first) if (self.s_per_byte == first).all() else None


class NamedLink(NamedTuple):
    """A shared link of a graph, as the scenario names it.

    Attributes:
        down_bytes_per_s, up_bytes_per_s: of all messages from and to the server.
        down, up: the clients whose messages from and to the server cross it, bool (clients,).
    """

    name: str
    down_bytes_per_s: float
    up_bytes_per_s: float
    down: Bools
    up: Bools


class PeerLinks(NamedTuple):
    """Shared links on the paths between clients.

    Attributes:
        bytes_per_s: of each, (links,).
        codes: which of them messages cross, from sources to destinations, (n,), (n,) -> (n,).
    """

    bytes_per_s: Floats
    codes: Callable[[NDArray[np.integer], NDArray[np.integer]], Codes]


class SharedLinks(NamedTuple):
    """The links that messages share.

    Attributes:
        down, up: those of messages from and to the server, one or several; None = all is unlimited.
        peers_bytes_per_s: of all messages between clients together, where they pass the server; None = unlimited.
        named: those with names.
        peers: those on the paths between clients, where there are named ones.
        has_server_link: whether the server has a link of its own.
    """

    down: SharedLink | LinkNetwork | None
    up: SharedLink | LinkNetwork | None
    peers_bytes_per_s: float | None = None
    named: tuple[NamedLink, ...] = ()
    peers: PeerLinks | None = None
    has_server_link: bool = True

    def along(self, down: Paths, up: Paths) -> "SharedLinks":
        """The same links, for clients whose messages take other paths."""
        return self._replace(
            down=self.down and self.down._replace(s_per_byte=down.s_per_byte[:-1]),
            up=self.up and self.up._replace(s_per_byte=up.s_per_byte[:-1]),
        )


@dataclass(frozen=True)
class PathLinks(Links):
    """Delays along known paths.

    Attributes:
        names: as in :class:`~simfl.network.base.Links`.
        down: the path from the server to each client, shape (clients,) or longer.
        up: the path from each client to the server, likewise.
        between: the paths from sources to destinations, (n,), (n,) -> (n,).
        jitter: draws added to each message, times the path's factor; None = no jitter, and nothing is drawn.
        shared: the links that messages share; None = there are none. ``down`` and ``up`` are of messages alone on them.
    """

    names: tuple[str, ...] | None
    down: Paths
    up: Paths
    between: Callable[[NDArray[np.integer], NDArray[np.integer]], Paths]
    jitter: Distribution | None
    streams: Streams
    shared: SharedLinks | None = None

    def down_s(
        self, clients: NDArray[np.integer], size_bytes: float | NDArray[np.generic], where: Address, phase: str = ""
    ) -> Floats:
        return self._delay_s(self.down.take(clients), size_bytes, "jitter/down" + phase, where)

    def up_s(
        self, clients: NDArray[np.integer], size_bytes: float | NDArray[np.generic], where: Address, phase: str = ""
    ) -> Floats:
        return self._delay_s(self.up.take(clients), size_bytes, "jitter/up" + phase, where)

    def latency_s(self, sources: NDArray[np.integer], destinations: NDArray[np.integer]) -> Floats:
        sources, destinations = np.asarray(sources), np.asarray(destinations)
        return np.where(sources == destinations, 0.0, self.between(sources, destinations).latency_s)

    def between_s(
        self,
        sources: NDArray[np.integer],
        destinations: NDArray[np.integer],
        size_bytes: float | NDArray[np.generic],
        where: Address,
        phase: str = "",
    ) -> Floats:
        sources, destinations = np.asarray(sources), np.asarray(destinations)
        delay = self._delay_s(self.between(sources, destinations), size_bytes, "jitter/between" + phase, where)
        return np.where(sources == destinations, 0.0, delay)

    def down_flows(self, clients: NDArray[np.integer], size_bytes: NDArray[np.generic]) -> Flows | NetworkFlows | None:
        """Messages from the server as the links see them that they share; None = there are none."""
        link = None if self.shared is None else self.shared.down
        return None if link is None else link.flows(clients, size_bytes)

    def up_flows(self, clients: NDArray[np.integer], size_bytes: NDArray[np.generic]) -> Flows | NetworkFlows | None:
        """Messages to the server, likewise."""
        link = None if self.shared is None else self.shared.up
        return None if link is None else link.flows(clients, size_bytes)

    def peer_flows(
        self, sources: NDArray[np.integer], destinations: NDArray[np.integer], size_bytes: Integers
    ) -> Flows | NetworkFlows | None:
        """Messages between clients as the links see them that they share; None = there are none."""
        if self.shared is None:
            return None
        s_per_byte = self.between(sources, destinations).s_per_byte
        if self.shared.peers is not None:
            codes = np.where(sources == destinations, 0, self.shared.peers.codes(sources, destinations))
            return flows_over(codes, s_per_byte, size_bytes, self.shared.peers.bytes_per_s)
        if self.shared.peers_bytes_per_s is None:
            return None
        alone_s = np.where(sources == destinations, 0.0, size_bytes * s_per_byte)
        return Flows(alone_s, 1 / self.shared.peers_bytes_per_s / s_per_byte)

    def _delay_s(self, paths: Paths, size_bytes: float | NDArray[Any], purpose: str, where: Address) -> Floats:
        delay = paths.latency_s + size_bytes * paths.s_per_byte
        if self.jitter is None:
            return delay
        jitter = checked_draws("network.jitter_s", self.jitter, self.streams.at(purpose, where, self.jitter.sample))
        return delay + paths.jitter * jitter


def sharing(links: object) -> PathLinks | None:
    """These links if messages share some of them; those that a plugin makes itself share nothing."""
    return links if isinstance(links, PathLinks) and links.shared is not None else None


def seconds_per_byte(key: str, bandwidth: Floats) -> Floats:
    """The reciprocal of bandwidths in bytes per second.

    Raises:
        ScenarioError: a bandwidth under ``key`` is zero, or next to it.
    """
    if bandwidth.size and bandwidth.min() < NARROWEST:
        problem = f"a bandwidth of {bandwidth.min():g} bytes/s carries nothing"
        raise ScenarioError(key, f"{problem}; it must be at least {NARROWEST:g}")
    return 1 / bandwidth


@dataclass(frozen=True)
class AccessLines:
    """Each client's line to the network, float64 (clients,).

    Attributes:
        latency_s: one way, added to that of the path behind it.
        down_s_per_byte, up_s_per_byte: reciprocal bandwidths, towards the client and from it; 0 = unlimited.
    """

    latency_s: Floats
    down_s_per_byte: Floats
    up_s_per_byte: Floats

    def before(self, links: PathLinks) -> PathLinks:
        """The links of clients that reach a network by these lines: latencies add up, the narrowest link counts.

        Two clients behind lines of 0.1 s and 0.2 s, on a star without latency, of 1,000 bytes a second:

        >>> from types import SimpleNamespace
        >>> from simfl.core.rng import Address, Streams
        >>> from simfl.network.star import Star
        >>> star = Star(bandwidth_bytes_per_s=1000.0).build(SimpleNamespace(clients=2), Streams(0))
        >>> lines = AccessLines(np.array([0.1, 0.2]), np.array([0.002, 0.0]), np.array([0.0, 0.0]))
        >>> clients = np.array([0, 1])
        >>> lines.before(star).down_s(clients, 500, Address(0, clients, 2)).round(6).tolist()
        [1.1, 0.7]
        """
        latency, down, up = (
            np.append(each, 0.0) for each in (self.latency_s, self.down_s_per_byte, self.up_s_per_byte)
        )

        def between(sources: NDArray[np.integer], destinations: NDArray[np.integer]) -> Paths:
            paths = _behind(links.between(sources, destinations), latency[sources], up[sources])
            return _behind(paths, latency[destinations], down[destinations])

        to, back = _behind(links.down, latency, down), _behind(links.up, latency, up)
        shared = links.shared and links.shared.along(to, back)
        return replace(links, down=to, up=back, between=between, shared=shared)


def _behind(paths: Paths, latency_s: Floats, s_per_byte: Floats) -> Paths:
    return paths._replace(latency_s=paths.latency_s + latency_s, s_per_byte=np.maximum(paths.s_per_byte, s_per_byte))
