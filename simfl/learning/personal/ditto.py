"""Ditto: a personal model beside the global one, held near it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.payload import Upload
from simfl.variant import PERSONAL, Begun, ClientVariant, Done, Parameter, Visit

__all__ = ["Ditto"]

Vector = NDArray[np.float32]


@PERSONAL("ditto")
@dataclass(frozen=True)
class Ditto(ClientVariant):
    """Beside its work for FedAvg a client trains v <- v - rate (gradient(v) + strength (v - x)) of its own.

    x is the global model that it downloaded; v begins at the common initial values and never leaves the client. Both
    take the samples in one order; a job computes twice as long. Reference: Li et al., "Ditto: Fair and Robust Federated
    Learning Through Personalization", ICML 2021, algorithm 1.
    """

    strength: Annotated[float, Field(ge=0, le=1e6, description="pull towards the global model, lambda; 0 = local")] = (
        0.1
    )

    def fitted(self, parameters: Sequence[Parameter], initial: Vector) -> ClientVariant:
        return _Fitted(np.float32(self.strength), initial)


@dataclass(frozen=True)
class _Fitted(ClientVariant):
    strength: np.float32
    initial: Vector

    passes = 2.0

    def begin(self, visit: Visit) -> Begun:
        return Begun(visit.download.model)

    def end(self, visit: Visit, begun: Begun, delta: Vector, steps: int, rate: float) -> Done | Begun:
        if begun.memo is not None:
            return Done(Upload(begun.memo), {"model": begun.start + delta})
        start = visit.own.get("model", self.initial)
        # the engines' proximal term pulls towards the start of the pass; the rest of the pull does not change in it
        shift = self.strength * (start - visit.download.model) if self.strength else None
        return Begun(start, shift, proximal=float(self.strength), memo=delta, repeats=True)

    def personal(self, model: Vector, own: Mapping[str, NDArray[Any]]) -> Vector | None:
        return own.get("model", self.initial)
