"""SCAFFOLD: the clients' drift is corrected by control variates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.clients.base import CLIENTS, ClientAlgorithm
from simfl.clients.local_values import LocalContext, LocalPass, LocalResult, Parameter, Vector
from simfl.core.payload import MODEL, UPDATE, PayloadPart, Upload
from simfl.core.types import Arrays


@CLIENTS("scaffold")
@dataclass(frozen=True)
class Scaffold(ClientAlgorithm):
    """Control variates correct the clients' drift; messages are twice as large.

    The server keeps c, every client that has trained its own c_i; all begin at zero. Gradients are shifted by c - c_i;
    a job leaves c_i - c + (x - y_i) / (steps * rate) as the new c_i, and c moves by the mean change over all clients.

    Reference: Karimireddy et al. 2020, algorithm 1 with option II for the variates.
    """

    momentum = False
    needs_rounds = True
    sends = (UPDATE, PayloadPart("the change of its control variate", "array", 1.0, "client: plain"))
    receives = (MODEL, PayloadPart("the server's control variate", "array", 1.0))

    def common(self, parameters: Sequence[Parameter], dimension: int) -> Arrays:
        return {"variate": np.zeros(dimension, dtype=np.float32)}

    def begin(self, context: LocalContext) -> LocalPass:
        shift = context.download.arrays["variate"]
        if "variate" in context.state:
            shift = shift - context.state["variate"]
        return LocalPass(context.download.model, shift if shift.any() else None)

    def end(self, context: LocalContext, local_pass: LocalPass, delta: Vector, steps: int, rate: float) -> LocalResult:
        new = delta * np.float32(-1 / (steps * rate))
        if local_pass.shift is not None:
            new -= local_pass.shift
        delta_sent = new.astype(np.float64)
        if "variate" in context.state:
            delta_sent -= context.state["variate"]
        return LocalResult(Upload(delta, {"variate": delta_sent}), {"variate": new})

    def update_common(self, common: Mapping[str, NDArray[np.generic]], reported: Arrays, clients: int) -> Arrays:
        return {"variate": (common["variate"] + reported["variate"] / clients).astype(np.float32)}
