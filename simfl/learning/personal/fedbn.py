"""FedBN: normalisation layers stay with the clients."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.errors import ScenarioError
from simfl.learning.personal.private_layers import KeptApart, norms
from simfl.variant import PERSONAL, ClientVariant, Parameter

__all__ = ["FedBn"]


@PERSONAL("fedbn")
@dataclass(frozen=True)
class FedBn(ClientVariant):
    """FedAvg of all layers but the normalising ones, which every client keeps, statistics included.

    Reference: Li et al., "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization", ICLR 2021.
    """

    def fitted(self, parameters: Sequence[Parameter], initial: NDArray[np.float32]) -> ClientVariant:
        private = norms(parameters, len(initial))
        if not private.any():
            raise ScenarioError("", "the model has no norm layers; use a model with some (resnet8), or none")
        return KeptApart(private)
