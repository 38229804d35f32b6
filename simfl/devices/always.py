"""Devices that never drop out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.devices.base import AVAILABILITY
from simfl.rng import Streams
from simfl.setting import Setting

__all__ = ["Always"]


@AVAILABILITY("always")
@dataclass(frozen=True)
class Always:
    """Every client is available in every round."""

    equal = True
    independent = True
    timeless = True

    def build(self, setting: Setting, streams: Streams, names: tuple[str, ...] | None = None) -> "AlwaysOn":
        return AlwaysOn(np.zeros(setting.clients))


@dataclass
class AlwaysOn:
    """Nobody is ever missing."""

    dropout: NDArray[np.float64]

    def draw(self, round: int, now_s: float) -> NDArray[np.bool_]:
        return np.ones(len(self.dropout), dtype=bool)

    def state(self) -> dict[str, NDArray[Any]]:
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        pass
