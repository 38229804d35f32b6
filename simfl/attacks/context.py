"""Attack context: the attacker's knowledge of the model, and the ground truth that only the scorer has."""

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from simfl.clients.local_training import LocalTraining
from simfl.clients.local_values import Parameter
from simfl.core.types import Integers, Vectors

if TYPE_CHECKING:
    import torch


class AttackerKnowledge(NamedTuple):
    """Background knowledge of an attacker, which takes part in training and so knows the model and its settings.

    Attributes:
        module: the model, a torch module of its own, on the processor.
        parameters: where each of its parameters lies in the flat vector.
        shape: of one sample.
        low, high: the smallest and largest value of a sample; of images, of each channel, (channels, 1, 1).
    """

    module: Any
    parameters: Sequence[Parameter]
    shape: tuple[int, ...]
    classes: int
    low: Vectors
    high: Vectors
    local: LocalTraining

    def weights(self, flat: "torch.Tensor") -> "dict[str, torch.Tensor]":
        """The parameters and running statistics of a flat model, (d,), as views of it by name."""
        return {p.name: flat[p.elements].view(p.shape) for p in self.parameters}

    @property
    def trained_size(self) -> int:
        """Elements of the parameters that gradients move; the first ones of the flat vector."""
        return sum(prod(p.shape) for p in self.trained_parameters)

    @property
    def trained_parameters(self) -> Sequence[Parameter]:
        """The parameters that gradients move; running statistics stand behind them."""
        return [parameter for parameter in self.parameters if not parameter.statistic]


class GroundTruth(NamedTuple):
    """Training and test samples, known to the scorer only.

    Attributes:
        x, y: all training samples, (n, *shape) and int64 (n,).
        positions_of: the positions of the samples that a client has trained on.
        latest_of: the positions of those that a client's latest job has trained on.
        trained: those of all clients, each once.
        x_test, y_test: samples that nobody trains on.
    """

    x: Vectors
    y: Integers
    positions_of: Callable[[int], Integers]
    latest_of: Callable[[int], Integers]
    trained: Integers
    x_test: Vectors
    y_test: Integers
