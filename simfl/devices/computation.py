"""How long local training takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.distributions import (
    Distribution,
    DistributionField,
    NonNegative,
    PerClient,
    checked_draws,
    length_problems,
    per_client,
)
from simfl.core.errors import ScenarioError
from simfl.core.rng import Address, Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataPath
from simfl.core.storage.text_table import csv_rows
from simfl.core.types import Floats, Integers
from simfl.devices.base import COMPUTATION, Computing

Speed = Annotated[
    PerClient,
    Field(
        description="factor of each client's durations (2 = takes twice as long): a number, one a client, or a "
        "distribution drawn once for each client"
    ),
]

KEY = "path"

MAX_SECONDS = 1e12


@COMPUTATION("constant")
@dataclass(frozen=True)
class ConstantTime:
    """Every job takes the same time; a bare number is short for it."""

    seconds: Annotated[NonNegative, Field(description="seconds of local training")] = 0.0

    independent = True

    @property
    def instant(self) -> bool:
        return self.seconds == 0

    def build(self, setting: ScenarioView, streams: Streams) -> "Timing":
        return Timing(np.full(setting.clients, float(self.seconds)))


@COMPUTATION("per_sample")
@dataclass(frozen=True)
class PerSample:
    """Seconds per sample, times samples, times local epochs, times the client's own factor."""

    seconds: Annotated[NonNegative, Field(description="seconds for one sample in one epoch")]
    speed: Speed = 1.0

    example = {"seconds": 0.1}
    independent = True

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        return length_problems("speed", self.speed, setting.clients)

    def build(self, setting: ScenarioView, streams: Streams) -> "Timing":
        return Timing(
            self.seconds * per_client(self.speed, setting.clients, streams("speed"), "speed"), per_sample=True
        )


@COMPUTATION("random")
@dataclass(frozen=True)
class RandomTime:
    """A fresh draw for every job, times the client's own factor; e.g. half_normal as in the FedBuff paper."""

    distribution: Annotated[DistributionField, Field(description="seconds of one job")]
    speed: Speed = 1.0

    example = {"distribution": {"name": "half_normal", "sigma": 1}}
    independent = True

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        return length_problems("speed", self.speed, setting.clients)

    def build(self, setting: ScenarioView, streams: Streams) -> "Timing":
        factor = per_client(self.speed, setting.clients, streams("speed"), "speed")
        return Timing(factor, distribution=self.distribution, streams=streams)


@dataclass(frozen=True)
class Timing(Computing):
    """Duration = the client's factor, times samples and epochs, times a draw, where these apply.

    Attributes:
        factor: float64, shape (clients,).
        per_sample: whether samples and epochs count.
        distribution: of the draw, from the stream "computation" at the job's address; None = no draw.
    """

    factor: Floats
    per_sample: bool = False
    distribution: Distribution | None = None
    streams: Streams | None = None

    def duration_s(
        self, clients: NDArray[np.integer], samples: Integers, epochs: float | Floats, where: Address
    ) -> Floats:
        duration = self.factor[clients]
        if self.per_sample:
            duration = duration * samples * epochs
        if self.distribution is not None and self.streams is not None:
            seconds = self.streams.at("computation", where, self.distribution.sample)
            duration = duration * checked_draws("devices.computation.distribution", self.distribution, seconds)
        return duration


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
    seconds: Floats

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return self.seconds[rng.integers(len(self.seconds), size=size)]

    @property
    def mean(self) -> float:
        return float(self.seconds.mean())


def _read(path: Path) -> Floats:
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
