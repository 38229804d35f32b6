"""The two small networks of Multi-RoundSecAgg's experiments, as its authors' public code has them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from simfl.learning.models.base import MODELS, Model, parameter_count
from simfl.learning.models.conv import pooled_size

if TYPE_CHECKING:
    import torch

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
