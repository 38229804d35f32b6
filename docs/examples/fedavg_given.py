"""For fedavg_by_hand.yaml: data, their division and an initial model that are given, so that nothing is drawn."""

from dataclasses import dataclass

import numpy as np

from simfl.plugins.learning import DATA, MODELS, PARTITIONS, Dataset, Split


def points(first, count):
    i = np.arange(first, first + count)
    x = np.stack([np.sin(i), np.cos(2 * i), np.sin(3 * i + 1)], axis=1).astype(np.float32)
    return x, (x[:, 0] - x[:, 1] + 0.5 * np.sin(7 * i) > 0).astype(int)


@DATA("wavy_line")
@dataclass(frozen=True)
class WavyLine:
    """Points on either side of a wavy line."""

    samples: int = 200

    def load(self, setting, streams):
        return Dataset(*points(0, self.samples), *points(1000, 200), ("below", "above"))


@PARTITIONS("given_sizes")
@dataclass(frozen=True)
class GivenSizes:
    """The samples in their order, so many for each client."""

    sizes: tuple[int, ...]

    example = {"sizes": [30, 40]}

    def split(self, data, clients, rng):
        return Split.of(np.split(np.arange(len(data.y_train)), np.cumsum(self.sizes)[:-1]))


@MODELS("from_zero")
@dataclass(frozen=True)
class FromZero:
    """One linear layer that begins with zeros."""

    def build(self, shape, classes):
        from torch import nn

        layer = nn.Linear(*shape, classes)
        layer.draw = lambda name, shape, rng: np.zeros(shape)  # the initial values
        return nn.Sequential(nn.Flatten(), layer)
