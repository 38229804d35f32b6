"""Measured round-trip times between cities, from the data folder (``latency/``)."""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simfl.errors import MissingError, ScenarioError
from simfl.files import csv_rows, data_file
from simfl.network.atlas import City
from simfl.network.csv_file import read_table

__all__ = ["measured_atlas", "measured_s", "present"]

KEY = "network.rtt"
CITIES, MEAN, DEVIATION = "latency/cities.csv", "latency/city_rtt_avg_ms.csv", "latency/city_rtt_mdev_ms.csv"


def present() -> bool:
    """Whether the data folder holds the measurements."""
    try:
        return all(data_file(name) for name in (CITIES, MEAN))
    except MissingError:
        return False


def measured_atlas() -> dict[str, City]:
    """The measured cities; coordinates are NaN and the population 0 where the file has none.

    Raises:
        MissingError: the file is not in the data folder.
        ScenarioError: it is broken.
    """
    path = data_file(CITIES)
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


def measured_s(names: list[str], deviation: bool = False) -> NDArray[np.float64]:
    """Half the mean round-trip times (or ping's deviations of them) in seconds, shape (names, names).

    A pair that was measured in one direction only has that value in both; NaN where there is none.

    Raises:
        MissingError: the table is not in the data folder.
        ScenarioError: it is broken, or lacks a city.
    """
    path: Path = data_file(DEVIATION if deviation else MEAN)
    known, table = read_table(path, KEY)
    position = {name: i for i, name in enumerate(known)}
    if missing := [name for name in names if name not in position]:
        raise ScenarioError(KEY, f"{path.name}: there is no row for '{missing[0]}'")
    index = [position[name] for name in names]
    half_s = table[np.ix_(index, index)] / 2000
    return np.where(np.isnan(half_s), half_s.T, half_s)
