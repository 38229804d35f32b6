"""Images normalised by given numbers and mirrored; in a colour, or turned by an angle, that goes with their class.

Where class and colour or angle go together in training, the test part has another colour, none, or images upright.
"""

from colorsys import hsv_to_rgb
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Integers, Vectors
from simfl.learning.data.base import Dataset, Outline
from simfl.learning.transforms.base import TRANSFORMS, Transform, grey_levels, images_of, normalise

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


@TRANSFORMS("colours")
@dataclass(frozen=True)
class Colours(Transform):
    """Images of one channel become red, green and blue: the grey level times a hue of their class.

    The hues of c classes are equally far apart. A model may read the hue instead of the shape; ``noise`` gives it a
    reason not to, and the test part shows what it has read. The idea is that of coloured MNIST (Arjovsky et al. 2019),
    which has two classes. Mugunthan (MIT thesis, 2022, section 3.5.3 and appendix B.2) has ten, and names no noise for
    them.
    """

    noise: Annotated[
        float, Field(ge=0, le=1, description="share of the training images in the hue of a class drawn at random")
    ] = 0.25
    test: Annotated[
        Literal["same", "permuted", "white"],
        Field(description="hues of the test part: the class's own; those of other classes; none"),
    ] = "permuted"

    def origins(self, samples: int) -> NDArray[np.int64]:
        return np.arange(samples)

    def apply(self, data: Dataset, streams: Streams) -> Dataset:
        train, test = grey_levels(data, self.name)
        rng, classes = streams("colours"), data.classes
        hues = np.array([hsv_to_rgb(i / classes, 1.0, 1.0) for i in range(classes)], dtype=np.float32)
        worn = data.y_train.copy()
        strange = rng.random(len(worn)) < self.noise
        worn[strange] = rng.integers(classes, size=int(strange.sum()))
        order = rng.permutation(classes)
        moved = np.empty_like(order)
        moved[order] = np.roll(order, -1)  # leaves no class where it is: one cycle through all of them in random order
        seen = {"same": hues, "permuted": hues[moved], "white": np.ones_like(hues)}[self.test]
        x_train, x_test = normalise(_colour(train, hues[worn]), _colour(test, seen[data.y_test]))
        return replace(data, x_train=x_train, x_test=x_test)

    def outline(self, outline: Outline) -> Outline:
        return Outline((3, *outline.shape[1:]), outline.classes)


def _colour(grey: NDArray[np.float32], colours: NDArray[np.float32]) -> NDArray[np.float32]:
    return grey[:, None] * colours[:, :, None, None]


AT_ONCE = 1000
"""Images that are turned at once."""


@TRANSFORMS("rotation")
@dataclass(frozen=True)
class Rotation(Transform):
    """Training images are turned by an angle of their class; the test part is upright, or turned alike.

    Class i of c has the angle ``step_degrees`` * (1 + i // 2), to the left for even i and to the right for odd i: for
    ten classes and 10 degrees, 10 to 50 degrees either way. ``fixed`` turns by just that angle; ``range`` by an angle
    drawn for each image between minus and plus that angle (torchvision's RandomRotation), which is what fits the
    accuracies of Mugunthan (MIT thesis, 2022, Table 3.2). Pixels are interpolated bilinearly; what comes from outside
    the image is as the darkest pixel of all training images, so that nothing is known of what one of them does.
    """

    angles: Annotated[
        Literal["fixed", "range"], Field(description="each class at its angle, or anywhere between minus and plus it")
    ] = "range"
    step_degrees: Annotated[float, Field(gt=0, le=180, description="angle between neighbouring classes")] = 10.0
    test: Annotated[Literal["upright", "same"], Field(description="the test part upright, or turned alike")] = "upright"

    def apply(self, data: Dataset, streams: Streams) -> Dataset:
        train, x_test = images_of(data, self.name)
        dark = float(train.min())
        x_train = _rotate(train, self._angles(data.y_train, streams("rotation", 0)), dark)
        if self.test == "same":
            x_test = _rotate(x_test, self._angles(data.y_test, streams("rotation", 1)), dark)
        return replace(data, x_train=x_train, x_test=x_test)

    def _angles(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Degrees to the left, (n,)."""
        angles = self.step_degrees * (1 + labels // 2) * np.where(labels % 2, -1, 1)
        return angles * rng.uniform(-1, 1, len(labels)) if self.angles == "range" else angles.astype(float)


def _rotate(images: NDArray[np.float32], degrees: NDArray[np.float64], fill: float) -> NDArray[np.float32]:
    """Images (n, channels, height, width), each turned about its centre."""
    from scipy.ndimage import map_coordinates

    height, width = images.shape[2:]
    rows, columns = np.meshgrid(np.arange(height) - (height - 1) / 2, np.arange(width) - (width - 1) / 2, indexing="ij")
    turned = np.empty_like(images)
    for first in range(0, len(images), AT_ONCE):
        now = slice(first, first + AT_ONCE)
        angle = np.deg2rad(degrees[now])[:, None, None]
        which = np.broadcast_to(np.arange(len(angle))[:, None, None], (len(angle), height, width))
        down = np.cos(angle) * rows + np.sin(angle) * columns + (height - 1) / 2
        right = np.cos(angle) * columns - np.sin(angle) * rows + (width - 1) / 2
        for channel in range(images.shape[1]):
            map_coordinates(images[now, channel], [which, down, right], output=turned[now, channel], order=1, cval=fill)
    return turned
