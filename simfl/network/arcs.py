"""Directed links as arrays, and the paths of least latency over them."""

from functools import cached_property
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAME_LATENCY = 1 + 1e-12
"""Sums of latencies that are this close are equal: 0.1 + 0.2 and 0.3 are one latency."""


class Arcs:
    """Directed links between nodes 0 .. n-1, sorted by their ends; of several between the same ends the last counts.

    Attributes:
        start: position of each node's first link, and their number, int64 (nodes + 1,).
        src, dst: the ends, int64 (links,).
        latency_s, s_per_byte: of each link, float64 (links,).
    """

    def __init__(self, nodes: int, src: Any, dst: Any, latency_s: Any, s_per_byte: Any) -> None:
        code = np.asarray(src, dtype=np.int64) * nodes + np.asarray(dst, dtype=np.int64)
        self.latency_s, self.s_per_byte = (np.asarray(each, dtype=float) for each in (latency_s, s_per_byte))
        if not (code[1:] > code[:-1]).all():
            order = np.argsort(code, kind="stable")
            code = code[order]
            last = np.append(code[1:] != code[:-1], True)
            order, code = order[last], code[last]
            self.latency_s, self.s_per_byte = self.latency_s[order], self.s_per_byte[order]
        self.src, self.dst = np.divmod(code, max(nodes, 1))
        self.start = np.searchsorted(self.src, np.arange(nodes + 1))

    def __len__(self) -> int:
        return len(self.start) - 1

    def of(self, site: int) -> slice:
        """The positions of the links that leave a node."""
        return slice(int(self.start[site]), int(self.start[site + 1]))

    @cached_property
    def reverse(self) -> "Arcs":
        """The same links, the other way."""
        return Arcs(len(self), self.dst, self.src, self.latency_s, self.s_per_byte)

    @cached_property
    def unlimited(self) -> bool:
        """No link limits a message."""
        return not self.s_per_byte.any()

    @cached_property
    def _matrix(self) -> Any:
        from scipy.sparse import csr_array

        return csr_array((self.latency_s, self.dst, self.start), shape=(len(self), len(self)))

    def distances(self, site: int) -> NDArray[np.float64]:
        """The least latency from a node to every node, (nodes,); infinite where there is no path."""
        from scipy.sparse.csgraph import dijkstra

        distance: NDArray[np.float64] = dijkstra(self._matrix, indices=site)
        return distance

    def component(self, site: int) -> NDArray[np.bool_]:
        """The nodes that links in any direction connect with one, bool (nodes,)."""
        from scipy.sparse.csgraph import connected_components

        part = connected_components(self._matrix, directed=True, connection="weak")[1]
        same: NDArray[np.bool_] = part == part[site]
        return same


def search(graph: Arcs, site: int) -> tuple[NDArray[np.float64], NDArray[np.float64], dict[int, int]]:
    """The least latency from a node to every node, and what :func:`widest` says of such paths."""
    distance = graph.distances(site)
    return distance, *widest(graph, distance, site)


def widest(graph: Arcs, distance: NDArray[np.float64], site: int) -> tuple[NDArray[np.float64], dict[int, int]]:
    """Seconds per byte of the widest among the paths of least latency from ``site`` to every node, 0 where there is
    none, and the node before each on that path (of several as wide, the first by its number).

    Dijkstra's algorithm again, with the maximum in place of the sum, over the links that lie on such paths. Links
    without latency are among them in both directions, so that no order of distances would do.
    """
    tight = np.flatnonzero(distance[graph.src] + graph.latency_s <= distance[graph.dst] * SAME_LATENCY)
    start = np.searchsorted(graph.src[tight], np.arange(len(graph) + 1)).tolist()
    ends, s_per_byte = graph.dst[tight].tolist(), graph.s_per_byte[tight].tolist()
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
        for i in range(start[node], start[node + 1]):
            if (after := ends[i]) not in width:
                heappush(fringe, (max(per_byte, s_per_byte[i]), after, node))
    widest = np.zeros(len(graph))
    widest[list(width)] = list(width.values())
    return widest, before
