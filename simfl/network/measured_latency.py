"""Measured round-trip times between cities, as in the data folder's ``latency/``."""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import ScenarioError
from simfl.core.storage.data_folder import csv_rows
from simfl.network.atlas import City
from simfl.network.csv_file import read_table

KEY = "tables"
TABLES = ("latency/cities.csv", "latency/city_rtt_avg_ms.csv", "latency/city_rtt_mdev_ms.csv")
"""The cities, the mean round-trip times between them, and their deviations, in the data folder."""


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
