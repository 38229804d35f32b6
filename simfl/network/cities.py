"""Clients in cities of the world, with measured or modelled latencies."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.distributions import DistributionField, Exponential, NonNegative, PerClient, listed, per_client
from simfl.errors import MissingError, ScenarioError, suggestion
from simfl.network.atlas import ATLAS, City, distance_km
from simfl.network.base import NETWORKS
from simfl.network.links import PathLinks, Paths, seconds_per_byte
from simfl.network.measured import measured_atlas, measured_s, present
from simfl.network.sites import connect, place
from simfl.rng import Streams

__all__ = ["Cities"]

FIBRE_KM_PER_S = 200_000.0


@NETWORKS("cities")
@dataclass(frozen=True, kw_only=True)
class Cities:
    """Clients in cities; one-way latency is half the measured round-trip time, or modelled by great-circle distance.

    The model is access_s + path_factor * distance / (200,000 km/s), the speed of light in fibre; with the defaults
    half of the measured times are within 20 % of it. A pair measured in one direction only has that value in both;
    where neither was measured, and between clients of one city, the model stands in.

    ``measured_jitter`` makes the one-way delay a shifted exponential: its mean is half the mean round-trip time, its
    deviation ping's deviation / sqrt(2) (two independent directions give the measured one), at most the mean.
    """

    server: Annotated[str, Field(description="the server's city")]
    cities: Annotated[
        tuple[str, ...] | None, Field(min_length=1, description="the clients' cities; null = all that are known")
    ] = None
    count: Annotated[int | None, Field(ge=1, description="of the known cities only this many of most people")] = None
    placement: Annotated[
        Literal["cycle", "random", "population"],
        Field(description="cycle: round the cities again and again; random: any city; population: as people live"),
    ] = "cycle"
    rtt: Annotated[
        Literal["auto", "measured", "great_circle"],
        Field(description="where latencies come from; auto: measured if the data folder has the table"),
    ] = "auto"
    path_factor: Annotated[float, Field(ge=1, le=100, description="length of cables over great-circle distance")] = 1.6
    access_s: Annotated[NonNegative, Field(description="latency of the modelled path beside its cable, seconds")] = 0.01
    bandwidth_bytes_per_s: Annotated[
        PerClient | None, Field(description="bytes per second of a client's line: a number, list or distribution")
    ] = None
    jitter_s: Annotated[
        DistributionField | None, Field(description="seconds added to each message; null = no jitter")
    ] = None
    measured_jitter: Annotated[
        bool,
        Field(description="latencies vary by the measured deviation around their means; needs measured"),
    ] = False

    def resolve(self, scenario: Any) -> "Cities":
        return replace(self, rtt=self._source())

    def check(self, scenario: Any) -> list[tuple[str, str]]:
        problems = listed("bandwidth_bytes_per_s", self.bandwidth_bytes_per_s, scenario.clients)
        if self.cities is not None and self.count is not None:
            problems.append(("count", "chooses among all known cities; leave it out where cities are listed"))
        if self.measured_jitter and self.rtt == "great_circle":
            problems.append(("measured_jitter", "needs rtt: measured"))
        if self.measured_jitter and self.jitter_s is not None:
            problems.append(("jitter_s", "is given beside measured_jitter; leave out one of them"))
        try:
            atlas = self._atlas()
        except MissingError:
            return problems  # the build will say so
        problems += [
            (key, f"unknown city '{name}'{suggestion(name, atlas)}")
            for key, name in [("server", self.server), *((f"cities.{i}", n) for i, n in enumerate(self.cities or ()))]
            if name not in atlas
        ]
        if self.placement == "population" and not problems and not self._people(atlas).any():
            problems.append(("placement", "nothing is known of these cities' populations; use cycle or random"))
        return problems

    def build(self, scenario: Any, streams: Streams) -> PathLinks:
        atlas = self._atlas()
        chosen = self._chosen(atlas)
        names = list(dict.fromkeys([*chosen, self.server]))
        sites = self._sites(names, [atlas[name] for name in names])
        weights = self._people(atlas) if self.placement == "population" else None
        how = "cycle" if self.placement == "cycle" else "random"
        at = place(scenario.clients, [names.index(name) for name in chosen], how, streams("placement"), weights)
        access = None
        if self.bandwidth_bytes_per_s is not None:
            bandwidth = per_client(self.bandwidth_bytes_per_s, scenario.clients, streams("bandwidth"))
            access = seconds_per_byte("network.bandwidth_bytes_per_s", bandwidth)
        jitter = Exponential(1.0) if self.measured_jitter else self.jitter_s
        return connect(sites, names, at, names.index(self.server), streams, jitter, access)

    def _source(self) -> str:
        if self.rtt != "auto":
            return self.rtt
        return "measured" if self.measured_jitter or present() else "great_circle"

    def _atlas(self) -> dict[str, City]:
        return measured_atlas() if self._source() == "measured" else ATLAS

    def _chosen(self, atlas: dict[str, City]) -> list[str]:
        if self.cities is not None:
            return list(self.cities)
        return sorted(atlas, key=lambda name: (-atlas[name].population, name))[: self.count]

    def _people(self, atlas: dict[str, City]) -> NDArray[np.float64]:
        return np.array([atlas[name].population for name in self._chosen(atlas)])

    def _sites(self, names: list[str], cities: list[City]) -> "Table":
        latitude, longitude, _ = np.array(cities).T
        distance = distance_km(latitude, longitude)
        np.fill_diagonal(distance, 0.0)
        latency = self.access_s + self.path_factor * distance / FIBRE_KM_PER_S
        spread = np.zeros_like(latency)
        if self._source() == "measured":
            measured = measured_s(names)
            latency = np.where(np.isnan(measured), latency, measured)
        if self.measured_jitter:
            spread = np.minimum(np.nan_to_num(measured_s(names, deviation=True)) * np.sqrt(2), latency)
        if (unknown := np.argwhere(np.isnan(latency))).size:
            here, there = (names[i] for i in unknown[0])
            raise ScenarioError("network.cities", f"neither measurements nor coordinates for '{here}' to '{there}'")
        if not self.measured_jitter:
            return Table(latency, np.ones_like(latency))
        return Table(latency - spread, spread)


class Table(NamedTuple):
    """Sites with a known path between every two.

    Attributes:
        latency_s, jitter: as in :class:`Paths`, shape (sites, sites), from row to column.
    """

    latency_s: NDArray[np.float64]
    jitter: NDArray[np.float64]

    def paths_from(self, site: int) -> Paths:
        return Paths(self.latency_s[site], np.zeros(len(self.latency_s)), self.jitter[site])

    def paths_to(self, site: int) -> Paths:
        return Paths(self.latency_s[:, site], np.zeros(len(self.latency_s)), self.jitter[:, site])
