"""FedLTN with Jump-Start: everybody trains alone first, and the best model is where federated training begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.clients.base import PERSONAL, ClientAlgorithm
from simfl.clients.local_values import Parameter
from simfl.clients.personal.fedltn import FedLtn, Share, Tickets
from simfl.clients.personal.private_layers import norm_coordinates
from simfl.clients.personal.sparse import prunable
from simfl.core.payload import MODEL, PayloadPart
from simfl.core.types import Arrays


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
    needs_server = True
    receives = (MODEL, PayloadPart("the models of all clients before the first round", "model"))

    @property
    def sends(self) -> tuple[PayloadPart, ...]:  # type: ignore[override]  # a constant of other clients
        """What FedLTN's clients send, and before the first round a model and its scores of all models."""
        first = PayloadPart("its whole model before the first round", "model", instead="personal: fedltn")
        scores = PayloadPart("the accuracies of all models on its samples", "score", instead="personal: fedltn")
        return (*super().sends, first, scores)

    def for_model(self, parameters: Sequence[Parameter], initial: NDArray[np.float32]) -> ClientAlgorithm:
        return _Jumping(self, prunable(parameters), initial, norm_coordinates(parameters, len(initial)))


@dataclass(frozen=True)
class _Jumping(Tickets):
    needs_rounds = True

    def pretraining(self) -> tuple[int, ClientAlgorithm]:
        alone = replace(self.rule, target=self.rule.alone_target)
        return self.rule.alone_rounds, Tickets(alone, self.layers, self.initial, self.private)

    def pretrained_state(self, state: Mapping[str, NDArray[np.generic]]) -> Arrays:
        return {name: value for name, value in state.items() if name != "private"}
