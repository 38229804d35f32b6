"""Written-out batched training of fully connected models: the fastest by far where it applies."""

from dataclasses import dataclass
from typing import Any

from simfl.learning.backends.base import BACKENDS, Engine, Task

__all__ = ["Dense"]


@BACKENDS("dense")
@dataclass(frozen=True)
class Dense:
    """Many clients as one batched matrix product; models of linear layers with ReLU between them."""

    def supports(self, module: Any) -> str | None:
        from torch import nn

        layers = list(module) if isinstance(module, nn.Sequential) else []
        while layers and isinstance(layers[0], nn.Flatten):
            layers.pop(0)
        linear = layers[::2]
        fits = all(isinstance(layer, nn.Linear) and layer.bias is not None for layer in linear)
        if len(layers) % 2 == 1 and fits and all(isinstance(layer, nn.ReLU) for layer in layers[1::2]):
            return None
        return "it takes models of linear layers with ReLU between them only (logistic, mlp)"

    def build(self, task: Task) -> Engine:
        from simfl.learning.backends.dense_engine import DenseEngine

        return DenseEngine(task)
