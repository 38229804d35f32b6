"""Lines of the clients' own in front of a network: what a message takes there, and on from there."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simfl.network.links import PathLinks, Paths

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AccessLines:
    """Each client's line to the network, float64 (clients,).

    Attributes:
        latency_s: one way, added to that of the path behind it.
        down_s_per_byte, up_s_per_byte: reciprocal bandwidths, towards the client and from it; 0 = unlimited.
    """

    latency_s: Floats
    down_s_per_byte: Floats
    up_s_per_byte: Floats

    def before(self, links: PathLinks) -> PathLinks:
        """The links of clients that reach a network by these lines: latencies add up, the narrowest link counts.

        Two clients behind lines of 0.1 s and 0.2 s, on a star without latency, of 1,000 bytes a second:

        >>> from types import SimpleNamespace
        >>> from simfl.core.rng import Address, Streams
        >>> from simfl.network.star import Star
        >>> star = Star(bandwidth_bytes_per_s=1000.0).build(SimpleNamespace(clients=2), Streams(0))
        >>> lines = AccessLines(np.array([0.1, 0.2]), np.array([0.002, 0.0]), np.array([0.0, 0.0]))
        >>> clients = np.array([0, 1])
        >>> lines.before(star).down_s(clients, 500, Address(0, clients, 2)).round(6).tolist()
        [1.1, 0.7]
        """
        latency, down, up = (
            np.append(each, 0.0) for each in (self.latency_s, self.down_s_per_byte, self.up_s_per_byte)
        )

        def between(sources: NDArray[np.integer], destinations: NDArray[np.integer]) -> Paths:
            paths = _behind(links.between(sources, destinations), latency[sources], up[sources])
            return _behind(paths, latency[destinations], down[destinations])

        to, back = _behind(links.down, latency, down), _behind(links.up, latency, up)
        shared = links.shared and links.shared.along(to, back)
        return replace(links, down=to, up=back, between=between, shared=shared)


def _behind(paths: Paths, latency_s: Floats, s_per_byte: Floats) -> Paths:
    return paths._replace(latency_s=paths.latency_s + latency_s, s_per_byte=np.maximum(paths.s_per_byte, s_per_byte))
