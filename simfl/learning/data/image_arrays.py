"""From stored arrays to samples: checks, scaling, and whose each sample is."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.types import Integers, Vectors

CHANNELS = (1, 2, 3, 4)
"""How many channels an image may have where nobody says which axis they are."""

Layout = Annotated[
    Literal["first", "last"] | None,
    Field(
        description="where images have their axis of channels; null = where its length is 1 to 4, if only one end is"
    ),
]

REGRESSION = "numbers to predict are regression (csv: regression: true, and learning.loss: mse), no classes"


def broken(what: object, why: str) -> ScenarioError:
    """The error for a data file that is not what it should be."""
    return ScenarioError("", f"{what}: {why}")


def check_labels(labels: NDArray[np.generic], classes: int, samples: int, what: object) -> Integers:
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


def channel_axis(shape: tuple[int, ...], channels: str | None, what: object) -> int:
    """The axis of channels, 1 or 3, of images of a shape (n, a, b, c).

    Raises:
        ScenarioError: both ends may be it, or none, and nobody says which.
    """
    if channels is not None:
        return 1 if channels == "first" else 3
    possible = [axis for axis in (1, 3) if shape[axis] in CHANNELS]
    if len(possible) != 1:
        where = "first or last" if possible else f"nowhere ({CHANNELS[0]} to {CHANNELS[-1]} are usual)"
        why = f"samples of shape {tuple(shape[1:])} may have their channels {where}"
        raise ScenarioError("", f"{what}: {why}; write channels: first or channels: last")
    return possible[0]


def channels_last(images: NDArray[Any], channels: str | None, what: object) -> NDArray[Any]:
    """Images (n, height, width[, channels]) of those that may have their channels in front.

    Raises:
        ScenarioError: it is not clear where they are.
    """
    first = images.ndim == 4 and channel_axis(images.shape, channels, what) == 1
    return np.moveaxis(images, 1, 3) if first else images


def check_channels(samples: NDArray[np.generic], channels: str | None, what: object) -> None:
    """Refuses a place of channels for samples without an axis of them.

    Raises:
        ScenarioError: they have none.
    """
    if channels is not None and samples.ndim != 4:
        why = f"samples of shape {samples.shape[1:]} have no axis of channels"
        raise ScenarioError("", f"{what}: {why}; leave channels: {channels} out")


def class_labels(labels: NDArray[np.generic], what: object) -> NDArray[np.generic]:
    """Labels (n,) of those in one column or as whole decimals.

    Raises:
        ScenarioError: there are several a sample, or decimals.
    """
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2:
        raise broken(what, f"is {labels.dtype} of shape {labels.shape}; one label a sample is needed, (n,) or (n, 1)")
    if labels.dtype.kind == "f":
        values = labels.astype(np.float64)
        if (wrong := ~np.isfinite(values) | (values != np.round(values))).any():
            raise broken(what, f"label {labels[wrong][0]} in row {int(wrong.argmax()) + 1} is no class; {REGRESSION}")
        return values.astype(np.int64)
    return labels.astype(np.uint8) if labels.dtype.kind == "b" else labels


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


def _scale_channels(images: NDArray[np.generic], mean: NDArray[np.generic], scale: NDArray[np.generic]) -> Vectors:
    out = np.empty((len(images), images.shape[3], *images.shape[1:3]), dtype=np.float32)
    for channel, (shift, factor) in enumerate(zip(mean, scale, strict=True)):
        np.subtract(images[..., channel], np.float32(shift), out=out[:, channel], dtype=np.float32)
        out[:, channel] *= np.float32(factor)
    return out


def standardise(train: NDArray[np.number], test: NDArray[np.number]) -> tuple[Vectors, Vectors]:
    """Features (n, columns), shifted and scaled so that every training column has mean 0 and variance 1.

    A column that is constant in the training part becomes 0 there.
    """
    mean = train.mean(axis=0, dtype=np.float64)
    deviation = train.std(axis=0, dtype=np.float64)
    scale = 1 / np.where(deviation > 0, deviation, 1)
    return ((train - mean) * scale).astype(np.float32), ((test - mean) * scale).astype(np.float32)


def unit_rows(x: NDArray[np.number]) -> Vectors:
    """Features (n, columns) of 0 or more, columns scaled to at most 1, then rows to Euclidean norm 1.

    Reference: Chaudhuri, Monteleoni and Sarwate, "Differentially private empirical risk minimization", JMLR 2011,
    section 5.1.
    """
    most = x.max(axis=0)
    scaled = x / np.where(most > 0, most, 1)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return (scaled / np.where(norms > 0, norms, 1)).astype(np.float32)


def check_tokens(parts: Sequence[NDArray[np.generic]], classes: int, what: object) -> None:
    """Compares samples with the number of classes, which are the tokens that may come next.

    Raises:
        ScenarioError: they are no lists of whole numbers from 0 to ``classes`` - 1.
    """
    for part in parts:
        if part.ndim != 2 or part.dtype.kind not in "iu":
            raise broken(what, f"tokens are lists of whole numbers (n, length), not {part.dtype} of shape {part.shape}")
        if part.size and not (0 <= part.min() and part.max() < classes):
            raise broken(what, f"tokens reach from {part.min()} to {part.max()}, not from 0 to {classes - 1}")


def check_ids(ids: NDArray[np.generic], samples: int, what: object) -> None:
    """Compares the clients of samples, whole numbers or texts, with their number.

    Raises:
        ScenarioError: they are something else, or not one for each of the samples.
    """
    if ids.dtype.kind not in "iuU":
        raise broken(what, f"is {ids.dtype}; clients are whole numbers or texts")
    if ids.shape != (samples,):
        raise broken(what, f"has the shape {ids.shape} for {samples} samples")


def cut_by_client(
    ids: NDArray[np.generic] | None, samples: int, test_fraction: float, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Positions for training and test, both sorted: the same share of each client's samples, drawn.

    A client keeps one sample at least for training. Where samples are nobody's (``ids`` None), they are cut as one
    client's would be.
    """
    code = np.zeros(samples, dtype=np.int64) if ids is None else np.unique(ids, return_inverse=True)[1]
    order = rng.permutation(samples)
    order = order[np.argsort(code[order], kind="stable")]
    sizes = np.bincount(code)
    rank = np.arange(samples) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    test_sizes = np.minimum(np.round(sizes * test_fraction), sizes - 1)
    test = rank < np.repeat(test_sizes, sizes)
    return np.sort(order[~test]), np.sort(order[test])
