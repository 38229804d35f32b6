"""Devices that never drop out."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.devices.base import AVAILABILITY, Available


@AVAILABILITY("always")
@dataclass(frozen=True)
class Always:
    """Every client is available in every round."""

    equal_rates = True
    independent = True
    timeless = True

    def build(self, setting: ScenarioView, streams: Streams, names: tuple[str, ...] | None = None) -> "AlwaysOn":
        return AlwaysOn(np.zeros(setting.clients))


@dataclass
class AlwaysOn(Available):
    """Nobody is ever missing."""

    dropout: NDArray[np.float64]

    def draw(self, round: int, now_s: float) -> NDArray[np.bool_]:
        return np.ones(len(self.dropout), dtype=bool)
