"""From stored pixels to training images."""

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import ScenarioError


def broken(what: object, why: str) -> ScenarioError:
    """The error for a data file that is not what it should be."""
    return ScenarioError("", f"{what}: {why}")


def check_labels(labels: NDArray[np.generic], classes: int, samples: int, what: object) -> NDArray[np.int64]:
    """The labels as int64.

    Raises:
        ScenarioError: not one whole label in 0 .. classes - 1 for each of the samples.
    """
    if labels.shape != (samples,):
        raise broken(what, f"{samples} samples but labels of shape {labels.shape}")
    if labels.dtype.kind not in "iu":
        raise broken(what, f"labels are {labels.dtype}, not integers")
    if samples and not (0 <= labels.min() and labels.max() < classes):
        raise broken(what, f"labels reach from {labels.min()} to {labels.max()}, not from 0 to {classes - 1}")
    return labels.astype(np.int64)


def image_arrays(
    x_train: NDArray[np.generic],
    y_train: NDArray[np.generic],
    x_test: NDArray[np.generic],
    y_test: NDArray[np.generic],
    classes: int,
    what: object,
) -> dict[str, NDArray[np.generic]]:
    """Images (n, height, width) or (n, height, width, channels) of any numeric type, ready for training.

    Every channel is shifted and scaled so that the training part has mean 0 and variance 1; the result has
    shape (n, channels, height, width).

    Raises:
        ScenarioError: shapes or labels do not fit together.
    """
    if x_train.ndim not in (3, 4) or x_train.shape[1:] != x_test.shape[1:]:
        raise broken(
            what, f"images of shapes {x_train.shape} and {x_test.shape}; (n, height, width[, channels]) is needed"
        )
    if not len(x_train) or not len(x_test):
        raise broken(what, "there are no training or no test samples")
    if not x_train[0].size:
        raise broken(what, f"images of shape {x_train.shape[1:]} have no pixels")
    y_train = check_labels(y_train, classes, len(x_train), what)
    y_test = check_labels(y_test, classes, len(x_test), what)
    if x_train.ndim == 3:
        x_train, x_test = x_train[..., None], x_test[..., None]
    mean = x_train.mean(axis=(0, 1, 2), dtype=np.float64)
    deviation = x_train.std(axis=(0, 1, 2), dtype=np.float64)
    scale = 1 / np.where(deviation > 0, deviation, 1)
    return {
        "x_train": _scale_channels(x_train, mean, scale),
        "y_train": y_train,
        "x_test": _scale_channels(x_test, mean, scale),
        "y_test": y_test,
    }


def _scale_channels(
    images: NDArray[np.generic], mean: NDArray[np.generic], scale: NDArray[np.generic]
) -> NDArray[np.float32]:
    out = np.empty((len(images), images.shape[3], *images.shape[1:3]), dtype=np.float32)
    for channel, (shift, factor) in enumerate(zip(mean, scale, strict=True)):
        np.subtract(images[..., channel], np.float32(shift), out=out[:, channel], dtype=np.float32)
        out[:, channel] *= np.float32(factor)
    return out
