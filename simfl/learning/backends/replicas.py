"""k copies of a model as one network, by grouped convolutions or torch.func.vmap. Imported only where torch is.

Each parameter of all copies is one block (k, *shape).

Of multilayer perceptrons forward and backward pass are written out, every width padded with zeros to a multiple of 16
floats, so that each model's matrices start on a cache line: the rounding of a matrix product depends on that alignment,
and a client's update must not depend on its place in the batch.
"""

from collections.abc import Sequence

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn import functional as F
from torch.nn.functional import cross_entropy, pad

from simfl.learning.backends.update import Product, StepBatch
from simfl.learning.models.convolutions import StridedConvolutions
from simfl.learning.models.dropout import KeyedDropout, Masks
from simfl.learning.models.flat import layout, views
from simfl.learning.models.resnet import Block, Margin


class BlockReplicas:
    """The part of a :class:`simfl.learning.backends.cohort_engine.NetworkReplicas` that moves parameters.

    With ``bf16`` products are computed in bfloat16 (autocast); parameters and sums stay float32.
    """

    def __init__(self, module: torch.nn.Module, bf16: bool) -> None:
        self.entries = layout(module)
        self.trained = sum(entry.trained for entry in self.entries)
        self.masks = Masks(module)
        self.bf16 = bf16

    def inputs(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def blocks(self, flat: torch.Tensor) -> list[torch.Tensor]:
        return [view.clone(memory_format=torch.contiguous_format) for view in views(flat, self.entries)]

    def flat(self, blocks: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat([block.flatten(1) for block in blocks], dim=1)


PLAIN = (nn.ReLU, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.Identity, Margin, KeyedDropout)
"""Layers that treat channels alike: they are applied to all k models' channels at once, as they are."""


COMPUTED = (nn.Conv2d, nn.Linear, nn.GroupNorm, nn.BatchNorm2d, nn.Flatten)
"""Layers that have a grouped form."""


def reason_unsupported(module: nn.Module) -> str | None:
    """Why the module cannot be computed so, or None."""
    if not isinstance(module, nn.Sequential):
        return "it takes torch.nn.Sequential models only"
    for layer in module:
        if isinstance(layer, Block):
            inner = [part for part in (layer.body, layer.shortcut) if not isinstance(part, nn.Identity)]
            if reason := next((reason for part in inner if (reason := reason_unsupported(part))), None):
                return reason
            continue
        grouped = isinstance(layer, nn.Conv2d) and (layer.groups != 1 or layer.padding_mode != "zeros")
        if grouped or not isinstance(layer, (*COMPUTED, *PLAIN)):
            return f"it has no grouped form of {type(layer).__name__}"
    return None


class GroupedNetwork(BlockReplicas):
    """Images are (batch, k * channels, height, width) until they are flattened, then (k, batch, features).

    :func:`reason_unsupported` has nothing against the module.
    """

    def __init__(self, module: nn.Sequential, bf16: bool) -> None:
        super().__init__(module, bf16)
        self.module = module

    def gradients(self, blocks: Sequence[torch.Tensor], batch: StepBatch) -> tuple[torch.Tensor, list[torch.Tensor]]:
        x, y, weight = batch.x, batch.y, batch.weight
        self.masks.set_masks([mask.transpose(0, 1).flatten(1, 2) if mask.dim() == 5 else mask for mask in batch.masks])
        leaves = [block.detach().requires_grad_() for block in blocks[: self.trained]]
        with torch.enable_grad(), torch.autocast(x.device.type, torch.bfloat16, enabled=self.bf16):
            with StridedConvolutions():  # one copy is a convolution without groups
                logits = self._forward(leaves, blocks[self.trained :], x, weight).float()
            row = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view_as(weight)
            loss = (row * weight).sum(1)
            gradients = torch.autograd.grad(loss.sum(), leaves)
        return loss.detach(), list(gradients)

    def _forward(
        self,
        parameters: Sequence[torch.Tensor],
        statistics: Sequence[torch.Tensor],
        x: torch.Tensor,
        weight: torch.Tensor,
    ) -> torch.Tensor:
        k, batch = x.shape[:2]
        images = x.dim() == 5
        if images:
            x = x.transpose(0, 1).flatten(1, 2).to(memory_format=torch.channels_last)
        layers = _Layers(parameters, statistics, weight)
        for layer in self.module:
            if isinstance(layer, nn.Flatten):
                x = x.reshape(batch, k, -1).transpose(0, 1) if images else x.flatten(2)
                images = False
            else:
                x = layers(layer, x)
        return x


class _Layers:
    """Computes layers in order, each with the blocks that are next; samples' weights, (k, batch), are 0 for padding."""

    def __init__(
        self, parameters: Sequence[torch.Tensor], statistics: Sequence[torch.Tensor], weight: torch.Tensor
    ) -> None:
        self.parameters, self.statistics, self.weight = iter(parameters), iter(statistics), weight

    def __call__(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        if isinstance(layer, Block):
            return torch.relu(self(layer.body, x) + self(layer.shortcut, x))
        if isinstance(layer, nn.Sequential):
            for part in layer:
                x = self(part, x)
            return x
        tensors = [next(self.parameters) for _ in layer.parameters()]
        if isinstance(layer, nn.Linear):
            product = torch.bmm(_align(x), _align(tensors[0], rows=True).mT)[..., : layer.out_features]
            return product + tensors[1].unsqueeze(1) if len(tensors) == 2 else product
        if isinstance(layer, nn.Conv2d):
            bias = tensors[1].flatten() if len(tensors) == 2 else None
            groups = len(tensors[0])
            return F.conv2d(x, tensors[0].flatten(0, 1), bias, layer.stride, layer.padding, layer.dilation, groups)
        if isinstance(layer, nn.GroupNorm):
            scale, shift = (tensors[0].flatten(), tensors[1].flatten()) if tensors else (None, None)
            return F.group_norm(x, len(self.weight) * layer.num_groups, scale, shift, layer.eps)
        if isinstance(layer, nn.BatchNorm2d):
            return self._batch_norm(layer, tensors, x)
        return layer(x)

    def _batch_norm(self, layer: nn.BatchNorm2d, tensors: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        """Each model by the samples of its own step, padding left out; its running statistics move."""
        k, channels = len(self.weight), layer.num_features
        weight = self.weight.T[:, :, None, None, None]  # sums to 1 over a model's samples
        x = torch.unflatten(x.float(), 1, (k, channels))
        mean = (x * weight).sum(0).mean((2, 3))
        centred = x - mean[:, :, None, None]
        variance = (centred.square() * weight).sum(0).mean((2, 3))
        if layer.track_running_stats:
            assert layer.momentum is not None, "refused when the model was built"
            with torch.no_grad():
                n = (self.weight > 0).sum(1, keepdim=True) * (x.shape[3] * x.shape[4])
                share = layer.momentum * (n > 0)  # a model that makes no step stays as it is
                for value in (mean, variance * n / (n - 1).clamp(min=1)):
                    next(self.statistics).lerp_(value.detach(), share)
        factor = (variance + layer.eps).rsqrt()
        if tensors:
            factor = factor * tensors[0]
        x = centred * factor[:, :, None, None]
        if tensors:
            x = x + tensors[1][:, :, None, None]
        return x.flatten(1, 2)


def _align(matrices: torch.Tensor, rows: bool = False) -> torch.Tensor:
    """Each of k matrices padded with zeros to a multiple of 16 columns (and rows), as :class:`DenseNetwork`."""
    height, width = matrices.shape[1:]
    return F.pad(matrices, (0, -width % 16, 0, -height % 16 if rows else 0))


class VmapNetwork(BlockReplicas):
    """All models' losses and gradients in one call; for the arguments see :class:`BlockReplicas`."""

    def __init__(self, module: torch.nn.Module, bf16: bool) -> None:
        super().__init__(module, bf16)
        names = [entry.name for entry in self.entries]

        def loss(
            parameters: tuple[torch.Tensor, ...],
            x: torch.Tensor,
            y: torch.Tensor,
            weight: torch.Tensor,
            masks: tuple[torch.Tensor, ...],
        ) -> torch.Tensor:
            self.masks.set_masks(masks)
            logits = functional_call(module, dict(zip(names, parameters, strict=True)), (x,))
            return (cross_entropy(logits.float(), y, reduction="none") * weight).sum()

        self.compute = vmap(grad_and_value(loss))

    def gradients(self, blocks: Sequence[torch.Tensor], batch: StepBatch) -> tuple[torch.Tensor, list[torch.Tensor]]:
        with torch.autocast(batch.x.device.type, torch.bfloat16, enabled=self.bf16):
            gradients, loss = self.compute(tuple(blocks), batch.x, batch.y, batch.weight, tuple(batch.masks))
        return loss, list(gradients)


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
