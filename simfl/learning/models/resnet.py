"""Torch modules of simfl's models: residual networks of any normalisation, and others. Imported only where torch is."""

from collections.abc import Callable

import torch
from torch import nn

Norm = Callable[[int], nn.Module]
"""The normalisation of so many channels."""


def resnet18(channels: int, classes: int, norm: Norm) -> nn.Module:
    """The variant for small images: a 3 x 3 first convolution and no first pooling."""
    stages = ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1))
    return _resnet(channels, classes, 64, stages, norm)


def resnet8(channels: int, classes: int, width: int, norm: Norm) -> nn.Module:
    """Three blocks of two convolutions (He et al. 2016, section 4.2, with n = 1)."""
    return _resnet(channels, classes, width, ((width, 1), (2 * width, 2), (4 * width, 2)), norm)


def _resnet(channels: int, classes: int, width: int, stages: tuple[tuple[int, int], ...], norm: Norm) -> nn.Module:
    layers: list[nn.Module] = [_conv(channels, width, 1), norm(width), nn.ReLU()]
    for outputs, stride in stages:
        layers.append(Block(width, outputs, stride, norm))
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def _conv(inputs: int, outputs: int, stride: int, kernel: int = 3) -> nn.Conv2d:
    conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
    conv.gain = 2**0.5  # type: ignore[assignment]  # torch types a module's attributes as its parts
    return conv


class Block(nn.Module):
    """Two convolutions with a shortcut around them (He et al. 2016, figure 2)."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _conv(inputs, outputs, stride), norm(outputs), nn.ReLU(), _conv(outputs, outputs, 1), norm(outputs)
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(_conv(inputs, outputs, stride, 1), norm(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


class NextToken(nn.Module):
    """The recurrent network of char_lstm: from tokens (n, length), int64 of 0 .. ``classes`` - 1, to the logits of the
    next one, (n, classes).
    """

    def __init__(self, classes: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.output = nn.Linear(hidden, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):  # processors without AVX-512 have no bfloat16 LSTM
            states, _ = self.lstm(self.embedding(tokens))
        return self.output(states[:, -1])


class Margin(torch.nn.Module):
    """Logits (..., 2) of margins (..., 1): 0 for the first class, the margin for the second."""

    def forward(self, margin: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros_like(margin), margin], dim=-1)
