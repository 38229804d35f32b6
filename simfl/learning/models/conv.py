"""Convolutional models for images."""

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.learning.models.base import MODELS, Model, parameter_count

if TYPE_CHECKING:
    import torch

VGG11 = ((64, True), (128, True), (256, False), (256, True), (512, False), (512, True), (512, False), (512, True))
"""Channels after each convolution, and whether it is pooled."""


@MODELS("cnn_mnist")
@dataclass(frozen=True)
class CnnMnist(Model):
    """Two 5 x 5 convolutions (32, 64 channels), each 2 x 2 max-pooled, and 512 ReLU units.

    1,663,370 parameters for 28 x 28 x 1 images in 10 classes. Reference: McMahan et al. 2017, section 3.
    """

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        from torch import nn

        channels, pixels = pooled_size(shape, 4, self.name, 64, (2, 2))
        return nn.Sequential(
            *_block(channels, 32, 5, 2),
            *_block(32, 64, 5, 2),
            nn.Flatten(),
            nn.Linear(pixels, 512),
            nn.ReLU(),
            nn.Linear(512, classes),
        )

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        channels, pixels = pooled_size(shape, 4, self.name, 64, (2, 2))
        return parameter_count((channels, 32, 64), (pixels, 512, classes))


@MODELS("lenet5")
@dataclass(frozen=True)
class LeNet5(Model):
    """Two 5 x 5 convolutions (6, 16 channels), each 2 x 2 max-pooled, and layers of 120 and 84 ReLU units.

    62,006 parameters for 32 x 32 x 3 images in 10 classes; images of 28 x 28 are padded to 32 x 32.
    Reference: LeCun et al. 1998, with max pooling and ReLU.
    """

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        from torch import nn

        padding = self._padding(shape)
        channels, pixels = pooled_size(shape, 16, self.name, 16, (padding, 0))
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
        channels, pixels = pooled_size(shape, 16, self.name, 16, (self._padding(shape), 0))
        return parameter_count((channels, 6, 16), (pixels, 120, 84, classes))

    @staticmethod
    def _padding(shape: tuple[int, ...]) -> int:
        return 2 if shape[1:] == (28, 28) else 0


@MODELS("vgg11")
@dataclass(frozen=True)
class Vgg11(Model):
    """VGG-11 for 32 x 32 images: eight 3 x 3 convolutions, five poolings, one linear layer; no normalisation.

    9,225,610 parameters for 10 classes of colour images. Reference: Simonyan and Zisserman 2015, configuration A,
    with one linear layer in place of three, and He et al.'s initial weights, without which so deep a plain
    network does not start to learn.
    """

    width: Annotated[float, Field(gt=0, le=1, description="share of each convolution's channels, 1 at least")] = 1.0

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        from torch import nn

        widths, pixels = self._flat(shape)
        layers: list[Any] = []
        for (inputs, outputs), (_, pooled) in zip(pairwise(widths), VGG11, strict=True):
            conv = nn.Conv2d(inputs, outputs, 3, padding=1)
            conv.gain = 2**0.5  # type: ignore[assignment]  # torch types a module's attributes as its parts
            layers += [conv, *([nn.MaxPool2d(2)] if pooled else []), nn.ReLU()]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(pixels, classes))

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        widths, pixels = self._flat(shape)
        return parameter_count(widths, (pixels, classes), 3)

    def _flat(self, shape: tuple[int, ...]) -> tuple[list[int], int]:
        """Channels before and after each convolution, and inputs of the linear layer."""
        channels, height, width = image_shape(shape, 32, self.name)
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


def pooled_size(
    shape: tuple[int, ...], smallest: int, name: str, outputs: int, paddings: tuple[int, int] = (0, 0)
) -> tuple[int, int]:
    """Channels of a sample, and what two 5 x 5 convolutions, each pooled 2 x 2, make of it in ``outputs`` channels.

    Raises:
        ScenarioError: as :func:`image_shape`.
    """
    channels, *sides = image_shape(shape, smallest, name)
    for padding in paddings:
        sides = [(side + 2 * padding - 4) // 2 for side in sides]
    return channels, outputs * prod(sides)


def _block(inputs: int, outputs: int, kernel: int, padding: int) -> list[Any]:
    """Convolution, pooling, ReLU: equal to ReLU before pooling, and cheaper."""
    from torch import nn

    return [nn.Conv2d(inputs, outputs, kernel, padding=padding), nn.MaxPool2d(2), nn.ReLU()]


Dropout = Annotated[float, Field(ge=0, lt=1, description="share of the units that each dropout layer drops")]


@MODELS("multiround_cifar")
@dataclass(frozen=True)
class MultiroundCifar(Model):
    """Convolutions of 6 and 16 channels, layers of 120 and 84 units, and dropout after each of their ReLUs.

    62,006 parameters for 32 x 32 x 3 images in 10 classes, as lenet5. The public code of arXiv 2106.03328, CNNCifar3.
    """

    dropout: Dropout = 0.2

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        from torch import nn

        channels, pixels = pooled_size(shape, 16, self.name, 16)

        def active() -> list[nn.Module]:
            return [nn.ReLU(), nn.Dropout(self.dropout)]

        return nn.Sequential(
            *[nn.Conv2d(channels, 6, 5), *active(), nn.MaxPool2d(2)],
            *[nn.Conv2d(6, 16, 5), *active(), nn.MaxPool2d(2)],
            nn.Flatten(),
            *[nn.Linear(pixels, 120), *active()],
            *[nn.Linear(120, 84), *active()],
            nn.Linear(84, classes),
        )

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        channels, pixels = pooled_size(shape, 16, self.name, 16)
        return parameter_count((channels, 6, 16), (pixels, 120, 84, classes))


@MODELS("multiround_mnist")
@dataclass(frozen=True)
class MultiroundMnist(Model):
    """Convolutions of 32 and 64 channels and one linear layer, with a ReLU on the logits.

    62,346 parameters for 28 x 28 x 1 images in 10 classes. The public code of arXiv 2106.03328: with dropout CNNMnist3,
    whose first pooling takes means; without it CNNMnist2, whose poolings both take maxima.
    """

    dropout: Annotated[
        bool, Field(description="a fifth of the second convolution's channels and half of the last layer's inputs")
    ] = True

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        from torch import nn

        channels, pixels = pooled_size(shape, 16, self.name, 64)
        pool = nn.AvgPool2d(2) if self.dropout else nn.MaxPool2d(2)
        drop = [nn.Dropout2d(0.2)] if self.dropout else []
        return nn.Sequential(
            *[nn.Conv2d(channels, 32, 5), pool, nn.ReLU()],
            *[nn.Conv2d(32, 64, 5), *drop, nn.MaxPool2d(2), nn.ReLU()],
            nn.Flatten(),
            *([nn.Dropout(0.5)] if self.dropout else []),
            *[nn.Linear(pixels, classes), nn.ReLU()],
        )

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        channels, pixels = pooled_size(shape, 16, self.name, 64)
        return parameter_count((channels, 32, 64), (pixels, classes))
