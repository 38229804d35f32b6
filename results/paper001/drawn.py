"""A split and an initial model that do not come from the run's seed: which of them makes a run of Table 3 a good one?

docs/papers/paper001.md names the sweep that uses this plugin file.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from torch import nn

from simfl.plugins import Streams
from simfl.plugins.learning import MODELS, PARTITIONS, Dataset, Iid, MultiroundCifar, Split

Draw = Annotated[int, Field(ge=0, description="the seed whose draw it is")]


@PARTITIONS("iid_of")
@dataclass(frozen=True)
class IidOf(Iid):
    """The split that ``iid`` has in a run with another seed."""

    draw: Draw = 0

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        return super().split(data, clients, Streams(self.draw)("partition"))


@MODELS("multiround_cifar_of")
@dataclass(frozen=True)
class MultiroundCifarOf(MultiroundCifar):
    """``multiround_cifar`` with the initial weights that it has in a run with another seed."""

    draw: Draw = 0

    def build(self, shape: tuple[int, ...], classes: int) -> Any:
        module, rng = super().build(shape, classes), Streams(self.draw)("model")
        for layer in module:
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                bound = layer.weight[0].numel() ** -0.5
                layer.draw = lambda name, shape, _, bound=bound: rng.uniform(-bound, bound, shape)
        return module
