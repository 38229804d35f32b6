"""Clients on sites: what all networks with places (graphs, cities) have in common."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.distributions import Distribution
from simfl.core.errors import ScenarioError, suggestion
from simfl.core.rng import Streams
from simfl.core.types import Name
from simfl.core.wording import amount, there_are
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
