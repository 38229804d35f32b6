"""A user's data set, split and scaled."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.learning.data.base import Dataset
from simfl.learning.data.scale import standardise
from simfl.learning.objects.samples import GivenData

BLOCK = 1024
"""Images that are scaled at once, in float64."""


def dataset(name: str, arrays: GivenData, test_fraction: float, scale: bool, streams: Streams) -> Dataset:
    """The data set that is trained on.

    Args:
        name: in messages.
        arrays: samples and labels.
        test_fraction: share of the samples that is drawn for the test, where there is no test part.
        scale: whether every channel or column gets mean 0 and variance 1 over the training part.
        streams: of the scenario.

    Raises:
        ScenarioError: no sample is left for training or test, or they cannot be scaled.
    """
    x, y, columns = arrays.x, arrays.y, dict(arrays.columns)
    if arrays.test is not None:
        x_test, y_test = arrays.test
    else:
        order = streams("split").permutation(len(y))
        cut = round(len(y) * test_fraction)
        if not 0 < cut < len(y):
            short = "test" if cut == 0 else "training"
            raise ScenarioError("test_fraction", f"of {len(y):,} samples {test_fraction:g} leaves none for {short}")
        test, train = order[:cut], order[cut:]
        x_test, y_test = x[test], y[test]
        x, y, columns = x[train], y[train], {key: values[train] for key, values in columns.items()}
    if not scale:
        x, x_test = (np.ascontiguousarray(part, dtype=np.float32) for part in (x, x_test))
    elif x.ndim == 2:
        x, x_test = standardise(x, x_test)
    elif x.ndim == 4:
        x, x_test = _scaled_images((x, x_test))
    else:
        raise ScenarioError("scale", f"{name} has samples of shape {list(x.shape[1:])}, neither images nor features; "
                            "the valid value is false")  # fmt: skip
    return Dataset(x, y, x_test, y_test, arrays.label_names, columns)


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
