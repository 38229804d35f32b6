"""Layers that never leave a client: norm layers (FedBN), the head (FedPer), or any others."""

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
