"""FedBN: normalisation layers stay with the clients."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.clients.base import PERSONAL, ClientAlgorithm
from simfl.clients.local_values import Parameter
from simfl.clients.personal.private_layers import PrivateCoordinates, norm_coordinates
from simfl.core.errors import ScenarioError


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
