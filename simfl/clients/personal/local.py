"""Everybody alone: the reference for all that is shared."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.clients.base import PERSONAL, ClientAlgorithm
from simfl.clients.local_values import ClientState, LocalContext, LocalPass, LocalResult, Parameter, Vector
from simfl.core.payload import Upload


@PERSONAL("local")
@dataclass(frozen=True)
class LocalOnly(ClientAlgorithm):
    """Every client trains a model of its own from the common initial values, and sends nothing."""

    sends = ()
    receives = ()

    def for_model(self, parameters: Sequence[Parameter], initial: Vector) -> ClientAlgorithm:
        return _Alone(np.ones(len(initial), dtype=bool))


@dataclass(frozen=True)
class _Alone(ClientAlgorithm):
    private: NDArray[np.bool_]

    def begin(self, context: LocalContext) -> LocalPass:
        return LocalPass(context.state.get("model", context.download.model))

    def end(self, context: LocalContext, local_pass: LocalPass, delta: Vector, steps: int, rate: float) -> LocalResult:
        return LocalResult(Upload(np.zeros_like(delta)), {"model": local_pass.start + delta})

    def personal(self, model: Vector, state: ClientState) -> Vector | None:
        return state.get("model")
