"""A user's own data set."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.data.image_arrays import Layout, channels_last, cut_by_client, standardise
from simfl.learning.objects.choice import PythonObject
from simfl.learning.objects.samples import DetailedData, GivenData

BLOCK = 1024
"""Images that are scaled at once, in float64."""


@DATA("python")
@dataclass(frozen=True)
class PythonData(PythonObject):
    """Your own data set, passed from Python or named as module:attribute.

    A pair (X, y) of arrays or tensors, a torch, torchvision or Hugging Face data set, two of them as (train, test), a
    list or mapping of one a client, or a function without arguments that returns one.
    """

    test_fraction: Annotated[
        float, Field(gt=0, lt=1, description="share of the samples kept for the test, where there is no test part")
    ] = 0.2
    scale: Annotated[
        bool, Field(description="mean 0 and variance 1 of the training part, of each channel or column")
    ] = True
    channels: Layout = field(default=None, metadata=SINCE_LATER)

    key = "learning.data"
    example = {"object": "simfl.learning.objects.examples:samples"}

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        from simfl.learning.objects.fingerprint import fingerprint

        handle = self.handle(setting)
        if fingerprint(handle.value) != handle.fingerprint:
            raise ScenarioError("", f"{self.object} has changed since it was passed; pass it again")
        return self.dataset(handle.value, streams)

    def dataset(self, arrays: GivenData, streams: Streams) -> Dataset:
        """The samples, split where there is no test part, and scaled.

        Raises:
            ScenarioError: no sample is left for training or test, or they cannot be scaled.
        """
        x, y, columns, test_columns = arrays.x, arrays.y, dict(arrays.columns), {}
        if arrays.test is not None:
            x_test, y_test = arrays.test
            test_columns = dict(arrays.test_columns) if isinstance(arrays, DetailedData) else {}
        else:
            train, test = self._cut(arrays, streams)
            x_test, y_test = x[test], y[test]
            if isinstance(arrays, DetailedData):
                test_columns = {key: values[test] for key, values in columns.items()}
            x, y, columns = x[train], y[train], {key: values[train] for key, values in columns.items()}
        x, x_test = (self._channels_first(part, arrays) for part in (x, x_test))
        if not self.scale:
            x, x_test = (np.ascontiguousarray(part, dtype=np.float32) for part in (x, x_test))
        elif x.ndim == 2:
            x, x_test = standardise(x, x_test)
        elif x.ndim == 4:
            x, x_test = _scaled_images((x, x_test))
        else:
            why = f"{self.object} has samples of shape {list(x.shape[1:])}, neither images nor features"
            raise ScenarioError("scale", f"{why}; the valid value is false")
        unused = arrays.unused if isinstance(arrays, DetailedData) else ()
        notes = (f"{self.object}: no samples or labels of a training or test part: {', '.join(unused)}",) * bool(unused)
        return Dataset(x, y, x_test, y_test, arrays.label_names, columns, test_columns, notes)

    def _cut(self, arrays: GivenData, streams: Streams) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions for training and test."""
        count = len(arrays.y)
        if isinstance(arrays, DetailedData) and arrays.by_client:
            train, test = cut_by_client(arrays.columns["client"], count, self.test_fraction, streams("split"))
        else:
            order, cut = streams("split").permutation(count), round(count * self.test_fraction)
            train, test = order[cut:], order[:cut]
        if not (len(train) and len(test)):
            short = "training" if len(test) else "test"
            raise ScenarioError("test_fraction", f"of {count:,} samples {self.test_fraction:g} leaves none for {short}")
        return train, test

    def _channels_first(self, x: NDArray[np.number], arrays: GivenData) -> NDArray[np.number]:
        """Images with their channels in front, also where only ``channels`` says which they are."""
        if isinstance(arrays, DetailedData) and arrays.unclear:
            return np.moveaxis(channels_last(x, self.channels, self.object), 3, 1)
        if self.channels is not None:
            why = f"samples of shape {list(x.shape[1:])} (with channels in front) are clear"
            raise ScenarioError("channels", f"{self.object}: {why}; leave channels out")
        return x


def _scaled_images(parts: Sequence[NDArray[np.number]]) -> list[NDArray[np.float32]]:
    """Images (n, channels, height, width), every channel with mean 0 and variance 1 in the first part."""
    scaled = [np.empty(part.shape, dtype=np.float32) for part in parts]
    for channel in range(parts[0].shape[1]):
        reference = parts[0][:, channel].astype(np.float64)
        mean, deviation = reference.mean(), reference.std() or 1.0
        for images, out in zip(parts, scaled, strict=True):
            for first in range(0, len(images), BLOCK):
                block = images[first : first + BLOCK, channel].astype(np.float64)
                out[first : first + BLOCK, channel] = (block - mean) / deviation
    return scaled
