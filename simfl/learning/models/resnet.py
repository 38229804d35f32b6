"""ResNet-18 with group normalisation, as modules. Imported only where torch is."""

import torch
from torch import nn

__all__ = ["resnet18"]


def resnet18(channels: int, classes: int, groups: int) -> nn.Module:
    """The variant for small images: a 3 x 3 first convolution and no first pooling."""
    layers: list[nn.Module] = [_conv(channels, 64, 1), nn.GroupNorm(groups, 64), nn.ReLU()]
    width = 64
    for outputs, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(_Block(width, outputs, stride, groups))
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def _conv(inputs: int, outputs: int, stride: int, kernel: int = 3) -> nn.Conv2d:
    conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
    conv.gain = 2**0.5
    return conv


class _Block(nn.Module):
    """Two convolutions with a shortcut around them (He et al. 2016, figure 2)."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _conv(inputs, outputs, stride),
            nn.GroupNorm(groups, outputs),
            nn.ReLU(),
            _conv(outputs, outputs, 1),
            nn.GroupNorm(groups, outputs),
        )
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(_conv(inputs, outputs, stride, 1), nn.GroupNorm(groups, outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))
