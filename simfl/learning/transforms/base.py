"""What a transform of data is: pure, drawn from the run's streams, and free to treat training and test differently."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import PluginError, ScenarioError
from simfl.core.registration.protocol import Plugin
from simfl.core.registration.registry import Registry, modules_of
from simfl.core.rng import Streams
from simfl.learning.data.base import Dataset, Outline


class Transform(Plugin, Protocol):
    """A transform's YAML choice.

    One grey image of two pixels in one row, and its mirror image added to the training part:

    >>> from simfl.learning.transforms.images import Images
    >>> x, y = np.array([[[[1.0, 2.0]]]], dtype=np.float32), np.array([0])
    >>> data = Images(copies=("left_right",)).apply(Dataset(x, y, x, y, ("0",)), Streams(0))
    >>> data.x_train.tolist(), data.y_train.tolist(), data.x_test.tolist()
    ([[[[1.0, 2.0]]], [[[2.0, 1.0]]]], [0, 0], [[[[1.0, 2.0]]]])
    """

    @abstractmethod
    def apply(self, data: Dataset, streams: Streams) -> Dataset:
        """The data as they are learned and tested; those given stay as they are.

        Raises:
            ScenarioError: such samples cannot be transformed so.
        """

    def origins(self, samples: int) -> NDArray[np.int64] | None:
        """Of which of so many training samples each of those is made that come out, and of no other, int64 (m,); what
        all are scaled by counts as public. None = not said: nothing is known of what one sample does.
        """
        return None

    def outline(self, outline: Outline) -> Outline:
        """What it makes of the shape of one sample and the number of classes."""
        return outline


TRANSFORMS = Registry[Transform](
    "transform",
    promises=("origins",),
    protocol=Transform,
    modules=modules_of("simfl.learning.transforms", images="colours images rotation"),
)


def origins_of(transform: Transform, before: Dataset, after: Dataset) -> NDArray[np.int64]:
    """Of which sample of the data each training sample is, as a transform says; where it does not, nobody asks.

    Raises:
        PluginError: a transform says it of more or fewer samples than it gives.
    """
    here, origins = len(after.y_train), transform.origins(len(before.y_train))
    if origins is not None and len(origins) != here:
        raise PluginError(transform, f"gives {here} samples, and origins speaks of {len(origins)}")
    return np.arange(here) if origins is None else origins


def images_of(data: Dataset, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Training and test images, (n, channels, height, width).

    Raises:
        ScenarioError: samples are no images.
    """
    if len(data.shape) != 3:
        raise ScenarioError("", f"{name} takes images, not samples of shape {list(data.shape)}")
    return data.x_train.astype(np.float32, copy=False), data.x_test.astype(np.float32, copy=False)


def grey_levels(data: Dataset, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Training and test images of one channel, (n, height, width), scaled to 0 ... 1 by the training part's range.

    Raises:
        ScenarioError: samples are no images of one channel.
    """
    if len(data.shape) != 3 or data.shape[0] != 1:
        raise ScenarioError("", f"{name} takes images of one channel, not samples of shape {list(data.shape)}")
    low, high = float(data.x_train.min()), float(data.x_train.max())
    scale = 1 / (high - low or 1.0)
    train, test = (((x[:, 0] - low) * scale).astype(np.float32) for x in (data.x_train, data.x_test))
    return train, test


def normalise(train: NDArray[np.float32], test: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Images (n, channels, height, width), each channel with mean 0 and variance 1 in the training part."""
    mean = train.mean(axis=(0, 2, 3), dtype=np.float64)
    deviation = train.std(axis=(0, 2, 3), dtype=np.float64)
    shift = mean.astype(np.float32)[:, None, None]
    factor = (1 / np.where(deviation > 0, deviation, 1)).astype(np.float32)[:, None, None]
    return (train - shift) * factor, (test - shift) * factor


@TRANSFORMS("none")
@dataclass(frozen=True)
class Unchanged(Transform):
    """Data as they are."""

    def origins(self, samples: int) -> NDArray[np.int64]:
        return np.arange(samples)

    def apply(self, data: Dataset, streams: Streams) -> Dataset:
        return data
