"""Layers that never leave a client: norm layers (FedBN), the head (FedPer), or any others; everybody alone, the global
model tuned by each client, which others must beat; and Ditto, beside the global one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.clients.base import PERSONAL, ClientAlgorithm
from simfl.clients.local_values import ClientState, LocalContext, LocalPass, LocalResult, Parameter, Vector
from simfl.core.errors import ScenarioError
from simfl.core.payload import UPDATE, PayloadPart, Upload


@PERSONAL("private_layers")
@dataclass(frozen=True)
class PrivateLayers(ClientAlgorithm):
    """FedAvg of all layers but some, which every client keeps for itself; they are neither sent nor averaged.

    ``norm`` = all normalisation layers with their running statistics, told by their class; ``head`` = the last layer
    with parameters; ``all`` = everything; anything else is the beginning of parameters' names (``7.`` or
    ``7.shortcut``). References: Li et al. 2021 (FedBN), Arivazhagan et al. 2019 (FedPer).
    """

    keep: Annotated[
        tuple[str, ...], Field(min_length=1, description="norm, head, all, or how names of parameters begin")
    ] = ("head",)

    @property
    def sends(self) -> tuple[PayloadPart, ...]:  # type: ignore[override]  # a constant of other clients
        """Nothing where all layers stay with the clients."""
        return () if "all" in self.keep else (UPDATE,)

    def for_model(self, parameters: Sequence[Parameter], initial: Vector) -> ClientAlgorithm:
        private = np.zeros(len(initial), dtype=bool)
        for word in self.keep:
            private |= self._matching(word, parameters, len(initial))
        return PrivateCoordinates(private)

    def _matching(self, word: str, parameters: Sequence[Parameter], dimension: int) -> NDArray[np.bool_]:
        trained = [parameter.name for parameter in parameters if not parameter.statistic]
        prefix = trained[-1].rpartition(".")[0] + "." if word == "head" else word
        named = word in ("norm", "head", "all")
        if word == "norm":
            mask = norm_coordinates(parameters, dimension)
        elif word == "all":
            mask = np.ones(dimension, dtype=bool)
        else:
            mask = _coordinates((each for each in parameters if each.name.startswith(prefix)), dimension)
        if not mask.any():
            layers = sorted({name.rpartition(".")[0] for name in trained})
            what = "the model has no norm layers" if named else f"no parameter's name begins with '{word}'"
            raise ScenarioError("keep", f"{what}; its layers are {', '.join(layers)}")
        return mask


@dataclass(frozen=True)
class PrivateCoordinates(ClientAlgorithm):
    """FedAvg of the coordinates that are not ``private``."""

    private: NDArray[np.bool_]

    def begin(self, context: LocalContext) -> LocalPass:
        return LocalPass(merge_private(context.download.model, self.private, context.state))

    def end(self, context: LocalContext, local_pass: LocalPass, delta: Vector, steps: int, rate: float) -> LocalResult:
        state = {"private": (local_pass.start + delta)[self.private]}
        return LocalResult(Upload(np.where(self.private, np.float32(0), delta)), state)

    def personal(self, model: Vector, state: ClientState) -> Vector | None:
        return merge_private(model, self.private, state) if "private" in state else None


def norm_coordinates(parameters: Sequence[Parameter], dimension: int) -> NDArray[np.bool_]:
    """The coordinates of all normalisation layers, bool (d,)."""
    return _coordinates((parameter for parameter in parameters if parameter.norm), dimension)


def _coordinates(chosen: Iterable[Parameter], dimension: int) -> NDArray[np.bool_]:
    mask = np.zeros(dimension, dtype=bool)
    for parameter in chosen:
        mask[parameter.elements] = True
    return mask


def merge_private(model: Vector, private: NDArray[np.bool_], state: ClientState) -> Vector:
    """A model with a client's own values in the private coordinates, where it has any."""
    if "private" not in state:
        return model
    model = model.copy()
    model[private] = state["private"]
    return model


@PERSONAL("fedbn")
@dataclass(frozen=True)
class FedBn(ClientAlgorithm):
    """FedAvg of all layers but the normalising ones, which every client keeps, statistics included.

    Reference: Li et al., "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization", ICLR 2021.
    """

    def for_model(self, parameters: Sequence[Parameter], initial: NDArray[np.float32]) -> ClientAlgorithm:
        private = norm_coordinates(parameters, len(initial))
        if not private.any():
            raise ScenarioError("", "the model has no norm layers; use a model with some (resnet8), or none")
        return PrivateCoordinates(private)


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
