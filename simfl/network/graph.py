"""A graph written in the scenario itself."""

from dataclasses import astuple, dataclass, field
from typing import Annotated

from pydantic import ConfigDict, Discriminator, Field, Tag

from simfl.core.distributions import NonNegative
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Name
from simfl.network.base import NETWORKS
from simfl.network.links import NARROWEST, Jitter, Loss, PathLinks
from simfl.network.shared_edges import (
    NodePlaces,
    ServerField,
    SharedField,
    edge_problems,
    place_of,
    share_edges,
    share_server,
    shares_nothing,
)
from simfl.network.sites import Clients, Edge, NodePlacement, SiteMap, connect, members, node_problems


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
