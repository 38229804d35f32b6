"""What attacks on a trained model work with: what an attacker has, and what only the scorer knows."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.local import LocalTraining
from simfl.variant import Parameter

__all__ = ["Bench", "Vault"]


class Bench(NamedTuple):
    """What an attacker has besides what it saw: it takes part, so that it knows the code.

    Attributes:
        module: the model, a torch module of its own, on the processor.
        parameters: where each of its parameters lies in the flat vector.
        shape: of one sample.
        classes: their number.
        low, high: the smallest and largest value of a sample; of images, of each channel, (channels, 1, 1).
        local: the settings of local training.
    """

    module: Any
    parameters: Sequence[Parameter]
    shape: tuple[int, ...]
    classes: int
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    local: LocalTraining

    @property
    def trained(self) -> Sequence[Parameter]:
        """The parameters that gradients move; running statistics stand behind them."""
        return [parameter for parameter in self.parameters if not parameter.statistic]


class Vault(NamedTuple):
    """What only the scorer knows.

    Attributes:
        x, y: all training samples, (n, *shape) and int64 (n,).
        held: the positions of a client's training samples.
        x_test, y_test: samples that nobody trains on.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    held: Callable[[int], NDArray[np.int64]]
    x_test: NDArray[np.float32]
    y_test: NDArray[np.int64]
