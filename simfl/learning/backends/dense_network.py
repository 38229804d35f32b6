"""Forward and backward pass of k multilayer perceptrons at once. Imported only where torch is.

Every width is padded with zeros to a multiple of 16 floats, so that each model's matrices start on a cache
line: the rounding of a matrix product depends on that alignment, and a client's update must not depend on
its place in the batch.
"""

from collections.abc import Sequence

import torch
from torch.nn.functional import pad

from simfl.learning.backends.update import Product, StepBatch
from simfl.learning.models.flat import layout, views


def _padded_width(width: int) -> int:
    return -(-width // 16) * 16


def pad_rows(rows: torch.Tensor) -> torch.Tensor:
    """Rows (..., width) with zeros behind them, up to a multiple of 16 floats."""
    return pad(rows, (0, _padded_width(rows.shape[-1]) - rows.shape[-1]))


class DenseNetwork:
    """Linear layers with ReLU between them; a weight's block is (k, outputs, inputs), a bias' (k, 1, outputs)."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.entries = layout(module)
        self.trained = len(self.entries)
        self.classes = self.entries[-1].shape[0]

    def inputs(self, x: torch.Tensor) -> torch.Tensor:
        return pad_rows(x.flatten(1))

    def blocks(self, flat: torch.Tensor) -> list[torch.Tensor]:
        blocks = []
        for entry, view in zip(self.entries, views(flat, self.entries), strict=True):
            view = view if len(entry.shape) == 2 else view.unsqueeze(1)
            rows = _padded_width(view.shape[1]) if len(entry.shape) == 2 else 1
            block = flat.new_zeros(len(flat), rows, _padded_width(view.shape[2]))
            block[:, : view.shape[1], : view.shape[2]] = view
            blocks.append(block)
        return blocks

    def flat(self, blocks: Sequence[torch.Tensor]) -> torch.Tensor:
        parts = []
        for entry, block in zip(self.entries, blocks, strict=True):
            rows, columns = entry.shape if len(entry.shape) == 2 else (1, *entry.shape)
            parts.append(block[:, :rows, :columns].reshape(len(block), -1))
        return torch.cat(parts, dim=1)

    def gradients(
        self, blocks: Sequence[torch.Tensor], batch: StepBatch
    ) -> tuple[torch.Tensor | None, list[torch.Tensor | Product]]:
        layers = [batch.x]
        z = torch.baddbmm(blocks[1], batch.x, blocks[0].mT)
        for weights, bias in zip(blocks[2::2], blocks[3::2], strict=True):
            layers.append(z.relu_())
            z = torch.baddbmm(bias, z, weights.mT)
        z[..., self.classes :] = -torch.inf  # padding is no class
        z = torch.log_softmax(z, dim=2)
        z[..., self.classes :] = 0  # the exponential of an infinity takes ten times as long
        target, weight = batch.y.unsqueeze(2), batch.weight.unsqueeze(2)
        loss = z.gather(2, target).mul_(weight).sum((1, 2)).neg_() if batch.noted else None
        error = z.exp_().mul_(weight).scatter_add_(2, target, -weight)
        error[..., self.classes :] = 0
        gradients: list[torch.Tensor | Product] = []
        for i in range(len(layers) - 1, -1, -1):
            gradients += [error.sum(1, keepdim=True), Product(error, layers[i])]
            if i:
                below = torch.bmm(error, blocks[2 * i])
                error = torch.ops.aten.threshold_backward(below, layers[i], 0)
        return loss, gradients[::-1]


class MarginNetwork(DenseNetwork):
    """Logistic regressions of two classes; the weights' block is (k, 1, inputs), the intercepts' (k, 1, 1).

    One output takes a fifth of the time of the sixteen to which :class:`DenseNetwork` would pad it. A client's update
    must not depend on its place in the batch: exponentials and logarithms go through calls that treat all elements
    alike, everything else rounds each element correctly; and gradients are multiplied out here, for where there is one
    client only, a sum and a product in one call round differently.
    """

    def blocks(self, flat: torch.Tensor) -> list[torch.Tensor]:
        weights, intercept = views(flat, self.entries)
        return [pad_rows(weights).clone(), intercept.unsqueeze(1).clone()]

    def flat(self, blocks: Sequence[torch.Tensor]) -> torch.Tensor:
        weights, intercept = blocks
        return torch.cat([weights[:, 0, : self.entries[0].shape[1]], intercept[:, 0]], dim=1)

    def gradients(
        self, blocks: Sequence[torch.Tensor], batch: StepBatch
    ) -> tuple[torch.Tensor | None, list[torch.Tensor | Product]]:
        weights, intercept = blocks
        x, y, weight = batch.x, batch.y, batch.weight
        margin = torch.bmm(weights, x.mT).add_(intercept).squeeze(1)
        small = margin.abs().neg_().exp_()
        loss = margin.clamp(min=0).sub_(margin * y).add_(small.log1p()).mul_(weight).sum(1) if batch.noted else None
        error = torch.where(margin < 0, small, 1).div_(small + 1).sub_(y).mul_(weight)
        return loss, [torch.bmm(error.unsqueeze(1), x), error.sum(1).view(-1, 1, 1)]
