"""The two small networks of Multi-RoundSecAgg's experiments, as its authors' public code has them."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from simfl.learning.models.base import MODELS
from simfl.learning.models.conv import image_shape

__all__ = ["MultiroundCifar", "MultiroundMnist"]

Dropout = Annotated[float, Field(ge=0, lt=1, description="share of the units that each dropout layer drops")]


@MODELS("multiround_cifar")
@dataclass(frozen=True)
class MultiroundCifar:
    """Convolutions of 6 and 16 channels, layers of 120 and 84 units, and dropout after each of their ReLUs.

    62,006 parameters for 32 x 32 x 3 images in 10 classes, as lenet5. The public code of arXiv 2106.03328, CNNCifar3.
    """

    dropout: Dropout = 0.2

    def build(self, shape: tuple[int, ...], classes: int) -> Any:
        from torch import nn

        channels, pixels = self._flat(shape)

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
        channels, pixels = self._flat(shape)
        return (25 * channels + 1) * 6 + (25 * 6 + 1) * 16 + (pixels + 1) * 120 + 121 * 84 + 85 * classes

    def _flat(self, shape: tuple[int, ...]) -> tuple[int, int]:
        channels, height, width = image_shape(shape, 16, self.name)  # type: ignore[attr-defined]
        return channels, 16 * _left(height) * _left(width)


@MODELS("multiround_mnist")
@dataclass(frozen=True)
class MultiroundMnist:
    """Convolutions of 32 and 64 channels and one linear layer, with a ReLU on the logits.

    62,346 parameters for 28 x 28 x 1 images in 10 classes. The public code of arXiv 2106.03328: with dropout CNNMnist3,
    whose first pooling takes means; without it CNNMnist2, whose poolings both take maxima.
    """

    dropout: Annotated[
        bool, Field(description="a fifth of the second convolution's channels and half of the last layer's inputs")
    ] = True

    def build(self, shape: tuple[int, ...], classes: int) -> Any:
        from torch import nn

        channels, pixels = self._flat(shape)
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
        channels, pixels = self._flat(shape)
        return (25 * channels + 1) * 32 + (25 * 32 + 1) * 64 + (pixels + 1) * classes

    def _flat(self, shape: tuple[int, ...]) -> tuple[int, int]:
        channels, height, width = image_shape(shape, 16, self.name)  # type: ignore[attr-defined]
        return channels, 64 * _left(height) * _left(width)


def _left(side: int) -> int:
    """Pixels of a side after two 5 x 5 convolutions without borders, each pooled 2 x 2."""
    return ((side - 4) // 2 - 4) // 2
