"""Clients on sites: what all networks with places (graphs, cities) have in common."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.core.distributions import Distribution
from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.network.links import PathLinks, Paths

Placement = Literal["one_each", "cycle", "random"]

CACHED_SOURCES = 1024


class Sites(Protocol):
    """Places with known paths between them; an infinite latency means that there is no path."""

    def paths_from(self, site: int) -> Paths:
        """The paths from one site to every site, shape (sites,)."""
        ...

    def paths_to(self, site: int) -> Paths:
        """The paths from every site to one, shape (sites,)."""
        ...

    def links_from(self, site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        """The bits of all hops, from site to site, on the paths from one site to every site, shape (sites,)."""
        ...

    def links_to(self, site: int, bits: Mapping[tuple[int, int], int]) -> NDArray[np.int64]:
        """The bits of all hops on the paths from every site to one, shape (sites,)."""
        ...


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
    """The paths between clients, by way of their sites; a site's paths are computed when it first sends."""

    def __init__(self, sites: Sites, at: NDArray[np.int64], access_s_per_byte: NDArray[np.float64]) -> None:
        self.at = at
        self.access_s_per_byte = access_s_per_byte
        self.paths_from = lru_cache(CACHED_SOURCES)(sites.paths_from)

    def __call__(self, sources: NDArray[np.integer], destinations: NDArray[np.integer]) -> Paths:
        start, end = self.at[sources], self.at[destinations]
        joined = Paths(*(np.empty(len(start)) for _ in Paths._fields))
        order = np.argsort(start, kind="stable")
        used, first = np.unique(start[order], return_index=True)
        for site, part in zip(used, np.split(order, first[1:]), strict=False):  # no sources, still one (empty) part
            for whole, piece in zip(joined, self.paths_from(int(site)).take(end[part]), strict=True):
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
