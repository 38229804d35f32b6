"""Computation times drawn from measured ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.distributions import Distribution, length_problems, per_client
from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataPath, csv_rows
from simfl.devices.base import COMPUTATION
from simfl.devices.computation import Speed, Timing

KEY = "path"
MAX_SECONDS = 1e12


@COMPUTATION("trace")
@dataclass(frozen=True)
class MeasuredTime:
    """Every job takes one of the measured durations, each as likely as the others, times the client's own factor."""

    path: Annotated[DataPath, Field(description="CSV file with the header 'seconds' and one duration a line")]
    speed: Speed = 1.0

    example = {"path": "measured_seconds.csv"}
    independent = True

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        return length_problems("speed", self.speed, setting.clients)

    def build(self, setting: ScenarioView, streams: Streams) -> Timing:
        factor = per_client(self.speed, setting.clients, streams("speed"), "speed")
        return Timing(factor, distribution=_Durations(_read(setting.file(self.path))), streams=streams)


@dataclass(frozen=True)
class _Durations(Distribution):
    seconds: NDArray[np.float64]

    def sample(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return self.seconds[rng.integers(len(self.seconds), size=size)]

    @property
    def mean(self) -> float:
        return float(self.seconds.mean())


def _read(path: Path) -> NDArray[np.float64]:
    rows = csv_rows(path, KEY)
    if not rows or rows[0][1] != ["seconds"]:
        raise ScenarioError(KEY, f"{rows[0][0] if rows else path.name}: the header must be seconds")
    if len(rows) == 1:
        raise ScenarioError(KEY, f"{path.name}: holds no duration")
    return np.array([_duration(where, cells) for where, cells in rows[1:]])


def _duration(where: str, cells: list[str]) -> float:
    try:
        (seconds,) = (float(cell) for cell in cells)
    except ValueError:
        raise ScenarioError(KEY, f"{where}: one number of seconds is needed, not {','.join(cells)!r}") from None
    if not 0 <= seconds <= MAX_SECONDS:
        raise ScenarioError(KEY, f"{where}: a duration is 0 or more seconds, not {seconds:g}")
    return seconds
