"""Devices that follow a recorded trace of availability."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import ScenarioError, amount, suggestion
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataPath
from simfl.core.storage.text_table import csv_rows
from simfl.core.types import Name
from simfl.devices.base import AVAILABILITY, Available

MAX_TIME = 1e12

Time = Annotated[float, Field(ge=0, le=MAX_TIME)]

FIELD = "path"

HEADERS: dict[tuple[str, ...], Literal["seconds", "rounds"]] = {
    ("client", "start_s", "end_s"): "seconds",
    ("client", "start_round", "end_round"): "rounds",
}

Interval = tuple[str, str, str, float, float, float]
"""The scenario's key, the beginning of messages, client, start, end and period, infinite if it never repeats."""


@AVAILABILITY("trace")
@dataclass(frozen=True, kw_only=True)
class TraceAvailability:
    """Clients are available in the given intervals [start, end), as of the round's start.

    A CSV file has the columns client,start_s,end_s (simulated seconds) or client,start_round,end_round, and perhaps
    period_s or period_round, after which that client's intervals repeat. There an interval may end as it starts; it
    holds no moment. A client is given by its name in the network or by its number from 0.
    """

    path: Annotated[
        DataPath | None, Field(description="CSV file of intervals, beside the scenario file or in the data folder")
    ] = None
    inline: Annotated[
        tuple[tuple[Name, Time, Time], ...] | None, Field(description="intervals [client, start, end], without a file")
    ] = None
    unit: Annotated[
        Literal["seconds", "rounds"], Field(description="unit of inline intervals; a file's header gives its own")
    ] = "seconds"
    period: Annotated[
        float | None, Field(gt=0, le=MAX_TIME, description="after which the trace repeats, in its unit; null = never")
    ] = None
    absent: Annotated[
        Literal["always", "never"], Field(description="when clients without any interval are available")
    ] = "never"

    independent = True
    example = {"inline": [[0, 0, 2], [2, 1, 3]], "unit": "rounds"}

    @property
    def timeless(self) -> bool:
        """A file shows only later whether it counts rounds."""
        return self.inline is not None and self.unit == "rounds"

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = []
        if (self.path is None) == (self.inline is None):
            problems.append(("path", "give either path or inline"))
        for i, (_, start, end) in enumerate(self.inline or ()):
            if problem := _impossible(start, end, self.period):
                problems.append((f"inline.{i}", problem))
        return problems

    def build(
        self, setting: ScenarioView, streams: Streams, names: tuple[str, ...] | None = None
    ) -> "AvailableIntervals":
        unit, rows = (
            self.unit,
            [(f"inline.{i}", "", *row, self.period or np.inf) for i, row in enumerate(self.inline or ())],
        )
        if self.path is not None:
            unit, rows = _read(setting.file(self.path), self.period)
        if names is None and not all(row[2].isdigit() for row in rows):
            names = setting.network.build(setting, streams).names
        number = {name: i for i, name in enumerate(names or ())}
        client = np.empty(len(rows), dtype=np.int64)
        periods: dict[int, float] = {}
        for i, (field, where, name, _, _, repeats) in enumerate(rows):
            plain = name.isascii() and name.isdigit() and len(name) < 12
            known = number.get(name, int(name) if plain else setting.clients)
            if known >= setting.clients:
                problem = f"there is no client '{name}' among {setting.clients}{suggestion(name, number)}"
                raise ScenarioError(field, where + problem)
            if periods.setdefault(known, repeats) != repeats:
                why = f"the period of client '{name}' is {repeats:g} here and {periods[known]:g} before"
                raise ScenarioError(field, where + why)
            client[i] = known
        base = np.full(setting.clients, self.absent == "always")
        base[client] = False
        start, end, period = (np.array([row[column] for row in rows], dtype=float) for column in (3, 4, 5))
        return AvailableIntervals(base, client, start, end, unit == "rounds", period)


def _read(path: Path, period: float | None) -> tuple[Literal["seconds", "rounds"], list[Interval]]:
    """The unit and the rows of a CSV file."""
    rows = csv_rows(path, FIELD)
    header = tuple(rows[0][1]) if rows else ()
    unit = HEADERS.get(header[:3])
    if unit is None or header[3:] not in ((), (f"period_{header[1].removeprefix('start_')}",)):
        where = rows[0][0] if rows else path.name
        needed = " or ".join(",".join(header) for header in HEADERS)
        raise ScenarioError(FIELD, f"{where}: the header must be {needed}, perhaps with period_s or period_round")
    if header[3:] and period is not None:
        raise ScenarioError("period", f"{path.name} has a period for each client; leave this one out")
    return unit, [_interval(cells, where, period, len(header)) for where, cells in rows[1:]]


def _interval(cells: list[str], where: str, period: float | None, columns: int) -> Interval:
    problem = f"{amount(len(cells), 'value')} for {columns} columns"
    if len(cells) == columns:
        try:
            start, end = float(cells[1]), float(cells[2])
            repeats = float(cells[3]) if columns > 3 else np.inf if period is None else period
        except ValueError:
            problem = "start and end must be numbers" + (", and the period too" if columns > 3 else "")
        else:
            problem = "" if 0 < repeats else f"a period must be greater than 0, not {repeats:g}"
            problem = problem or _impossible(start, end, None if np.isinf(repeats) else repeats, empty=True)
    if problem:
        raise ScenarioError(FIELD, f"{where}: {problem}")
    return FIELD, f"{where}: ", cells[0], start, end, repeats


def _impossible(start: float, end: float, period: float | None, empty: bool = False) -> str:
    """What is wrong with an interval; empty if nothing is."""
    if not 0 <= start <= end <= MAX_TIME or (start == end and not empty):
        return f"an interval needs 0 <= start {'<=' if empty else '<'} end, not {start:g} to {end:g}"
    if period is not None and end > period:
        return f"the interval ends at {end:g}, after the period of {period:g}; split it there"
    return ""


@dataclass
class AvailableIntervals(Available):
    """Intervals, looked up at every round's start.

    Attributes:
        base: clients without intervals that are always there, bool (clients,).
        client, start, end: the intervals, shape (n,).
        rounds: whether they count rounds rather than seconds.
        period: after which each repeats, float64 (n,); infinite = never.
    """

    base: NDArray[np.bool_]
    client: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    rounds: bool
    period: NDArray[np.float64]

    dropout = None

    def draw(self, round: int, now_s: float) -> NDArray[np.bool_]:
        now = float(round) if self.rounds else now_s
        since = now % self.period
        available = self.base.copy()
        available[self.client[(self.start <= since) & (since < self.end)]] = True
        return available
