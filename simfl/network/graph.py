"""A graph written in the scenario itself; and well-known ones of any size, where client i stands on node i and the
server beside one of them.
"""

from abc import ABC, abstractmethod
from dataclasses import astuple, dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Discriminator, Field, Tag

from simfl.core.distributions import DistributionField, NonNegative, per_client, reaching
from simfl.core.errors import ScenarioError, there_are
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Name
from simfl.network.base import NETWORKS
from simfl.network.links import NARROWEST, Jitter, Loss, PathLinks, seconds_per_byte
from simfl.network.shared_edges import (
    NodePlaces,
    ServerField,
    ServerLink,
    SharedField,
    edge_problems,
    place_of,
    refuse_wrong_edges,
    share_edges,
    share_server,
    shares_nothing,
)
from simfl.network.sites import (
    MAX_EDGES,
    Clients,
    Edge,
    GraphSites,
    NodePlacement,
    SiteMap,
    connect,
    members,
    node_problems,
)


@dataclass(frozen=True)
class Link:
    """A link between two nodes."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    src: Annotated[Name, Field(description="one end")]
    dst: Annotated[Name, Field(description="the other end")]
    latency_s: Annotated[NonNegative, Field(description="one-way latency in seconds")]
    bandwidth_bytes_per_s: Annotated[
        float | None, Field(ge=NARROWEST, description="bytes per second; null = unlimited")
    ] = None


EdgeField = Annotated[
    Annotated[tuple[Name, Name, NonNegative], Tag("list")] | Annotated[Link, Tag("mapping")],
    Discriminator(lambda value: "list" if isinstance(value, (list, tuple)) else "mapping"),
]


@NETWORKS("graph")
@dataclass(frozen=True)
class Graph:
    """Nodes and links; a message takes the path of least latency, at the bandwidth of its narrowest link."""

    edges: Annotated[
        tuple[EdgeField, ...], Field(max_length=100_000, description="links: [node, node, latency_s] or a mapping")
    ]
    server: Annotated[ServerField, Field(description="the server's node, or a mapping: its name, and its own link")] = (
        "server"
    )
    clients: Clients = None
    placement: NodePlacement = "one_each"
    directed: Annotated[
        bool, Field(description="whether links go one way; else each serves the other way too, unless that is listed")
    ] = False
    jitter_s: Jitter = None
    loss: Loss = field(default=0.0, metadata=SINCE_LATER)
    shared: SharedField = field(default_factory=dict, metadata=SINCE_LATER)

    example = {"edges": [["server", "a", 1], ["a", "b", 2], ["b", "c", 4]], "placement": "random"}

    @property
    def independent(self) -> bool:
        """No message waits for another, as no link is shared."""
        return shares_nothing(self.server, self.shared)

    def _topology(self) -> SiteMap:
        edges = (edge if isinstance(edge, tuple) else astuple(edge) for edge in self.edges)
        return SiteMap(tuple(Edge(*edge) for edge in edges), self.directed)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        topology = self._topology()
        problems: list[tuple[str, str]] = []
        seen: dict[tuple[str, str], int] = {}
        for i, edge in enumerate(topology.edges):
            if edge.src == edge.dst:
                problems.append((f"edges.{i}", f"links '{edge.src}' to itself"))
            elif (first := seen.setdefault(edge[:2], i)) < i:
                problems.append((f"edges.{i}", f"'{edge.src}' to '{edge.dst}' is already link {first}"))
        problems += node_problems(topology.nodes, place_of(self.server), self.clients, self.placement, setting.clients)
        return problems + edge_problems(self.shared, topology.nodes, seen)

    def build(self, setting: ScenarioView, streams: Streams) -> PathLinks:
        topology = self._topology()
        nodes, rng = topology.nodes, streams("placement")
        at, server = members(nodes, place_of(self.server), self.clients, self.placement, setting.clients, rng)
        sites = topology.sites()
        links = share_server(connect(sites, list(nodes), at, server, streams, self.jitter_s), self.server)
        return share_edges(links, self.shared, NodePlaces(sites, nodes, at, server))


@dataclass(frozen=True, kw_only=True)
class Generated(ABC):
    """What the links of a generated graph have in common; each draws its own latency and bandwidth."""

    latency_s: Annotated[DistributionField, Field(description="one-way latency of each link in seconds")]
    bandwidth_bytes_per_s: Annotated[
        DistributionField | None, Field(description="bytes per second of each link; null = unlimited")
    ] = None
    server_at: Annotated[int, Field(ge=0, description="client at whose node the server stands")] = 0
    jitter_s: Jitter = None
    loss: Loss = field(default=0.0, metadata=SINCE_LATER)
    server: Annotated[ServerLink, Field(description="the server's own link, which all its messages share")] = field(
        default=ServerLink(), metadata=SINCE_LATER
    )
    shared: SharedField = field(default_factory=dict, metadata=SINCE_LATER)

    example = {"latency_s": {"name": "log_normal", "median": 0.1, "sigma": 0.5}}

    @property
    def independent(self) -> bool:
        """No message waits for another, as no link is shared."""
        return shares_nothing(self.server, self.shared)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = reaching("bandwidth_bytes_per_s", self.bandwidth_bytes_per_s, least=NARROWEST)
        if self.server_at >= setting.clients:
            last = setting.clients - 1
            problems.append(("server_at", f"there is no client {self.server_at}; the nearest valid value is {last}"))
        nodes = {str(client) for client in range(setting.clients)} if self.shared else set[str]()
        return problems + edge_problems(self.shared, nodes, None)

    @abstractmethod
    def edges(self, clients: int, streams: Streams) -> NDArray[np.int64]:
        """The links, shape (links, 2)."""

    def build(self, setting: ScenarioView, streams: Streams) -> PathLinks:
        clients = setting.clients
        edges = self.edges(clients, streams)
        per_byte = np.zeros(len(edges))
        if self.bandwidth_bytes_per_s is not None:
            key = "bandwidth_bytes_per_s"
            bandwidth = per_client(self.bandwidth_bytes_per_s, len(edges), streams("bandwidth"), key)
            per_byte = seconds_per_byte(key, bandwidth)
        latency = per_client(self.latency_s, len(edges), streams("latency"), "latency_s")
        sites = GraphSites.from_edges(clients, map(tuple, edges.tolist()), latency, per_byte)
        names = [str(client) for client in range(clients)]
        number = {name: client for client, name in enumerate(names)} if self.shared else {}
        refuse_wrong_edges(
            self.shared, number, {(names[i], names[j]) for i, j in edges.tolist()} if self.shared else None
        )
        at = np.arange(clients)
        links = share_server(connect(sites, names, at, self.server_at, streams, self.jitter_s), self.server)
        return share_edges(links, self.shared, NodePlaces(sites, number, at, self.server_at))


def _too_many(setting: ScenarioView, most: int) -> list[tuple[str, str]]:
    if setting.clients <= most:
        return []
    return [("name", f"{setting.clients} clients are too many for this graph; at most {most}, or use star")]


@NETWORKS("ring")
@dataclass(frozen=True, kw_only=True)
class Ring(Generated):
    """Each client is linked to the next, and the last to the first."""

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        return super().check(setting) + _too_many(setting, MAX_EDGES)

    def edges(self, clients: int, streams: Streams) -> NDArray[np.int64]:
        node = np.arange(clients if clients > 2 else clients - 1)
        return np.column_stack([node, (node + 1) % clients])


@NETWORKS("complete")
@dataclass(frozen=True, kw_only=True)
class Complete(Generated):
    """Every two clients are linked; a detour is taken where it is faster."""

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        return super().check(setting) + _too_many(setting, int((2 * MAX_EDGES) ** 0.5))

    def edges(self, clients: int, streams: Streams) -> NDArray[np.int64]:
        later, earlier = np.tril_indices(clients, -1)  # a further client appends its links to the draws
        return np.column_stack([earlier, later])


@NETWORKS("small_world")
@dataclass(frozen=True, kw_only=True)
class SmallWorld(Generated):
    """A ring lattice with some links rewired at random, connected (Watts and Strogatz, Nature 393, 1998)."""

    neighbours: Annotated[int, Field(ge=2, multiple_of=2, description="links of each client before rewiring")] = 4
    rewire: Annotated[float, Field(ge=0, le=1, description="probability that a link is rewired")] = 0.1

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = super().check(setting) + _too_many(setting, 2 * MAX_EDGES // self.neighbours)
        if self.neighbours >= setting.clients:
            most = max(setting.clients - 1, 0) // 2 * 2
            remedy = f"the nearest valid value is {most}" if most else "use complete"
            problems.append(
                ("neighbours", f"is {self.neighbours} but {there_are(setting.clients, 'client')}; {remedy}")
            )
        return problems

    def edges(self, clients: int, streams: Streams) -> NDArray[np.int64]:
        import networkx

        try:
            graph = networkx.connected_watts_strogatz_graph(
                clients, self.neighbours, self.rewire, tries=100, seed=streams("rewiring")
            )
        except networkx.NetworkXError:
            problem = f"no connected graph in 100 tries with {self.neighbours} links a client"
            raise ScenarioError("neighbours", f"{problem}; try {self.neighbours + 2}") from None
        return np.array(sorted(graph.edges()), dtype=np.int64)
