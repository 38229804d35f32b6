"""Convolutional models for images."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

from pydantic import Field

from simfl.errors import ScenarioError
from simfl.learning.models.base import MODELS

__all__ = ["CnnMnist", "LeNet5", "Vgg11", "image_shape"]

VGG11 = ((64, True), (128, True), (256, False), (256, True), (512, False), (512, True), (512, False), (512, True))
"""Channels after each convolution, and whether it is pooled."""


@MODELS("cnn_mnist")
@dataclass(frozen=True)
class CnnMnist:
    """Two 5 x 5 convolutions (32, 64 channels), each 2 x 2 max-pooled, and 512 ReLU units.

    1,663,370 parameters for 28 x 28 x 1 images in 10 classes. Reference: McMahan et al. 2017, section 3.
    """

    def build(self, shape: tuple[int, ...], classes: int) -> Any:
        from torch import nn

        channels, pixels = self._flat(shape)
        return nn.Sequential(
            *_block(channels, 32, 5, 2),
            *_block(32, 64, 5, 2),
            nn.Flatten(),
            nn.Linear(pixels, 512),
            nn.ReLU(),
            nn.Linear(512, classes),
        )

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        channels, pixels = self._flat(shape)
        return _conv(channels, 32, 5) + _conv(32, 64, 5) + _conv(pixels, 512) + _conv(512, classes)

    def _flat(self, shape: tuple[int, ...]) -> tuple[int, int]:
        channels, height, width = image_shape(shape, 4, self.name)
        return channels, 64 * (height // 4) * (width // 4)


@MODELS("lenet5")
@dataclass(frozen=True)
class LeNet5:
    """Two 5 x 5 convolutions (6, 16 channels), each 2 x 2 max-pooled, and layers of 120 and 84 ReLU units.

    62,006 parameters for 32 x 32 x 3 images in 10 classes; images of 28 x 28 are padded to 32 x 32.
    Reference: LeCun et al. 1998, with max pooling and ReLU.
    """

    def build(self, shape: tuple[int, ...], classes: int) -> Any:
        from torch import nn

        channels, padding, pixels = self._flat(shape)
        return nn.Sequential(
            *_block(channels, 6, 5, padding),
            *_block(6, 16, 5, 0),
            nn.Flatten(),
            nn.Linear(pixels, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, classes),
        )

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        channels, _, pixels = self._flat(shape)
        return _conv(channels, 6, 5) + _conv(6, 16, 5) + _conv(pixels, 120) + _conv(120, 84) + _conv(84, classes)

    def _flat(self, shape: tuple[int, ...]) -> tuple[int, int, int]:
        channels, height, width = image_shape(shape, 16, self.name)
        padding = 2 if (height, width) == (28, 28) else 0
        side = [((size + 2 * padding - 4) // 2 - 4) // 2 for size in (height, width)]
        return channels, padding, 16 * side[0] * side[1]


@MODELS("vgg11")
@dataclass(frozen=True)
class Vgg11:
    """VGG-11 for 32 x 32 images: eight 3 x 3 convolutions, five poolings, one linear layer; no normalisation.

    9,225,610 parameters for 10 classes of colour images. Reference: Simonyan and Zisserman 2015, configuration A,
    with one linear layer in place of three, and He et al.'s initial weights, without which so deep a plain
    network does not start to learn.
    """

    width: Annotated[float, Field(gt=0, le=1, description="share of each convolution's channels, 1 at least")] = 1.0

    def build(self, shape: tuple[int, ...], classes: int) -> Any:
        from torch import nn

        widths, pixels = self._flat(shape)
        layers: list[Any] = []
        for (inputs, outputs), (_, pooled) in zip(pairwise(widths), VGG11, strict=True):
            conv = nn.Conv2d(inputs, outputs, 3, padding=1)
            conv.gain = 2**0.5
            layers += [conv, *([nn.MaxPool2d(2)] if pooled else []), nn.ReLU()]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(pixels, classes))

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        widths, pixels = self._flat(shape)
        return sum(_conv(inputs, outputs, 3) for inputs, outputs in pairwise(widths)) + _conv(pixels, classes)

    def _flat(self, shape: tuple[int, ...]) -> tuple[list[int], int]:
        """Channels before and after each convolution, and inputs of the linear layer."""
        channels, height, width = image_shape(shape, 32, self.name)  # type: ignore[attr-defined]
        widths = [channels, *(max(1, round(outputs * self.width)) for outputs, _ in VGG11)]
        return widths, widths[-1] * (height // 32) * (width // 32)


def image_shape(shape: tuple[int, ...], smallest: int, name: str) -> tuple[int, int, int]:
    """Channels, height and width of a sample.

    Raises:
        ScenarioError: samples are no images, or smaller than ``smallest`` pixels.
    """
    if len(shape) != 3 or min(shape[1:]) < smallest:
        raise ScenarioError(
            "",
            f"{name} takes images of at least {smallest} x {smallest} pixels, not samples of shape {list(shape)}; "
            "mlp takes any",
        )
    return shape


def _conv(inputs: int, outputs: int, kernel: int = 1) -> int:
    """Parameters of a convolution with biases; with a kernel of 1 also of a linear layer."""
    return (kernel * kernel * inputs + 1) * outputs


def _block(inputs: int, outputs: int, kernel: int, padding: int) -> list[Any]:
    """Convolution, pooling, ReLU: equal to ReLU before pooling, and cheaper."""
    from torch import nn

    return [nn.Conv2d(inputs, outputs, kernel, padding=padding), nn.MaxPool2d(2), nn.ReLU()]
