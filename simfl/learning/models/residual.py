"""Residual networks for small images: group normalisation for averages, batch normalisation for private norms."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from simfl.core.scenario_view import ScenarioView
from simfl.learning.models.base import MODELS, Model
from simfl.learning.models.conv import image_shape

if TYPE_CHECKING:
    import torch

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
