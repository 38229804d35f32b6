"""References: everybody alone, and the global model tuned by each client for itself, which others must beat."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

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


@PERSONAL("fine_tune")
@dataclass(frozen=True)
class FineTune(ClientAlgorithm):
    """FedAvg; whenever clients are measured, each first trains the global model on its own samples.

    Nothing of it is kept or sent, and it costs no simulated time. References: Yu et al. 2020 (arXiv 2002.04758);
    its first-order meta-learning relative is Fallah et al. 2020.
    """

    epochs: Annotated[int, Field(ge=1, le=10_000, description="passes over the client's samples")] = 1

    stateless = True
    descends = True

    def tune(self, context: LocalContext) -> LocalPass:
        return LocalPass(context.download.model, epochs=self.epochs)
