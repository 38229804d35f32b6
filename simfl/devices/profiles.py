"""Profiles of devices: a CSV file with one row a device, from which each client gets its speed, line and availability.

The header names some of the columns of :data:`PROFILE_COLUMNS`, in any order. With a column ``client`` the file has
exactly one row for every client; without it, each client is a device drawn from the rows by the seed, every row as
likely as any other, so that a hundred measured phones stand for a million. Columns that runs do not use: ``device`` (a
label), ``jobs``, and the ends ``NAME_low`` and ``NAME_high`` of an interval for a column, as ``simfl serve calibrate``
writes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simfl.core.errors import ScenarioError, amount, suggestion
from simfl.core.json_data import number_of
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.text_table import csv_rows
from simfl.core.types import Floats, Integers


class Bounds(NamedTuple):
    """What the numbers of a column may be.

    Attributes:
        least, most: the ends, both included.
        meaning: of the column, with its unit.
    """

    least: float
    most: float
    meaning: str


PROFILE_COLUMNS = {
    "samples_per_s": Bounds(1e-9, 1e15, "training samples a second, one pass each: the median job"),
    "work_sigma": Bounds(0, 10, "standard deviation of the logarithm of a job's work time; 0 = always the median"),
    "down_bytes_per_s": Bounds(1e-9, np.inf, "bytes a second towards the device; inf = unlimited"),
    "up_bytes_per_s": Bounds(1e-9, np.inf, "bytes a second from the device; inf = unlimited"),
    "latency_s": Bounds(0, 1e12, "seconds that a message takes at least, each way"),
    "availability": Bounds(1e-9, 1, "probability of being available at a round's start"),
}
"""The columns that runs use, each with its bounds."""

LINE = ("latency_s", "down_bytes_per_s", "up_bytes_per_s")
"""Columns of the device's own line."""

LABELS = ("device", "jobs", *(f"{name}_{end}" for name in PROFILE_COLUMNS for end in ("low", "high")))
"""Columns that a file may have besides."""


@dataclass(frozen=True)
class ProfileTable:
    """A file of profiles.

    Attributes:
        file: its name, for messages.
        columns: each column that it has of :data:`PROFILE_COLUMNS`, float64 (rows,).
        clients: the row's client, int64 (rows,); None where devices are drawn.
    """

    file: str
    columns: Mapping[str, Floats]
    clients: Integers | None

    def rows(self, clients: int, streams: Streams) -> Integers:
        """The row of each client, (clients,): the one that names it, or one drawn from the stream "profiles".

        Raises:
            ScenarioError: the file names clients, but not exactly those of the scenario.
        """
        rows = len(next(iter(self.columns.values())))
        if self.clients is None:
            return streams("profiles").integers(rows, size=clients)
        row_of = np.full(clients, -1)
        inside = self.clients < clients
        if not inside.all():
            raise ScenarioError(
                "", f"{self.file}: has a row for client {self.clients[~inside][0]} of {clients} clients"
            )
        row_of[self.clients] = np.arange(rows)
        if (row_of < 0).any():
            missing = int(np.flatnonzero(row_of < 0)[0])
            raise ScenarioError(
                "", f"{self.file}: has no row for client {missing}; without the column client, devices are drawn"
            )
        return row_of


def client_profiles(setting: ScenarioView, streams: Streams) -> dict[str, Floats]:
    """What the scenario's profiles say of each client: the columns that there are, each float64 (clients,).

    Raises:
        ScenarioError: the file cannot be read, is broken, or does not fit the clients.
    """
    if setting.devices.profiles is None:
        return {}
    table = read_profiles(setting.file(setting.devices.profiles))
    rows = table.rows(setting.clients, streams)
    return {name: values[rows] for name, values in table.columns.items()}


def read_profiles(path: Path) -> ProfileTable:
    """A file of profiles; read once while it does not change.

    Raises:
        ScenarioError: it cannot be read or is broken; the message names file, line and column.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise ScenarioError("", f"{path.name}: {error.strerror or error}") from None
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, *_: int) -> ProfileTable:
    rows = csv_rows(path, "")
    if len(rows) < 2:
        raise ScenarioError("", f"{path.name}: needs a header and one row a device")
    (where, header), body = rows[0], rows[1:]
    _check_header(where, header)
    for where, cells in body:
        if len(cells) != len(header):
            raise ScenarioError("", f"{where}: {amount(len(cells), 'value')} for {amount(len(header), 'column')}")
    columns = {
        name: _numbers(name, [(where, cells[i]) for where, cells in body], PROFILE_COLUMNS[name])
        for i, name in enumerate(header)
        if name in PROFILE_COLUMNS
    }
    clients = None
    if "client" in header:
        place = header.index("client")
        clients = _clients([(where, cells[place]) for where, cells in body])
    return ProfileTable(path.name, columns, clients)


def _check_header(where: str, header: list[str]) -> None:
    known = (*PROFILE_COLUMNS, "client", *LABELS)
    for i, name in enumerate(header):
        if name not in known:
            near = suggestion(name, known) or f"; known are client, device, {', '.join(PROFILE_COLUMNS)}"
            raise ScenarioError("", f"{where}: there is no column '{name}'{near}")
        if name in header[:i]:
            raise ScenarioError("", f"{where}: the column {name} is there twice")
    if not PROFILE_COLUMNS.keys() & set(header):
        raise ScenarioError("", f"{where}: the header names none of {', '.join(PROFILE_COLUMNS)}")
    if "work_sigma" in header and "samples_per_s" not in header:
        raise ScenarioError("", f"{where}: work_sigma spreads the time of work, which needs the column samples_per_s")


def _numbers(name: str, cells: list[tuple[str, str]], bounds: Bounds) -> Floats:
    """A column as numbers; only where some cell is wrong are they looked at one by one."""
    texts = [text for _, text in cells]
    try:
        values = np.array(texts, dtype=np.float64)
    except ValueError:
        values = np.array([number_of(text, np.nan) for text in texts])
    if (wrong := np.flatnonzero(~((values >= bounds.least) & (values <= bounds.most)))).size:
        where, text = cells[wrong[0]]
        limits = f"from {bounds.least:g}" if np.isinf(bounds.most) else f"from {bounds.least:g} to {bounds.most:g}"
        raise ScenarioError("", f"{where}: {name} is a number {limits} ({bounds.meaning}), not '{text}'")
    return values


def _clients(cells: list[tuple[str, str]]) -> Integers:
    numbers: dict[int, str] = {}
    for where, text in cells:
        if not (text.isascii() and text.isdigit() and len(text) < 12):
            raise ScenarioError("", f"{where}: client is the number of a client from 0, not '{text}'")
        if int(text) in numbers:
            raise ScenarioError("", f"{where}: client {text} has a row already, {numbers[int(text)]}")
        numbers[int(text)] = where
    return np.fromiter(numbers, np.int64, len(numbers))
