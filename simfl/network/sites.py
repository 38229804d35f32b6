"""Clients on sites: what all networks with places (graphs, cities) have in common."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.distributions import Distribution
from simfl.core.errors import ScenarioError, amount, suggestion, there_are
from simfl.core.rng import Streams
from simfl.core.types import SERVER, Name
from simfl.network.links import PathLinks, Paths

if TYPE_CHECKING:
    import networkx

Placement = Literal["one_each", "cycle", "random"]

CACHED_SOURCES = 1024

Clients = Annotated[
    tuple[Name, ...] | None,
    Field(min_length=1, description="nodes of the clients, in the clients' order; null = all nodes but the server's"),
]

NodePlacement = Annotated[
    Placement,
    Field(description="one_each: one client a node; cycle: round the nodes again and again; random: any node"),
]

MAX_PROBLEMS = 20

MAX_EDGES = 500_000
"""More links make a graph too large for memory; use a star."""

SAME_LATENCY = 1 + 1e-12
"""Sums of latencies that are this close are equal: 0.1 + 0.2 and 0.3 are one latency."""


class Sites(Protocol):
    """Places with known paths between them; an infinite latency means that there is no path."""

    def paths_from(self, site: int) -> Paths:
        """The paths from one site to every site, shape (sites,)."""

    def paths_to(self, site: int) -> Paths:
        """The paths from every site to one, shape (sites,)."""

    def paths_into(self, site: int) -> Paths:
        """The same, with latencies that are summed from the start of each path on, as in :meth:`paths_from`: the last
        bits may differ.
        """

    def links_from(self, site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        """The bits of all hops, from site to site, on the paths from one site to every site, shape (sites,)."""

    def links_to(self, site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        """The bits of all hops on the paths from every site to one, shape (sites,)."""


def place(
    clients: int, sites: Sequence[int], how: str, rng: np.random.Generator, weights: NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """The site of each client, shape (clients,).

    Args:
        sites: where clients may be.
        how: "cycle" goes round the sites, "one_each" is its first turn, "random" draws, one value a client.
        weights: of the sites when drawn; None = equal.
    """
    allowed = np.asarray(sites, dtype=np.int64)
    if how != "random":
        return allowed[np.arange(clients) % len(allowed)]
    bounds = np.cumsum(np.ones(len(allowed)) if weights is None else weights)
    positions = np.searchsorted(bounds / bounds[-1], rng.random(clients), side="right")
    return allowed[np.minimum(positions, len(allowed) - 1)]


class Joined:
    """The paths between clients, by way of their sites; a site's paths are computed when it first sends, and those of
    all sites to the server in one search.
    """

    def __init__(self, sites: Sites, at: NDArray[np.int64], access_s_per_byte: NDArray[np.float64]) -> None:
        self.at = at
        self.access_s_per_byte = access_s_per_byte
        self.paths_from = lru_cache(CACHED_SOURCES)(sites.paths_from)
        self.paths_into_server = cache(lambda: sites.paths_into(int(at[SERVER])))

    def __call__(self, sources: NDArray[np.integer], destinations: NDArray[np.integer]) -> Paths:
        start, end = self.at[sources], self.at[destinations]
        joined = Paths(*(np.empty(len(start)) for _ in Paths._fields))
        to_server = destinations == SERVER
        order = np.argsort(start, kind="stable")
        order = order[~to_server[order]]
        used, first = np.unique(start[order], return_index=True)
        parts = list(zip(used.tolist(), np.split(order, first[1:]), strict=False))  # no sources, still one (empty) part
        pieces = [(part, self.paths_from(site).take(end[part])) for site, part in parts]
        if to_server.any():
            pieces.append((np.flatnonzero(to_server), self.paths_into_server().take(start[to_server])))
        for part, paths in pieces:
            for whole, piece in zip(joined, paths, strict=True):
                whole[part] = piece
        return _with_access(_with_access(joined, self.access_s_per_byte[sources]), self.access_s_per_byte[destinations])


def connect(
    sites: Sites,
    site_names: Sequence[str],
    at: NDArray[np.int64],
    server: int,
    streams: Streams,
    jitter: Distribution | None,
    access_s_per_byte: NDArray[np.float64] | None = None,
) -> PathLinks:
    """The links of clients that stand on sites.

    Args:
        at: the site of each client, shape (clients,).
        server: the server's site.
        jitter: as in :class:`PathLinks`.
        access_s_per_byte: reciprocal bandwidth of each client's own line, shape (clients,); None = unlimited.

    Raises:
        ScenarioError: a client has no path from or to the server.
    """
    access = np.append(np.zeros(len(at)) if access_s_per_byte is None else access_s_per_byte, 0.0)
    at = np.append(at, server)  # position SERVER = -1
    down, up = (_with_access(paths.take(at), access) for paths in (sites.paths_from(server), sites.paths_to(server)))
    for paths, ends in ((down, "the server '{0}' to client {1}"), (up, "client {1} to the server '{0}'")):
        if len(cut := np.flatnonzero(np.isinf(paths.latency_s))):
            client = f"'{site_names[at[cut[0]]]}'" + (f" (and {len(cut) - 1} more)" if len(cut) > 1 else "")
            raise ScenarioError("", "there is no path from " + ends.format(site_names[server], client))
    names = _names([site_names[site] for site in at[:-1]])
    return PathLinks(names, down, up, Joined(sites, at, access), jitter, streams)


def _with_access(paths: Paths, s_per_byte: NDArray[np.float64]) -> Paths:
    return paths._replace(s_per_byte=np.maximum(paths.s_per_byte, s_per_byte))


def _names(names: list[str]) -> tuple[str, ...]:
    """The site's name, with #2, #3, ... for its further clients."""
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return tuple(unique)


def node_problems(
    nodes: Collection[str], server: str, clients: Sequence[str] | None, placement: str, number: int
) -> list[tuple[str, str]]:
    """What is wrong with the choice of nodes, as (field, message).

    Args:
        nodes: all nodes of the graph, quick to look up.
        clients: the clients' nodes, or None for all the others.
        number: clients of the scenario.
    """
    problems = []
    if server not in nodes:
        problems.append(("server", f"there is no node '{server}'{suggestion(server, nodes)}"))
    listed: set[str] = set()
    for i, name in enumerate(clients or ()):
        if len(problems) >= MAX_PROBLEMS:
            break
        if name not in nodes:
            problems.append((f"clients.{i}", f"there is no node '{name}'{suggestion(name, nodes)}"))
        elif name in listed:
            problems.append((f"clients.{i}", f"node '{name}' is listed twice"))
        listed.add(name)
    chosen = len(nodes) - (server in nodes) if clients is None else len(clients)
    if chosen == 0:
        problems.append(("edges", "no node is left for the clients"))
    elif placement == "one_each" and chosen != number:
        remedy = f"set clients: {chosen} at the top, or placement: cycle or random"
        problems.append(("placement", f"{there_are(number, 'client')} for {amount(chosen, 'client node')}; {remedy}"))
    return problems


def members(
    nodes: dict[str, int], server: str, clients: Sequence[str] | None, how: str, number: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], int]:
    """The site of each client, shape (number,), and the server's."""
    chosen = [name for name in nodes if name != server] if clients is None else clients
    return place(number, [nodes[name] for name in chosen], how, rng), nodes[server]


class Edge(NamedTuple):
    """A link.

    Attributes:
        src, dst: its ends; it can be used from ``dst`` to ``src`` too, unless a topology is directed.
        bandwidth_bytes_per_s: None = unlimited.
    """

    src: str
    dst: str
    latency_s: float
    bandwidth_bytes_per_s: float | None = None


class SiteMap(NamedTuple):
    """Named nodes and links.

    Attributes:
        directed: a link goes one way only; otherwise it stands for both ways where the other is not listed.
        end_to_end: the links are measured from end to end, so a listed pair uses its own link even where a detour
            would be faster.
    """

    edges: tuple[Edge, ...]
    directed: bool = False
    end_to_end: bool = False

    @property
    def nodes(self) -> dict[str, int]:
        """The nodes in order of first appearance, with their numbers."""
        names = dict.fromkeys(name for edge in self.edges for name in edge[:2])
        return {name: number for number, name in enumerate(names)}

    def sites(self) -> "GraphSites":
        """The nodes as sites, by their numbers."""
        import networkx

        number = self.nodes
        listed = []
        for src, dst, latency_s, bandwidth in self.edges:
            values = {"latency_s": latency_s, "s_per_byte": 0.0 if bandwidth is None else 1 / bandwidth}
            listed.append((number[src], number[dst], values))
        graph = networkx.DiGraph()
        graph.add_nodes_from(number.values())
        if not self.directed:
            graph.add_edges_from((dst, src, values) for src, dst, values in listed)
        graph.add_edges_from(listed)  # a listed direction overwrites what the other one stood for
        return GraphSites(graph, self.end_to_end)


class GraphSites:
    """Shortest paths over a networkx graph with nodes 0 .. n-1 and edge values ``latency_s`` and ``s_per_byte``.

    Of several paths of the same least latency the widest counts.
    """

    def __init__(self, graph: "networkx.Graph", end_to_end: bool = False) -> None:
        self.graph = graph
        self.end_to_end = end_to_end
        self._search = lru_cache(2)(_search)  # of the server, in both directions

    @classmethod
    def from_edges(cls, nodes: int, edges: Iterable[tuple[int, int]], latency_s: Any, s_per_byte: Any) -> "GraphSites":
        """Nodes 0 .. nodes-1 and links that serve both ways."""
        import networkx

        graph = networkx.Graph()
        graph.add_nodes_from(range(nodes))
        graph.add_edges_from(
            (src, dst, {"latency_s": float(latency), "s_per_byte": float(per_byte)})
            for (src, dst), latency, per_byte in zip(edges, latency_s, s_per_byte, strict=True)
        )
        return cls(graph)

    def paths_from(self, site: int) -> Paths:
        return self._paths(self.graph, site)

    def paths_to(self, site: int) -> Paths:
        return self._paths(self._reversed, site)

    def paths_into(self, site: int) -> Paths:
        after = np.full(len(self.graph), site)
        hop_s, reverse = np.zeros(len(self.graph)), self._reversed
        for node, following in self._search(reverse, site)[2].items():
            after[node], hop_s[node] = following, reverse[following][node]["latency_s"]
        paths = self.paths_to(site)
        latency_s, places = np.zeros(len(after)), np.arange(len(after))
        while (places != site).any():
            latency_s += hop_s[places]
            places = after[places]
        direct = list(reverse[site]) if self.end_to_end else []
        latency_s[direct] = paths.latency_s[direct]
        return paths._replace(latency_s=np.where(np.isinf(paths.latency_s), np.inf, latency_s))

    def links_from(self, site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        return self._links(self.graph, site, bits)

    def links_to(self, site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        return self._links(self._reversed, site, {(dst, src): code for (src, dst), code in bits.items()})

    @cached_property
    def _reversed(self) -> "networkx.Graph":
        return self.graph.reverse(copy=False) if self.graph.is_directed() else self.graph

    def _links(self, graph: "networkx.Graph", site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        codes = np.zeros(len(graph), dtype=np.int64)
        for node, before in self._search(graph, site)[2].items():  # a node comes after the one before it
            codes[node] = codes[before] | bits.get((before, node), 0)
        if self.end_to_end:
            for node in graph[site]:
                codes[node] = bits.get((site, node), 0)
        return codes

    def _paths(self, graph: "networkx.Graph", site: int) -> Paths:
        distance, width, _ = self._search(graph, site)
        latency, per_byte = np.full(len(graph), np.inf), np.zeros(len(graph))
        latency[list(distance)] = list(distance.values())
        per_byte[list(width)] = list(width.values())
        if self.end_to_end:
            for node, link in graph[site].items():
                latency[node], per_byte[node] = link["latency_s"], link["s_per_byte"]
        return Paths(latency, per_byte, np.ones(len(graph)))


def _search(graph: "networkx.Graph", site: int) -> tuple[dict[int, float], dict[int, float], dict[int, int]]:
    """The least latency from a node to every node that it reaches, and what :func:`_widest` says of such paths."""
    import networkx

    distance = networkx.single_source_dijkstra_path_length(graph, site, weight="latency_s")
    return distance, *_widest(graph, distance, site)


def _widest(graph: "networkx.Graph", distance: dict[int, float], site: int) -> tuple[dict[int, float], dict[int, int]]:
    """Seconds per byte of the widest among the paths of least latency from ``site`` to every node that it reaches, and
    the node before each on that path (of several as wide, the first by its number).

    Dijkstra's algorithm again, with the maximum in place of the sum, over the links that lie on such paths. Links
    without latency are among them in both directions, so that no order of distances would do.
    """
    width: dict[int, float] = {}
    before: dict[int, int] = {}
    fringe = [(0.0, site, site)]
    while fringe:
        per_byte, node, previous = heappop(fringe)
        if node in width:
            continue
        width[node] = per_byte
        if node != site:
            before[node] = previous
        for after, link in graph[node].items():
            if after not in width and distance[node] + link["latency_s"] <= distance[after] * SAME_LATENCY:
                heappush(fringe, (max(per_byte, link["s_per_byte"]), after, node))
    return width, before
