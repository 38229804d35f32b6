"""Grey images in a colour that goes with their class, another one in the test part."""

from colorsys import hsv_to_rgb
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.rng import Streams
from simfl.learning.data.base import Dataset, Outline
from simfl.learning.transforms.base import TRANSFORMS, Transform, grey_levels, normalise


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
        seen = {"same": hues, "permuted": hues[_elsewhere(classes, rng)], "white": np.ones_like(hues)}[self.test]
        x_train, x_test = normalise(_colour(train, hues[worn]), _colour(test, seen[data.y_test]))
        return replace(data, x_train=x_train, x_test=x_test)

    def outline(self, outline: Outline) -> Outline:
        return Outline((3, *outline.shape[1:]), outline.classes)


def _colour(grey: NDArray[np.float32], colours: NDArray[np.float32]) -> NDArray[np.float32]:
    return grey[:, None] * colours[:, :, None, None]


def _elsewhere(classes: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A permutation that leaves no class where it is: one cycle through all of them in random order."""
    order = rng.permutation(classes)
    moved = np.empty_like(order)
    moved[order] = np.roll(order, -1)
    return moved
