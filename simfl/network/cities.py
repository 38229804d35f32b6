"""Clients in cities of the world, with measured or modelled latencies."""

import csv
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.distributions import Exponential, NonNegative, PerClient, length_problems, per_client, reaching
from simfl.core.errors import MissingError, ScenarioError, suggestion
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataPath, data_file
from simfl.core.storage.text_table import csv_rows
from simfl.core.types import Name
from simfl.network.base import NETWORKS
from simfl.network.csv_file import read_table
from simfl.network.links import NARROWEST, Jitter, Loss, PathLinks, seconds_per_byte
from simfl.network.shared_edges import (
    NodePlaces,
    ServerField,
    SharedField,
    edge_problems,
    place_of,
    share_edges,
    share_server,
    shares_nothing,
)
from simfl.network.site_table import TableSites
from simfl.network.sites import connect, place

EARTH_RADIUS_KM = 6371.0

FIBRE_KM_PER_S = 200_000.0

MAX_PROBLEMS = 20

KEY = "tables"

TABLES = ("latency/cities.csv", "latency/city_rtt_avg_ms.csv", "latency/city_rtt_mdev_ms.csv")
"""The cities, the mean round-trip times between them, and their deviations, in the data folder."""


class City(NamedTuple):
    """Degrees north and east, and millions of people."""

    latitude: float
    longitude: float
    population: float


with (Path(__file__).parent / "cities.csv").open(encoding="utf-8") as _file:
    ATLAS = {name: City(*map(float, numbers)) for name, *numbers in list(csv.reader(_file))[1:]}


def distance_km(latitude: NDArray[np.float64], longitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """Great-circle distances between places given in degrees, shape (n, n), by the haversine formula."""
    north, east = np.radians(latitude), np.radians(longitude)
    half = (north[:, None] - north) / 2, (east[:, None] - east) / 2
    haversine = np.sin(half[0]) ** 2 + np.cos(north[:, None]) * np.cos(north) * np.sin(half[1]) ** 2
    return 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.minimum(haversine, 1)))


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

    server: Annotated[ServerField, Field(description="the server's city, or a mapping: its name, and its own link")]
    cities: Annotated[
        tuple[Name, ...] | None, Field(min_length=1, description="the clients' cities; null = all that are known")
    ] = None
    count: Annotated[int | None, Field(ge=1, description="of the known cities only this many of most people")] = None
    placement: Annotated[
        Literal["cycle", "random", "population"],
        Field(description="cycle: round the cities again and again; random: any city; population: as people live"),
    ] = "cycle"
    rtt: Annotated[
        Literal["auto", "measured", "great_circle"],
        Field(description="where latencies come from; auto: measured if the data folder has the tables"),
    ] = "auto"
    tables: Annotated[
        tuple[DataPath, ...] | None,
        Field(description="CSV files of cities, mean and deviation of measured times; null = those of the data folder"),
    ] = None
    path_factor: Annotated[float, Field(ge=1, le=100, description="length of cables over great-circle distance")] = 1.6
    access_s: Annotated[NonNegative, Field(description="latency of the modelled path beside its cable, seconds")] = 0.01
    bandwidth_bytes_per_s: Annotated[
        PerClient | None, Field(description="bytes per second of a client's line: a number, list or distribution")
    ] = None
    jitter_s: Jitter = None
    loss: Loss = field(default=0.0, metadata=SINCE_LATER)
    measured_jitter: Annotated[
        bool, Field(description="latencies vary by the measured deviation around their means; needs measured")
    ] = False
    shared: SharedField = field(default_factory=dict, metadata=SINCE_LATER)

    example = {"server": "Oslo", "rtt": "great_circle", "placement": "population"}

    @property
    def independent(self) -> bool:
        """No message waits for another, as no link is shared."""
        return shares_nothing(self.server, self.shared)

    def resolve(self, setting: ScenarioView) -> "Cities":
        """Decides ``auto`` and names the tables, so that their content counts in the scenario's digest.

        Raises:
            MissingError: measurements are asked for and are not in the data folder.
        """
        if self.rtt == "great_circle" or self.tables is not None:
            return replace(self, rtt="great_circle" if self.rtt == "great_circle" else "measured")
        tables = TABLES if self.measured_jitter else TABLES[:2]
        try:
            for table in tables:
                data_file(table)
        except MissingError:
            if self.rtt == "measured" or self.measured_jitter:
                raise
            return replace(self, rtt="great_circle")
        return replace(self, rtt="measured", tables=tables)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = length_problems("bandwidth_bytes_per_s", self.bandwidth_bytes_per_s, setting.clients)
        problems += reaching("bandwidth_bytes_per_s", self.bandwidth_bytes_per_s, least=NARROWEST)
        if self.cities is not None and self.count is not None:
            problems.append(("count", "chooses among all known cities; leave it out where cities are listed"))
        if self.measured_jitter and self.rtt == "great_circle":
            problems.append(("measured_jitter", "needs rtt: measured"))
        if self.tables is not None and self.rtt == "great_circle":
            problems.append(("tables", "are not used by rtt: great_circle; leave them out or set rtt: measured"))
        if self.rtt == "measured" and len(self.tables or ()) != (needed := 3 if self.measured_jitter else 2):
            problems.append(("tables", f"{needed} files are needed: {', '.join(TABLES[:needed])}"))
            return problems
        if self.measured_jitter and self.jitter_s is not None:
            problems.append(("jitter_s", "is given beside measured_jitter; leave out one of them"))
        try:
            atlas = self._atlas(setting)
        except ScenarioError as error:
            return [*problems, (error.key.removeprefix(""), error.message)]
        named = [
            ("server", place_of(self.server)),
            *((f"cities.{i}", name) for i, name in enumerate(self.cities or ())),
        ]
        unknown = [(key, name) for key, name in named if name not in atlas]
        problems += [(key, f"unknown city '{name}'{suggestion(name, atlas)}") for key, name in unknown[:MAX_PROBLEMS]]
        if self.shared and not unknown:
            problems += edge_problems(self.shared, {*self._chosen(atlas), place_of(self.server)}, None)
        if self.placement == "population" and not problems and not self._populations(atlas).any():
            problems.append(("placement", "nothing is known of these cities' populations; use cycle or random"))
        return problems

    def build(self, setting: ScenarioView, streams: Streams) -> PathLinks:
        atlas = self._atlas(setting)
        chosen = self._chosen(atlas)
        server = place_of(self.server)
        number = {name: i for i, name in enumerate(dict.fromkeys([*chosen, server]))}
        names = list(number)
        sites = self._sites(names, [atlas[name] for name in names], setting)
        weights = self._populations(atlas) if self.placement == "population" else None
        how = "cycle" if self.placement == "cycle" else "random"
        at = place(setting.clients, [number[name] for name in chosen], how, streams("placement"), weights)
        access = None
        if self.bandwidth_bytes_per_s is not None:
            key = "bandwidth_bytes_per_s"
            access = seconds_per_byte(
                key, per_client(self.bandwidth_bytes_per_s, setting.clients, streams("bandwidth"), key)
            )
        jitter: Any = Exponential(1.0) if self.measured_jitter else self.jitter_s
        links = share_server(connect(sites, names, at, number[server], streams, jitter, access), self.server)
        return share_edges(links, self.shared, NodePlaces(sites, number, at, number[server]))

    def _atlas(self, setting: ScenarioView) -> dict[str, City]:
        return measured_atlas(setting.file(self.tables[0])) if self.tables else ATLAS

    def _chosen(self, atlas: dict[str, City]) -> list[str]:
        if self.cities is not None:
            return list(self.cities)
        return sorted(atlas, key=lambda name: (-atlas[name].population, name))[: self.count]

    def _populations(self, atlas: dict[str, City]) -> NDArray[np.float64]:
        return np.array([atlas[name].population for name in self._chosen(atlas)])

    def _sites(self, names: list[str], cities: list[City], setting: ScenarioView) -> "TableSites":
        latitude, longitude, _ = np.array(cities).T
        distance = distance_km(latitude, longitude)
        np.fill_diagonal(distance, 0.0)
        latency = self.access_s + self.path_factor * distance / FIBRE_KM_PER_S
        spread = np.zeros_like(latency)
        if self.tables:
            measured = measured_s(setting.file(self.tables[1]), names)
            latency = np.where(np.isnan(measured), latency, measured)
        if self.measured_jitter and self.tables:
            spread = np.nan_to_num(measured_s(setting.file(self.tables[2]), names)) * np.sqrt(2)
            spread = np.minimum(spread, latency)
        if (unknown := np.argwhere(np.isnan(latency))).size:
            here, there = (names[i] for i in unknown[0])
            raise ScenarioError("cities", f"neither measurements nor coordinates for '{here}' to '{there}'")
        if not self.measured_jitter:
            return TableSites(latency, np.ones_like(latency))
        return TableSites(latency - spread, spread)


def measured_atlas(path: Path) -> dict[str, City]:
    """The cities in a CSV file; coordinates are NaN and the population 0 where it has none.

    Raises:
        ScenarioError: the file is broken.
    """
    (where, header), *rows = csv_rows(path, KEY) or [(path.name, [])]
    wanted = ("city", "latitude", "longitude", "population")
    if not set(wanted) <= set(header):
        raise ScenarioError(KEY, f"{where}: the columns {', '.join(wanted)} are needed")
    atlas = {}
    for where, cells in rows:
        values = dict(zip(header, cells, strict=False))
        try:
            latitude, longitude, population = (float(values.get(name) or "nan") for name in wanted[1:])
        except ValueError as error:
            raise ScenarioError(KEY, f"{where}: {error}") from None
        atlas[values["city"]] = City(latitude, longitude, 0.0 if math.isnan(population) else population / 1e6)
    return atlas


def measured_s(path: Path, names: list[str]) -> NDArray[np.float64]:
    """Half of a table of round-trip times in milliseconds (or of their deviations) in seconds, shape (names, names).

    A pair that was measured in one direction only has that value in both; NaN where there is none.

    Raises:
        ScenarioError: the file is broken, or lacks a city.
    """
    known, table = read_table(path, KEY)
    position = {name: i for i, name in enumerate(known)}
    if missing := [name for name in names if name not in position]:
        raise ScenarioError(KEY, f"{path.name}: there is no row for '{missing[0]}'")
    index = [position[name] for name in names]
    half_s = table[np.ix_(index, index)] / 2000
    return np.where(np.isnan(half_s), half_s.T, half_s)
