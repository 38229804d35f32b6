"""k copies of a layered model as one network of grouped convolutions. Imported only where torch is."""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from simfl.learning.backends.copies import Copies
from simfl.learning.models.margin import Margin

__all__ = ["GroupedNetwork", "unsupported"]

PLAIN = (nn.ReLU, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.Identity, Margin)
"""Layers that treat channels alike: they are applied to all k models' channels at once, as they are."""


def unsupported(module: nn.Module) -> str | None:
    """Why the module cannot be computed so, or None."""
    if not isinstance(module, nn.Sequential):
        return "it takes torch.nn.Sequential models only"
    for layer in module:
        grouped = isinstance(layer, nn.Conv2d) and (layer.groups != 1 or layer.padding_mode != "zeros")
        if grouped or not isinstance(layer, (nn.Conv2d, nn.Linear, nn.GroupNorm, nn.Flatten, *PLAIN)):
            return f"it has no grouped form of {type(layer).__name__}"
    return None


class GroupedNetwork(Copies):
    """Images are (batch, k * channels, height, width) until they are flattened, then (k, batch, features).

    Args:
        module: a ``torch.nn.Sequential`` that :func:`unsupported` has nothing against.
        bf16: see :class:`Copies`.
    """

    def __init__(self, module: nn.Sequential, bf16: bool) -> None:
        super().__init__(module, bf16)
        self.layers = list(module)

    def gradients(
        self, blocks: Sequence[torch.Tensor], x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, list]:
        leaves = [block.detach().requires_grad_() for block in blocks]
        with torch.enable_grad(), torch.autocast(x.device.type, torch.bfloat16, enabled=self.bf16):
            logits = self._forward(leaves, x).float()
            row = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view_as(weight)
            loss = (row * weight).sum(1)
            gradients = torch.autograd.grad(loss.sum(), leaves)
        return loss.detach(), list(gradients)

    def _forward(self, parameters: Sequence[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        k, batch = x.shape[:2]
        rest = iter(parameters)
        images = x.dim() == 5
        if images:
            x = x.transpose(0, 1).flatten(1, 2).to(memory_format=torch.channels_last)
        for layer in self.layers:
            own = [next(rest) for _ in layer.parameters()]
            if isinstance(layer, nn.Flatten):
                if images:
                    x = x.reshape(batch, k, -1).transpose(0, 1)
                else:
                    x = x.flatten(2)
                images = False
            elif isinstance(layer, nn.Linear):
                product = torch.bmm(_aligned(x), _aligned(own[0], rows=True).mT)[..., : layer.out_features]
                x = product + own[1].unsqueeze(1) if len(own) == 2 else product
            elif isinstance(layer, nn.Conv2d):
                bias = own[1].flatten() if len(own) == 2 else None
                x = F.conv2d(x, own[0].flatten(0, 1), bias, layer.stride, layer.padding, layer.dilation, groups=k)
            elif isinstance(layer, nn.GroupNorm):
                scale = [part.flatten() for part in own] or [None, None]
                x = F.group_norm(x, k * layer.num_groups, *scale, eps=layer.eps)
            else:
                x = layer(x)
        return x


def _aligned(matrices: torch.Tensor, rows: bool = False) -> torch.Tensor:
    """Each of k matrices padded with zeros to a multiple of 16 columns (and rows), see ``dense_network``."""
    height, width = matrices.shape[1:]
    return F.pad(matrices, (0, -width % 16, 0, -height % 16 if rows else 0))
