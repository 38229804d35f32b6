"""FedLTN with Jump-Start: everybody trains alone first, and the best model is where federated training begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.learning.personal.fedltn import FedLtn, Share, Tickets
from simfl.learning.personal.masks import prunable
from simfl.learning.personal.private_layers import norms
from simfl.payload import MODEL, Part
from simfl.types import Arrays
from simfl.variant import PERSONAL, ClientVariant, Parameter

__all__ = ["JumpStart"]


@PERSONAL("jump_start")
@dataclass(frozen=True)
class JumpStart(FedLtn):
    """FedLTN after a start in which every client trains and prunes alone.

    The model with the best mean validation accuracy over all clients becomes the global one, its mask everybody's
    first. Before the first round that costs one upload of each model, one download of all of them by everybody, and
    the time to train. Reference: Mugunthan (MIT thesis, 2022), chapter 4, algorithm 2, which counts none of it.
    """

    alone_rounds: Annotated[int, Field(ge=1, le=10**6, description="jobs that each client does alone, T_jump")] = 25
    alone_target: Annotated[Share, Field(description="share of the weights that shall be pruned meanwhile")] = 0.3

    needs_rounds = True
    receives = (MODEL, Part("the models of all clients before the first round", "model"))

    @property
    def sends(self) -> tuple[Part, ...]:  # type: ignore[override]
        """What FedLTN's clients send, and before the first round a model and its scores of all models."""
        first = Part("its whole model before the first round", "model", instead="personal: fedltn")
        scores = Part("the accuracies of all models on its samples", "score", instead="personal: fedltn")
        return (*FedLtn.sends.fget(self), first, scores)

    def fitted(self, parameters: Sequence[Parameter], initial: NDArray[np.float32]) -> ClientVariant:
        return _Jumping(self, prunable(parameters), initial, norms(parameters, len(initial)))


@dataclass(frozen=True)
class _Jumping(Tickets):
    needs_rounds = True

    def apart(self) -> tuple[int, ClientVariant]:
        alone = replace(self.rule, target=self.rule.alone_target)
        return self.rule.alone_rounds, Tickets(alone, self.layers, self.initial, self.private)

    def handed_on(self, own: Mapping[str, NDArray[Any]]) -> Arrays:
        return {name: value for name, value in own.items() if name != "private"}
