"""Layers that never leave a client: norm layers (FedBN), the head (FedPer), or any others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.errors import ScenarioError
from simfl.payload import UPDATE, Part, Upload
from simfl.variant import PERSONAL, Begun, ClientVariant, Done, Parameter, Visit

__all__ = ["KeptApart", "PrivateLayers", "merged", "norms"]

Vector = NDArray[np.float32]
Own = Mapping[str, NDArray[Any]]


@PERSONAL("private_layers")
@dataclass(frozen=True)
class PrivateLayers(ClientVariant):
    """FedAvg of all layers but some, which every client keeps for itself; they are neither sent nor averaged.

    ``norm`` = all normalisation layers with their running statistics, told by their class; ``head`` = the last layer
    with parameters; ``all`` = everything; anything else is the beginning of parameters' names (``7.`` or
    ``7.shortcut``). References: Li et al. 2021 (FedBN), Arivazhagan et al. 2019 (FedPer).
    """

    keep: Annotated[
        tuple[str, ...], Field(min_length=1, description="norm, head, all, or how names of parameters begin")
    ] = ("head",)

    @property
    def sends(self) -> tuple[Part, ...]:  # type: ignore[override]
        """Nothing where all layers stay with the clients."""
        return () if "all" in self.keep else (UPDATE,)

    def fitted(self, parameters: Sequence[Parameter], initial: Vector) -> ClientVariant:
        private = np.zeros(len(initial), dtype=bool)
        for word in self.keep:
            private |= self._meant(word, parameters, len(initial))
        return KeptApart(private)

    def _meant(self, word: str, parameters: Sequence[Parameter], dimension: int) -> NDArray[np.bool_]:
        trained = [parameter.name for parameter in parameters if not parameter.statistic]
        head = trained[-1].rpartition(".")[0] + "."
        chosen = {"norm": norms(parameters, dimension), "head": _begin(head, parameters, dimension)}
        chosen["all"] = np.ones(dimension, dtype=bool)
        mask = chosen[word] if word in chosen else _begin(word, parameters, dimension)
        if not mask.any():
            layers = sorted({name.rpartition(".")[0] for name in trained})
            what = "the model has no norm layers" if word in chosen else f"no parameter's name begins with '{word}'"
            raise ScenarioError("keep", f"{what}; its layers are {', '.join(layers)}")
        return mask


@dataclass(frozen=True)
class KeptApart(ClientVariant):
    """FedAvg of the coordinates that are not ``private``."""

    private: NDArray[np.bool_]

    def begin(self, visit: Visit) -> Begun:
        return Begun(merged(visit.download.model, self.private, visit.own))

    def end(self, visit: Visit, begun: Begun, delta: Vector, steps: int, rate: float) -> Done:
        kept = {"private": (begun.start + delta)[self.private]}
        return Done(Upload(np.where(self.private, np.float32(0), delta)), kept)

    def personal(self, model: Vector, own: Own) -> Vector | None:
        return merged(model, self.private, own) if "private" in own else None


def norms(parameters: Sequence[Parameter], dimension: int) -> NDArray[np.bool_]:
    """The coordinates of all normalisation layers, bool (d,)."""
    mask = np.zeros(dimension, dtype=bool)
    for parameter in parameters:
        mask[parameter.elements] = parameter.norm
    return mask


def _begin(prefix: str, parameters: Sequence[Parameter], dimension: int) -> NDArray[np.bool_]:
    mask = np.zeros(dimension, dtype=bool)
    for parameter in parameters:
        mask[parameter.elements] = parameter.name.startswith(prefix)
    return mask


def merged(model: Vector, private: NDArray[np.bool_], own: Own) -> Vector:
    """A model with a client's own values in the private coordinates, where it has any."""
    if "private" not in own:
        return model
    model = model.copy()
    model[private] = own["private"]
    return model
