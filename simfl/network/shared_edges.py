"""Named links of a network of places that messages share: single edges, or several with one capacity."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Discriminator, Field, Tag

from simfl.core.errors import ScenarioError, suggestion
from simfl.core.types import SERVER, Name
from simfl.network.link_network import MOST_LINKS, Codes, LinkNetwork, parts_of
from simfl.network.links import NARROWEST, NamedLink, PathLinks, Paths, PeerLinks, SharedLink, SharedLinks
from simfl.network.sites import CACHED_SOURCES, Sites

Floats = NDArray[np.float64]
Pairs = Mapping[tuple[int, int], int]

Capacity = Annotated[float, Field(ge=NARROWEST, le=1e15)]

MAX_PROBLEMS = 20

LinkName = Annotated[str, Field(pattern=r"^[A-Za-z_][\w-]*$", max_length=60)]

Limit = Annotated[float | None, Field(ge=NARROWEST, le=1e15)]


@dataclass(frozen=True, kw_only=True)
class SharedEdges:
    """Edges whose messages share one capacity in each direction: that away from the server, and that towards it."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    edges: Annotated[
        tuple[tuple[Name, Name], ...],
        Field(max_length=10_000, description="[node, node] each, in either order; at least one"),
    ] = ()
    bytes_per_s: Annotated[Capacity, Field(description="of all messages on any of these edges together")]
    up_bytes_per_s: Annotated[
        Capacity | None, Field(description="of those that go towards the server; null = bytes_per_s")
    ] = None


SharedField = Annotated[
    dict[LinkName, SharedEdges],
    Field(
        max_length=MOST_LINKS, description="shared links by name: their edges, and bytes per second in each direction"
    ),
]
"""The key ``shared`` of networks of places."""


def edge_problems(
    shared: Mapping[str, SharedEdges], nodes: Collection[str], linked: Collection[tuple[str, str]] | None
) -> list[tuple[str, str]]:
    """What is wrong with the edges of shared links, as (field, message).

    Args:
        shared: the links by name.
        nodes: all nodes, quick to look up.
        linked: the pairs of nodes with a link between them, in one order or both, quick to look up; None = every two.
    """
    problems = []
    for name, link in shared.items():
        if name == "server":
            problems.append((f"shared.{name}", "'server' is what the server's own link is called; choose another name"))
        if not link.edges:
            did_you_mean = suggestion(name, [other for other, each in shared.items() if each.edges])
            problems.append((f"shared.{name}.edges", f"shared link '{name}' has no edges{did_you_mean}"))
        for i, (one, other) in enumerate(link.edges):
            key, unknown = f"shared.{name}.edges.{i}", next((node for node in (one, other) if node not in nodes), None)
            if unknown is not None:
                problems.append((key, f"there is no node '{unknown}'{suggestion(unknown, nodes)}"))
            elif one == other:
                problems.append((key, f"links '{one}' to itself"))
            elif linked is not None and (one, other) not in linked and (other, one) not in linked:
                ends = sorted({a if b == one else b for a, b in linked if one in (a, b)})
                has = f"; '{one}' is linked to {', '.join(ends[:5])}{' ...' if len(ends) > 5 else ''}" if ends else ""
                problems.append((key, f"there is no link between '{one}' and '{other}'{has}"))
            if len(problems) >= MAX_PROBLEMS:
                return problems
    return problems


def refuse_wrong_edges(
    shared: Mapping[str, SharedEdges], nodes: Collection[str], linked: Collection[tuple[str, str]] | None
) -> None:
    """
    Raises:
        ScenarioError: something is wrong with the edges, see :func:`edge_problems`.
    """
    for key, message in edge_problems(shared, nodes, linked):
        raise ScenarioError(key, message)


class NodePlaces(NamedTuple):
    """Who stands where.

    Attributes:
        sites: with known paths.
        number: each site by its name.
        at: the site of each client, (clients,).
        server: the server's site.
    """

    sites: Sites
    number: Mapping[str, int]
    at: NDArray[np.int64]
    server: int


def share_edges(links: PathLinks, shared: Mapping[str, SharedEdges], places: NodePlaces) -> PathLinks:
    """The links with messages on named shared links, too; a path's narrowest link may be one of them.

    Args:
        links: without them, perhaps with the server's own.
        shared: the links by name.
        places: nodes and paths.
    """
    if not shared:
        return links
    at, server, sites = places.at, places.server, places.sites
    either = _bits(shared, places, None)
    down_codes, up_codes = sites.links_from(server, either)[at], sites.links_to(server, either)[at]
    down_caps = np.array([link.bytes_per_s for link in shared.values()])
    up_caps = np.array([link.up_bytes_per_s or link.bytes_per_s for link in shared.values()])
    of_server = links.shared or SharedLinks(None, None)
    down, down_link = _through(links.down, down_codes, down_caps, of_server.down)
    up, up_link = _through(links.up, up_codes, up_caps, of_server.up)
    named = tuple(
        NamedLink(name, float(down_caps[i]), float(up_caps[i]), down_codes >> i & 1 > 0, up_codes >> i & 1 > 0)
        for i, name in enumerate(shared)
    )
    between, peers = _between(links, shared, places, np.concatenate([down_caps, up_caps]))
    both = SharedLinks(down_link, up_link, of_server.peers_bytes_per_s, named, peers, links.shared is not None)
    return replace(links, down=down, up=up, between=between, shared=both)


def _bits(
    shared: Mapping[str, SharedEdges], places: NodePlaces, distance_s: Floats | None
) -> dict[tuple[int, int], int]:
    """The links that stand behind a hop from node to node, as bits.

    ``distance_s`` of the nodes from the server tells the two directions of an edge apart, if they are: a hop towards
    the server has bits of its own. Where both ends are as far, an edge leads away from the server as it is written.
    """
    bits: dict[tuple[int, int], int] = {}
    for i, link in enumerate(shared.values()):
        for edge in link.edges:
            near, far = (places.number[name] for name in edge)
            if distance_s is not None and distance_s[far] < distance_s[near]:
                near, far = far, near
            away, towards = 1 << i, 1 << (i if distance_s is None else i + len(shared))
            bits[near, far] = bits.get((near, far), 0) | away
            bits[far, near] = bits.get((far, near), 0) | towards
    return bits


def _through(
    paths: Paths, codes: Codes, bytes_per_s: Floats, of_server: SharedLink | LinkNetwork | None
) -> tuple[Paths, SharedLink | LinkNetwork | None]:
    s_per_byte = paths.s_per_byte.copy()
    s_per_byte[:-1] = np.maximum(s_per_byte[:-1], _s_per_byte(codes, bytes_per_s))  # the last is the server
    if isinstance(of_server, SharedLink):  # it is one more link, which all messages cross
        codes, bytes_per_s = codes | 1 << len(bytes_per_s), np.append(bytes_per_s, of_server.bytes_per_s)
    through = paths._replace(s_per_byte=s_per_byte)
    parts = parts_of(codes, bytes_per_s)
    if not parts:
        return through, None
    if len(parts) == 1 and len(parts[0].links) == 1 and (parts[0].group >= 0).all():
        return through, SharedLink(parts[0].bytes_per_s[0], s_per_byte[:-1])
    return through, LinkNetwork(bytes_per_s, codes, s_per_byte[:-1])


def _s_per_byte(codes: Codes, bytes_per_s: Floats) -> Floats:
    """Seconds a byte of the narrowest link in each code."""
    slowest = np.zeros(len(codes))
    for i, each in enumerate(bytes_per_s.tolist()):
        slowest = np.where(codes >> i & 1, np.maximum(slowest, 1 / each), slowest)
    return slowest


def _between(
    links: PathLinks, shared: Mapping[str, SharedEdges], places: NodePlaces, bytes_per_s: Floats
) -> tuple[Callable[[NDArray[np.integer], NDArray[np.integer]], Paths], PeerLinks]:
    """The paths between clients, and the shared links on them."""
    bits = _bits(shared, places, places.sites.paths_from(places.server).latency_s)
    codes_from = lru_cache(CACHED_SOURCES)(lambda site: places.sites.links_from(site, bits))
    codes_to_server = cache(lambda: places.sites.links_to(places.server, bits))
    at = np.append(places.at, places.server)

    def codes(sources: NDArray[np.integer], destinations: NDArray[np.integer]) -> Codes:
        start, end = at[sources], at[destinations]
        to_server = destinations == SERVER
        codes_of = (
            np.where(to_server, codes_to_server()[start], 0) if to_server.any() else np.zeros(len(start), np.int64)
        )
        order = np.argsort(start, kind="stable")
        order = order[~to_server[order]]
        used, first = np.unique(start[order], return_index=True)
        for site, part in zip(used.tolist(), np.split(order, first[1:]), strict=False):
            codes_of[part] = codes_from(site)[end[part]]
        return codes_of

    def between(sources: NDArray[np.integer], destinations: NDArray[np.integer]) -> Paths:
        paths = links.between(sources, destinations)
        narrowest = _s_per_byte(codes(sources, destinations), bytes_per_s)
        return paths._replace(s_per_byte=np.maximum(paths.s_per_byte, narrowest))

    return between, PeerLinks(bytes_per_s, codes)


@dataclass(frozen=True, kw_only=True)
class ServerLink:
    """What the server sends and receives in all; messages that are on the way together share it fairly."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    up_bytes_per_s: Annotated[Limit, Field(description="of all messages to the server; null = unlimited")] = None
    down_bytes_per_s: Annotated[Limit, Field(description="of all messages from the server; null = unlimited")] = None


@dataclass(frozen=True, kw_only=True)
class ServerPlace(ServerLink):
    """Where the server stands, and its link."""

    name: Annotated[Name, Field(description="the server's node or city")]


ServerField = Annotated[
    Annotated[Name, Tag("text")] | Annotated[ServerPlace, Tag("mapping")],
    Discriminator(lambda value: "mapping" if isinstance(value, (dict, ServerPlace)) else "text"),
]
"""A node or city; or a mapping with its ``name`` and the bytes per second of the server's link."""


def place_of(server: str | ServerPlace) -> str:
    """The server's node or city."""
    return server.name if isinstance(server, ServerPlace) else server


def shares_nothing(server: str | ServerLink, shared: Mapping[str, object]) -> bool:
    """Whether no message ever waits for another: the server's link is unlimited, and there are no shared ones."""
    limits = () if isinstance(server, str) else (server.up_bytes_per_s, server.down_bytes_per_s)
    return not shared and all(limit is None for limit in limits)


def share_server(links: PathLinks, server: str | ServerLink, forwards: bool = False) -> PathLinks:
    """The links with messages from and to the server on its own link, too; a client's own line alone is no faster.

    Args:
        links: without it.
        server: its link, or only where it stands.
        forwards: whether messages between clients pass the server, over its link in both directions.
    """
    if isinstance(server, str):
        return links
    down, down_link = _with_link(links.down, server.down_bytes_per_s)
    up, up_link = _with_link(links.up, server.up_bytes_per_s)
    limits = [link.bytes_per_s for link in (down_link, up_link) if link is not None]
    if not limits:
        return links
    if not forwards:
        return replace(links, down=down, up=up, shared=SharedLinks(down_link, up_link))
    most = min(limits)

    def between(sources: NDArray[np.integer], destinations: NDArray[np.integer]) -> Paths:
        paths = links.between(sources, destinations)
        return paths._replace(s_per_byte=np.maximum(paths.s_per_byte, 1 / most))

    return replace(links, down=down, up=up, between=between, shared=SharedLinks(down_link, up_link, most))


def _with_link(paths: Paths, bytes_per_s: float | None) -> tuple[Paths, SharedLink | None]:
    if bytes_per_s is None:
        return paths, None
    s_per_byte = np.maximum(paths.s_per_byte, 1 / bytes_per_s)
    return paths._replace(s_per_byte=s_per_byte), SharedLink(bytes_per_s, s_per_byte[:-1])  # the last is the server
