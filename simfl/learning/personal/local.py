"""Everybody alone: the reference for all that is shared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.payload import Upload
from simfl.variant import PERSONAL, Begun, ClientVariant, Done, Parameter, Visit

__all__ = ["Local"]

Vector = NDArray[np.float32]


@PERSONAL("local")
@dataclass(frozen=True)
class Local(ClientVariant):
    """Every client trains a model of its own from the common initial values, and sends nothing."""

    sends = ()
    receives = ()

    def fitted(self, parameters: Sequence[Parameter], initial: Vector) -> ClientVariant:
        return _Alone(np.ones(len(initial), dtype=bool))


@dataclass(frozen=True)
class _Alone(ClientVariant):
    private: NDArray[np.bool_]

    def begin(self, visit: Visit) -> Begun:
        return Begun(visit.own.get("model", visit.download.model))

    def end(self, visit: Visit, begun: Begun, delta: Vector, steps: int, rate: float) -> Done:
        return Done(Upload(np.zeros_like(delta)), {"model": begun.start + delta})

    def personal(self, model: Vector, own: Mapping[str, NDArray[Any]]) -> Vector | None:
        return own.get("model")
