"""The one implementation of :class:`simfl.network.base.Links`: arrays of paths."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.distributions import Distribution, DistributionField, checked_draws
from simfl.core.errors import ScenarioError
from simfl.core.rng import Address, Streams

Jitter = Annotated[DistributionField | None, Field(description="seconds added to each message; null = no jitter")]

NARROWEST = 1e-9
"""The least bandwidth in bytes per second: delays stay finite."""


class Paths(NamedTuple):
    """Paths, one an entry.

    Attributes:
        latency_s: propagation delay.
        s_per_byte: reciprocal of the narrowest link's bandwidth; 0 = unlimited.
        jitter: factor of the path's jitter draws.
    """

    latency_s: NDArray[np.float64]
    s_per_byte: NDArray[np.float64]
    jitter: NDArray[np.float64]

    def take(self, index: NDArray[np.generic]) -> "Paths":
        """The paths at the given positions."""
        return Paths(self.latency_s[index], self.s_per_byte[index], self.jitter[index])


@dataclass(frozen=True)
class PathLinks:
    """Delays along known paths.

    Attributes:
        names: as in :class:`~simfl.network.base.Links`.
        down: the path from the server to each client, shape (clients,) or longer.
        up: the path from each client to the server, likewise.
        between: the paths from sources to destinations, (n,), (n,) -> (n,).
        jitter: draws added to each message, times the path's factor; None = no jitter, and nothing is drawn.
    """

    names: tuple[str, ...] | None
    down: Paths
    up: Paths
    between: Callable[[NDArray[np.integer], NDArray[np.integer]], Paths]
    jitter: Distribution | None
    streams: Streams

    def down_s(
        self, clients: NDArray[np.integer], size_bytes: float | NDArray[np.generic], where: Address, phase: str = ""
    ) -> NDArray[np.float64]:
        return self._delay_s(self.down.take(clients), size_bytes, "jitter/down" + phase, where)

    def up_s(
        self, clients: NDArray[np.integer], size_bytes: float | NDArray[np.generic], where: Address, phase: str = ""
    ) -> NDArray[np.float64]:
        return self._delay_s(self.up.take(clients), size_bytes, "jitter/up" + phase, where)

    def latency_s(self, sources: NDArray[np.integer], destinations: NDArray[np.integer]) -> NDArray[np.float64]:
        sources, destinations = np.asarray(sources), np.asarray(destinations)
        return np.where(sources == destinations, 0.0, self.between(sources, destinations).latency_s)

    def between_s(
        self,
        sources: NDArray[np.integer],
        destinations: NDArray[np.integer],
        size_bytes: float | NDArray[np.generic],
        where: Address,
        phase: str = "",
    ) -> NDArray[np.float64]:
        sources, destinations = np.asarray(sources), np.asarray(destinations)
        delay = self._delay_s(self.between(sources, destinations), size_bytes, "jitter/between" + phase, where)
        return np.where(sources == destinations, 0.0, delay)

    def _delay_s(
        self, paths: Paths, size_bytes: float | NDArray[Any], purpose: str, where: Address
    ) -> NDArray[np.float64]:
        delay = paths.latency_s + size_bytes * paths.s_per_byte
        if self.jitter is None:
            return delay
        jitter = checked_draws("network.jitter_s", self.jitter, self.streams.at(purpose, where, self.jitter.sample))
        return delay + paths.jitter * jitter


def seconds_per_byte(key: str, bandwidth: NDArray[np.float64]) -> NDArray[np.float64]:
    """The reciprocal of bandwidths in bytes per second.

    Raises:
        ScenarioError: a bandwidth under ``key`` is zero, or next to it.
    """
    if bandwidth.size and bandwidth.min() < NARROWEST:
        problem = f"a bandwidth of {bandwidth.min():g} bytes/s carries nothing"
        raise ScenarioError(key, f"{problem}; it must be at least {NARROWEST:g}")
    return 1 / bandwidth
