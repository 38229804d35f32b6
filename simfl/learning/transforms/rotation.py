"""Images turned by an angle that goes with their class; the test part upright."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.rng import Streams
from simfl.learning.data.base import Dataset
from simfl.learning.transforms.base import TRANSFORMS, Transform, images_of

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
