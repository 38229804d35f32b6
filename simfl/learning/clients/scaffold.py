"""SCAFFOLD: the clients' drift is corrected by control variates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.payload import MODEL, UPDATE, Part, Upload
from simfl.types import Arrays
from simfl.variant import CLIENTS, Begun, ClientVariant, Done, Parameter, Visit

__all__ = ["Scaffold"]

Vector = NDArray[np.float32]


@CLIENTS("scaffold")
@dataclass(frozen=True)
class Scaffold(ClientVariant):
    """Control variates correct the clients' drift; messages are twice as large.

    The server keeps c, every client that has trained its own c_i; all begin at zero. Gradients are shifted by c - c_i;
    a job leaves c_i - c + (x - y_i) / (steps * rate) as the new c_i, and c moves by the mean change over all clients.

    Reference: Karimireddy et al. 2020, algorithm 1 with option II for the variates.
    """

    momentum = False
    needs_rounds = True
    sends = (UPDATE, Part("the change of its control variate", "array", 1.0, "client: plain"))
    receives = (MODEL, Part("the server's control variate", "array", 1.0))

    def common(self, parameters: Sequence[Parameter], dimension: int) -> Arrays:
        return {"variate": np.zeros(dimension, dtype=np.float32)}

    def begin(self, visit: Visit) -> Begun:
        shift = visit.download.arrays["variate"]
        if "variate" in visit.own:
            shift = shift - visit.own["variate"]
        return Begun(visit.download.model, shift if shift.any() else None)

    def end(self, visit: Visit, begun: Begun, delta: Vector, steps: int, rate: float) -> Done:
        new = delta * np.float32(-1 / (steps * rate))
        if begun.shift is not None:
            new -= begun.shift
        change = new.astype(np.float64)
        if "variate" in visit.own:
            change -= visit.own["variate"]
        return Done(Upload(delta, {"variate": change}), {"variate": new})

    def absorb(self, common: Mapping[str, NDArray[Any]], reported: Arrays, clients: int) -> Arrays:
        return {"variate": (common["variate"] + reported["variate"] / clients).astype(np.float32)}
