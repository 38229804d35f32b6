"""Images normalised by given numbers, and mirrored copies of the training images."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Integers, Vectors
from simfl.learning.data.base import Dataset
from simfl.learning.transforms.base import TRANSFORMS, Transform, images_of

AXES = {"left_right": 3, "upside_down": 2}
"""What a copy is mirrored along, of images (n, channels, height, width)."""


@TRANSFORMS("images")
@dataclass(frozen=True)
class Images(Transform):
    """Channels normalised by given means and deviations, and mirrored copies added to the training images.

    Means and deviations are of pixels between 0 (the darkest of a channel's training pixels) and 1 (its brightest).
    Without them images stay as they were scaled: mean 0 and variance 1 over the training part. n training images and
    c copies make n * (c + 1) samples, the images as they are first; the test part has no copies. Clients get copies
    like any other samples, so that two clients may hold an image and its copy.
    """

    mean: Annotated[tuple[float, ...] | None, Field(description="of each channel, between 0 and 1")] = None
    deviation: Annotated[
        tuple[Annotated[float, Field(gt=0)], ...] | None, Field(description="of each channel, above 0")
    ] = None
    copies: Annotated[
        tuple[Literal["left_right", "upside_down"], ...], Field(description="mirrored training images to add")
    ] = ()

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if (self.mean is None) != (self.deviation is None):
            key, other = ("deviation", "mean") if self.deviation is None else ("mean", "deviation")
            return [(key, f"is missing beside {other}: give both, or neither")]
        return []

    def origins(self, samples: int) -> Integers:
        return np.tile(np.arange(samples), 1 + len(self.copies))

    def apply(self, data: Dataset, streams: Streams) -> Dataset:
        train, test = images_of(data, self.name)
        if self.mean is not None and self.deviation is not None:
            train, test = _normalise(train, test, self._channels("mean", data), self._channels("deviation", data))
        if not self.copies:
            return replace(data, x_train=train, x_test=test)
        n, times = len(train), 1 + len(self.copies)
        every = np.empty((times * n, *data.shape), dtype=np.float32)
        every[:n] = train
        for i, copy in enumerate(self.copies, start=1):
            every[i * n : (i + 1) * n] = np.flip(train, AXES[copy])
        columns = {name: np.tile(values, times) for name, values in data.columns.items()}
        labels = np.tile(data.y_train, times)
        return replace(data, x_train=every, y_train=labels, x_test=test, columns=columns)

    def _channels(self, key: str, data: Dataset) -> Vectors:
        """The numbers under this key, one for each channel of the data."""
        numbers, channels = getattr(self, key), data.shape[0]
        if len(numbers) != channels:
            raise ScenarioError(key, f"has {len(numbers)} numbers, and the images have {channels} channels")
        return np.array(numbers, dtype=np.float32)[:, None, None]


def _normalise(train: Vectors, test: Vectors, mean: Vectors, deviation: Vectors) -> tuple[Vectors, Vectors]:
    low, high = (bound(train, axis=(0, 2, 3), keepdims=True)[0] for bound in (np.min, np.max))
    factor = 1 / (np.where(high > low, high - low, 1).astype(np.float32) * deviation)
    shift = low * factor + mean / deviation
    return train * factor - shift, test * factor - shift
