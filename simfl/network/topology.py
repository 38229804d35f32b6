"""Networks of nodes and links: a message takes the path of least latency, over as many hops as that has."""

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.network.links import Paths

if TYPE_CHECKING:
    import networkx

MAX_EDGES = 500_000
"""More links make a graph too large for memory; use a star."""

SAME_LATENCY = 1 + 1e-12
"""Sums of latencies that are this close are equal: 0.1 + 0.2 and 0.3 are one latency."""


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


class Topology(NamedTuple):
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
        return self._paths(self._reverse_graph(), site)

    def links_from(self, site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        return self._links(self.graph, site, bits)

    def links_to(self, site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        return self._links(self._reverse_graph(), site, {(dst, src): code for (src, dst), code in bits.items()})

    def _reverse_graph(self) -> "networkx.Graph":
        return self.graph.reverse(copy=False) if self.graph.is_directed() else self.graph

    def _links(self, graph: "networkx.Graph", site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        import networkx

        distance = networkx.single_source_dijkstra_path_length(graph, site, weight="latency_s")
        codes = np.zeros(len(graph), dtype=np.int64)
        for node, before in _widest(graph, distance, site)[1].items():  # a node comes after the one before it
            codes[node] = codes[before] | bits.get((before, node), 0)
        if self.end_to_end:
            for node in graph[site]:
                codes[node] = bits.get((site, node), 0)
        return codes

    def _paths(self, graph: "networkx.Graph", site: int) -> Paths:
        import networkx

        distance = networkx.single_source_dijkstra_path_length(graph, site, weight="latency_s")
        width, _ = _widest(graph, distance, site)
        if self.end_to_end:
            for node, link in graph[site].items():
                distance[node], width[node] = link["latency_s"], link["s_per_byte"]
        latency, per_byte = np.full(len(graph), np.inf), np.zeros(len(graph))
        latency[list(distance)] = list(distance.values())
        per_byte[list(width)] = list(width.values())
        return Paths(latency, per_byte, np.ones(len(graph)))


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
