"""Clients on sites: what all networks with places (graphs, cities) have in common."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.distributions import Distribution
from simfl.core.errors import ScenarioError, amount, suggestion, there_are
from simfl.core.rng import Streams
from simfl.core.types import SERVER, Name
from simfl.network.arcs import Arcs, search
from simfl.network.links import PathLinks, Paths

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


class Sites(Protocol):
    """Places with known paths between them; an infinite latency means that there is no path."""

    def near(self, site: int) -> NDArray[np.bool_]:
        """The sites that links in any direction connect with one, bool (sites,)."""

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
    notes: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}

    @property
    def linked(self) -> set[tuple[str, str]]:
        """The ends of all links."""
        return {edge[:2] for edge in self.edges}

    @property
    def nodes(self) -> dict[str, int]:
        """The nodes in order of first appearance, with their numbers."""
        names = dict.fromkeys(name for edge in self.edges for name in edge[:2])
        return {name: number for number, name in enumerate(names)}

    def sites(self) -> "GraphSites":
        """The nodes as sites, by their numbers."""
        number = self.nodes
        src = np.array([number[edge.src] for edge in self.edges], dtype=np.int64)
        dst = np.array([number[edge.dst] for edge in self.edges], dtype=np.int64)
        latency_s = np.array([edge.latency_s for edge in self.edges])
        wide = (edge.bandwidth_bytes_per_s for edge in self.edges)
        s_per_byte = np.array([0.0 if each is None else 1 / each for each in wide])
        if not self.directed:  # a listed direction overwrites what the other one stood for
            src, dst = np.concatenate([dst, src]), np.concatenate([src, dst])
            latency_s, s_per_byte = np.tile(latency_s, 2), np.tile(s_per_byte, 2)
        return GraphSites(Arcs(len(number), src, dst, latency_s, s_per_byte), self.end_to_end)


class GraphSites:
    """Shortest paths over nodes 0 .. n-1.

    Of several paths of the same least latency the widest counts.

    Args:
        graph: the links.
        end_to_end: they are measured from end to end: a listed pair uses its own link, even where a detour is faster,
            and a link from a node to itself is what separates clients on it.
    """

    def __init__(self, graph: Arcs, end_to_end: bool = False) -> None:
        self.graph = graph
        self.end_to_end = end_to_end
        self._search = lru_cache(2)(search)  # of the server, in both directions

    @classmethod
    def from_edges(cls, nodes: int, edges: Iterable[tuple[int, int]], latency_s: Any, s_per_byte: Any) -> "GraphSites":
        """Nodes 0 .. nodes-1 and links that serve both ways."""
        src, dst = np.array([*edges], dtype=np.int64).reshape(-1, 2).T
        ends = np.concatenate([src, dst]), np.concatenate([dst, src])
        return cls(Arcs(nodes, *ends, np.tile(latency_s, 2), np.tile(s_per_byte, 2)))

    def near(self, site: int) -> NDArray[np.bool_]:
        return self.graph.component(site)

    def paths_from(self, site: int) -> Paths:
        return self._paths(self.graph, site)

    def paths_to(self, site: int) -> Paths:
        return self._paths(self.graph.reverse, site)

    def paths_into(self, site: int) -> Paths:
        paths, reverse = self.paths_to(site), self.graph.reverse
        if self._is_complete(reverse, site):
            return paths
        after, hop_s = np.full(len(reverse), site), np.zeros(len(reverse))
        for node, following in self._search(reverse, site)[2].items():
            link = reverse.of(following)
            after[node] = following
            hop_s[node] = reverse.latency_s[link][np.searchsorted(reverse.dst[link], node)]
        latency_s, places = np.zeros(len(after)), np.arange(len(after))
        while (places != site).any():
            latency_s += hop_s[places]
            places = after[places]
        direct: Any = reverse.dst[reverse.of(site)] if self.end_to_end else []
        latency_s[direct] = paths.latency_s[direct]
        return paths._replace(latency_s=np.where(np.isinf(paths.latency_s), np.inf, latency_s))

    def links_from(self, site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        return self._links(self.graph, site, bits)

    def links_to(self, site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        return self._links(self.graph.reverse, site, {(dst, src): code for (src, dst), code in bits.items()})

    def _links(self, graph: Arcs, site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        codes = np.zeros(len(graph), dtype=np.int64)
        for node, before in self._search(graph, site)[2].items():  # a node comes after the one before it
            codes[node] = codes[before] | bits.get((before, node), 0)
        if self.end_to_end:
            for node in graph.dst[graph.of(site)].tolist():
                codes[node] = bits.get((site, node), 0)
        return codes

    def _is_complete(self, graph: Arcs, site: int) -> bool:
        """Whether no path from the node has a second link."""
        ends = graph.dst[graph.of(site)]
        return self.end_to_end and len(ends) - bool((ends == site).any()) == len(graph) - 1

    def _paths(self, graph: Arcs, site: int) -> Paths:
        if self._is_complete(graph, site):
            latency, per_byte = np.zeros((2, len(graph)))
        elif graph.unlimited:
            latency, per_byte = graph.distances(site), np.zeros(len(graph))
        else:
            latency, per_byte = (each.copy() for each in self._search(graph, site)[:2])
        if self.end_to_end:
            link = graph.of(site)
            latency[graph.dst[link]], per_byte[graph.dst[link]] = graph.latency_s[link], graph.s_per_byte[link]
        return Paths(latency, per_byte, np.ones(len(graph)))
