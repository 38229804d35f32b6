"""Models for images: convolutional, and residual with group normalisation for averages or private batch norms."""

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.scenario_view import ScenarioView
from simfl.learning.models.base import MODELS, Model, parameter_count

if TYPE_CHECKING:
    import torch

VGG11 = ((64, True), (128, True), (256, False), (256, True), (512, False), (512, True), (512, False), (512, True))
"""Channels after each convolution, and whether it is pooled."""

FOLDED = 6
"""Convolutions to so many channels at most gain by :class:`simfl.learning.models.convolutions.Conv2d`."""


class _TwoConvolutions(Model):
    """Two 5 x 5 convolutions, each pooled 2 x 2, and linear layers of so many ReLU units before the last one."""

    channels: ClassVar[tuple[int, int]]
    units: ClassVar[tuple[int, ...]]
    smallest: ClassVar[int] = 16

    @staticmethod
    def paddings(shape: tuple[int, ...]) -> tuple[int, int]:
        """Of the convolutions."""
        return 0, 0

    def sizes(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Channels of a sample, and inputs of the first linear layer.

        Raises:
            ScenarioError: as :func:`image_shape`.
        """
        channels, *sides = image_shape(shape, self.smallest, self.name)
        for padding in self.paddings(shape):
            sides = [(side + 2 * padding - 4) // 2 for side in sides]
        return channels, self.channels[-1] * prod(sides)

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        from torch import nn

        from simfl.learning.models.convolutions import Conv2d

        channels, pixels = self.sizes(shape)
        layers: list[nn.Module] = []
        for (inputs, outputs), padding in zip(pairwise((channels, *self.channels)), self.paddings(shape)):
            convolution = Conv2d if outputs <= FOLDED else nn.Conv2d
            # pooling before ReLU: equal to ReLU before pooling, and cheaper
            layers += [convolution(inputs, outputs, 5, padding=padding), nn.MaxPool2d(2), nn.ReLU()]
        layers.append(nn.Flatten())
        for inputs, outputs in pairwise((pixels, *self.units)):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear((pixels, *self.units)[-1], classes))

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        channels, pixels = self.sizes(shape)
        return parameter_count((channels, *self.channels), (pixels, *self.units, classes))


@MODELS("cnn_mnist")
@dataclass(frozen=True)
class CnnMnist(_TwoConvolutions):
    """Two 5 x 5 convolutions (32, 64 channels), each 2 x 2 max-pooled, and 512 ReLU units.

    1,663,370 parameters for 28 x 28 x 1 images in 10 classes. Reference: McMahan et al. 2017, section 3.
    """

    channels = (32, 64)
    units = (512,)
    smallest = 4

    @staticmethod
    def paddings(shape: tuple[int, ...]) -> tuple[int, int]:
        return 2, 2


@MODELS("lenet5")
@dataclass(frozen=True)
class LeNet5(_TwoConvolutions):
    """Two 5 x 5 convolutions (6, 16 channels), each 2 x 2 max-pooled, and layers of 120 and 84 ReLU units.

    62,006 parameters for 32 x 32 x 3 images in 10 classes; images of 28 x 28 are padded to 32 x 32.
    Reference: LeCun et al. 1998, with max pooling and ReLU.
    """

    channels = (6, 16)
    units = (120, 84)

    @staticmethod
    def paddings(shape: tuple[int, ...]) -> tuple[int, int]:
        return (2 if shape[1:] == (28, 28) else 0), 0


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


Dropout = Annotated[float, Field(ge=0, lt=1, description="share of the units that each dropout layer drops")]


@MODELS("multiround_cifar")
@dataclass(frozen=True)
class MultiroundCifar(_TwoConvolutions):
    """Convolutions of 6 and 16 channels, layers of 120 and 84 units, and dropout after each of their ReLUs.

    62,006 parameters for 32 x 32 x 3 images in 10 classes, as lenet5. The public code of arXiv 2106.03328, CNNCifar3.
    """

    dropout: Dropout = 0.2

    channels = (6, 16)
    units = (120, 84)

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        from torch import nn

        from simfl.learning.models.convolutions import Conv2d

        channels, pixels = self.sizes(shape)

        def active() -> list[nn.Module]:
            return [nn.ReLU(), nn.Dropout(self.dropout)]

        return nn.Sequential(
            *[Conv2d(channels, 6, 5), *active(), nn.MaxPool2d(2)],
            *[nn.Conv2d(6, 16, 5), *active(), nn.MaxPool2d(2)],
            nn.Flatten(),
            *[nn.Linear(pixels, 120), *active()],
            *[nn.Linear(120, 84), *active()],
            nn.Linear(84, classes),
        )


@MODELS("multiround_mnist")
@dataclass(frozen=True)
class MultiroundMnist(_TwoConvolutions):
    """Convolutions of 32 and 64 channels and one linear layer, with a ReLU on the logits.

    62,346 parameters for 28 x 28 x 1 images in 10 classes. The public code of arXiv 2106.03328: with dropout CNNMnist3,
    whose first pooling takes means; without it CNNMnist2, whose poolings both take maxima.
    """

    dropout: Annotated[
        bool, Field(description="a fifth of the second convolution's channels and half of the last layer's inputs")
    ] = True

    channels = (32, 64)
    units = ()

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        from torch import nn

        channels, pixels = self.sizes(shape)
        pool = nn.AvgPool2d(2) if self.dropout else nn.MaxPool2d(2)
        drop = [nn.Dropout2d(0.2)] if self.dropout else []
        return nn.Sequential(
            *[nn.Conv2d(channels, 32, 5), pool, nn.ReLU()],
            *[nn.Conv2d(32, 64, 5), *drop, nn.MaxPool2d(2), nn.ReLU()],
            nn.Flatten(),
            *([nn.Dropout(0.5)] if self.dropout else []),
            *[nn.Linear(pixels, classes), nn.ReLU()],
        )


RESNET18_BLOCKS = 11_167_104
"""Parameters of ResNet-18 between its first convolution and its last layer, whatever the images are."""

RESNET18_NORMS = 4800
"""Channels of all its normalisations."""


@MODELS("resnet18_gn")
@dataclass(frozen=True)
class ResNet18Gn(Model):
    """ResNet-18 for small images, with group instead of batch normalisation.

    Batch normalisation's running statistics have no meaning in an average of models (Hsieh et al. 2020).
    11,173,962 parameters for 10 classes of colour images. References: He et al. 2016, Wu and He 2018.
    """

    groups: Annotated[int, Field(ge=1, le=64, description="groups of each normalisation; a divisor of 64")] = 32

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if 64 % self.groups == 0:
            return []
        nearest = min((1, 2, 4, 8, 16, 32, 64), key=lambda groups: abs(groups - self.groups))
        return [("groups", f"is {self.groups}, no divisor of 64; the nearest valid value is {nearest}")]

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        from torch import nn

        from simfl.learning.models.resnet import resnet18

        channels, _, _ = image_shape(shape, 8, self.name)
        return resnet18(channels, classes, lambda width: nn.GroupNorm(self.groups, width))

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        channels, _, _ = image_shape(shape, 8, self.name)
        return 9 * 64 * channels + RESNET18_BLOCKS + 513 * classes


@MODELS("resnet18_bn")
@dataclass(frozen=True)
class ResNet18Bn(Model):
    """ResNet-18 for small images, with batch normalisation, whose layers clients should keep (training.personal).

    As many parameters as resnet18_gn, and 9,600 running statistics. Reference: He et al. 2016.
    """

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        from torch import nn

        from simfl.learning.models.resnet import resnet18

        channels, _, _ = image_shape(shape, 8, self.name)
        return resnet18(channels, classes, nn.BatchNorm2d)

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        channels, _, _ = image_shape(shape, 8, self.name)
        return 9 * 64 * channels + RESNET18_BLOCKS + 513 * classes + 2 * RESNET18_NORMS


@MODELS("resnet8")
@dataclass(frozen=True)
class ResNet8(Model):
    """Three residual blocks of ``width``, twice and four times as many channels, for small images.

    78,042 parameters of 16 channels for 10 classes of colour images with either normalisation, and 448 running
    statistics with batch normalisation. Reference: He et al. 2016, section 4.2, with n = 1 and projections.
    """

    norm: Annotated[
        Literal["batch", "group"], Field(description="batch: clients should keep these layers (training.personal)")
    ] = "batch"
    width: Annotated[int, Field(ge=1, le=1024, description="channels of the first block")] = 16
    groups: Annotated[int, Field(ge=1, le=64, description="groups of each group normalisation; divides width")] = 8

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if self.norm == "batch" or self.width % self.groups == 0:
            return []
        nearest = min((g for g in range(1, self.width + 1) if self.width % g == 0), key=lambda g: abs(g - self.groups))
        return [("groups", f"is {self.groups}, no divisor of width {self.width}; the nearest valid value is {nearest}")]

    def build(self, shape: tuple[int, ...], classes: int) -> "torch.nn.Module":
        from torch import nn

        from simfl.learning.models.resnet import resnet8

        channels, _, _ = image_shape(shape, 8, self.name)
        norm = nn.BatchNorm2d if self.norm == "batch" else lambda width: nn.GroupNorm(self.groups, width)
        return resnet8(channels, classes, self.width, norm)

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        channels, w = image_shape(shape, 8, self.name)[0], self.width
        convolutions = 9 * (channels * w + 2 * w * w + (w + 2 * w) * 2 * w + (2 * w + 4 * w) * 4 * w)
        shortcuts = w * 2 * w + 2 * w * 4 * w
        normed = w * (1 + 2 + 3 * 2 + 3 * 4)
        statistics = 2 * normed if self.norm == "batch" else 0
        return convolutions + shortcuts + 2 * normed + statistics + (4 * w + 1) * classes
