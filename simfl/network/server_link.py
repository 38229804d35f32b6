"""The server's own link, which all messages from and to it share."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Discriminator, Field, Tag

from simfl.core.types import Name
from simfl.network.links import NARROWEST, PathLinks, Paths, SharedLink, SharedLinks

Capacity = Annotated[float | None, Field(ge=NARROWEST, le=1e15)]


@dataclass(frozen=True, kw_only=True)
class ServerLink:
    """What the server sends and receives in all; messages that are on the way together share it fairly."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    up_bytes_per_s: Annotated[Capacity, Field(description="of all messages to the server; null = unlimited")] = None
    down_bytes_per_s: Annotated[Capacity, Field(description="of all messages from the server; null = unlimited")] = None


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
    down, down_link = _through(links.down, server.down_bytes_per_s)
    up, up_link = _through(links.up, server.up_bytes_per_s)
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


def _through(paths: Paths, bytes_per_s: float | None) -> tuple[Paths, SharedLink | None]:
    if bytes_per_s is None:
        return paths, None
    s_per_byte = np.maximum(paths.s_per_byte, 1 / bytes_per_s)
    return paths._replace(s_per_byte=s_per_byte), SharedLink(bytes_per_s, s_per_byte[:-1])  # the last is the server
