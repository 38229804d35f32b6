"""Everybody alone, the global model tuned by each client, which others must beat; and Ditto, beside the global one."""

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


@PERSONAL("ditto")
@dataclass(frozen=True)
class Ditto(ClientAlgorithm):
    """Beside its work for FedAvg a client trains v <- v - rate (gradient(v) + strength (v - x)) of its own.

    x is the global model that it downloaded; v begins at the common initial values and never leaves the client. Both
    take the samples in one order; a job computes twice as long. Reference: Li et al., "Ditto: Fair and Robust Federated
    Learning Through Personalization", ICML 2021, algorithm 1.
    """

    strength: Annotated[float, Field(ge=0, le=1e6, description="pull towards the global model, lambda; 0 = local")] = (
        0.1
    )

    descends = True

    def for_model(self, parameters: Sequence[Parameter], initial: Vector) -> ClientAlgorithm:
        return _Fitted(np.float32(self.strength), initial)


@dataclass(frozen=True)
class _Fitted(ClientAlgorithm):
    strength: np.float32
    initial: Vector

    passes = 2.0

    def begin(self, context: LocalContext) -> LocalPass:
        return LocalPass(context.download.model)

    def end(
        self, context: LocalContext, local_pass: LocalPass, delta: Vector, steps: int, rate: float
    ) -> LocalResult | LocalPass:
        if local_pass.memo is not None:
            return LocalResult(Upload(local_pass.memo), {"model": local_pass.start + delta})
        start = context.state.get("model", self.initial)
        # the engines' proximal term pulls towards the start of the pass; the rest of the pull does not change in it
        shift = self.strength * (start - context.download.model) if self.strength else None
        return LocalPass(start, shift, proximal=float(self.strength), memo=delta, repeats=True)

    def personal(self, model: Vector, state: ClientState) -> Vector | None:
        return state.get("model", self.initial)
