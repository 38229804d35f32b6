"""Forward and backward pass of k multilayer perceptrons at once. Imported only where torch is.

Every width is padded with zeros to a multiple of 16 floats, so that each client's matrices start on a cache
line: the rounding of a matrix product depends on that alignment, and a client's update must not depend on
its place in the batch.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from simfl.learning.backends.base import Task
from simfl.learning.backends.schedule import cohorts, schedule
from simfl.learning.models.flat import layout, size
from simfl.learning.work import Work

__all__ = ["DenseEngine"]

LIMIT = 64
"""Works trained at a time: bounds memory, and small cohorts stay in the cache."""


def _padded(width: int) -> int:
    return -(-width // 16) * 16


class DenseEngine:
    """Trains works in cohorts; a layer's parameters are one tensor (k, outputs, inputs)."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.slots = layout(task.module)
        self.dimension = size(self.slots)
        rows = task.x.flatten(1)
        self.x = functional.pad(rows, (0, _padded(rows.shape[1]) - rows.shape[1]))
        self.classes = self.slots[-1].shape[0]

    def train(self, works: Sequence[Work]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        deltas = np.empty((len(works), self.dimension), dtype=np.float32)
        loss = np.empty(len(works))
        for group in cohorts(works, LIMIT):
            members = [works[i] for i in group]
            start = np.stack([work.start for work in members])
            final, loss[group] = self._cohort(members, start)
            deltas[group] = final - start
        return deltas, loss

    def _cohort(
        self, works: Sequence[Work], start: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        blocks = self._blocks(start)
        plan = schedule(works, self.task.batch_size, self.x.device)
        step = self._stepper(works, blocks)
        loss = torch.zeros(len(works), dtype=torch.float64, device=self.x.device)
        noted = plan.last_pass.any(dim=1).tolist()
        with torch.inference_mode():
            for s, k in enumerate(plan.active):
                chosen, weight = plan.chosen[s, :k], plan.weight[s, :k].unsqueeze(2)
                inputs = self.x.index_select(0, chosen.reshape(-1)).view(k, chosen.shape[1], -1)
                target = self.task.y.index_select(0, chosen.reshape(-1)).view(k, -1, 1)
                layers = [inputs]
                z = torch.baddbmm(blocks[1][:k], inputs, blocks[0][:k].transpose(1, 2))
                for weights, bias in zip(blocks[2::2], blocks[3::2], strict=True):
                    layers.append(z.relu_())
                    z = torch.baddbmm(bias[:k], layers[-1], weights[:k].transpose(1, 2))
                z[..., self.classes :] = -torch.inf
                z = torch.log_softmax(z, dim=2)
                if noted[s]:
                    row = z.gather(2, target).mul_(weight).sum((1, 2), dtype=torch.float64)
                    loss[:k].sub_(row.mul_(plan.last_pass[s, :k]))
                error = z.exp_().mul_(weight).scatter_add_(2, target, -weight)
                step(k, error, layers)
        return self._flat(blocks), loss.cpu().numpy()

    def _stepper(self, works: Sequence[Work], blocks: list[torch.Tensor]):
        sgd = self.task.sgd
        if works[0].shift is None and not (sgd.momentum or sgd.proximal or sgd.clip_norm):
            return _Fused(blocks, works[0].rate, sgd.weight_decay)
        shift = None
        if works[0].shift is not None:
            shift = self._blocks(np.stack([work.shift for work in works]))
        return _Full(blocks, works[0].rate, sgd, shift)

    def _blocks(self, flat: NDArray[np.float32]) -> list[torch.Tensor]:
        """Flat vectors (k, d) as padded layers: weight (k, outputs, inputs), bias (k, 1, outputs), weight, ..."""
        blocks = []
        for slot in self.slots:
            part = flat[:, slot.start : slot.start + int(np.prod(slot.shape))]
            part = part.reshape(len(flat), *(slot.shape if len(slot.shape) == 2 else (1, *slot.shape)))
            rows = 1 if len(slot.shape) == 1 else _padded(slot.shape[0])
            block = np.zeros((len(flat), rows, _padded(slot.shape[-1])), dtype=np.float32)
            block[:, : part.shape[1], : part.shape[2]] = part
            blocks.append(torch.from_numpy(block).to(self.x.device))
        return blocks

    def _flat(self, blocks: Sequence[torch.Tensor]) -> NDArray[np.float32]:
        parts = []
        for slot, block in zip(self.slots, blocks, strict=True):
            rows = 1 if len(slot.shape) == 1 else slot.shape[0]
            parts.append(block[:, :rows, : slot.shape[-1]].reshape(len(block), -1))
        return torch.cat(parts, dim=1).cpu().numpy()


def _backward(k: int, error: torch.Tensor, layers: Sequence[torch.Tensor], blocks: Sequence[torch.Tensor]):
    """Layer by layer from the last: index, error at its output, its input. The weights may change after each."""
    for i in range(len(layers) - 1, -1, -1):
        below = None
        if i:
            below = torch.bmm(error, blocks[2 * i][:k])
            below = torch.ops.aten.threshold_backward(below, layers[i], 0)
        yield i, error, layers[i]
        error = below


class _Fused:
    """Plain SGD: the weight gradient is added to the weights by the product that computes it."""

    def __init__(self, blocks: list[torch.Tensor], rate: float, decay: float) -> None:
        self.blocks, self.rate, self.keep = blocks, rate, 1 - rate * decay

    def __call__(self, k: int, error: torch.Tensor, layers: Sequence[torch.Tensor]) -> None:
        for i, out, inputs in _backward(k, error, layers, self.blocks):
            self.blocks[2 * i][:k].baddbmm_(out.transpose(1, 2), inputs, beta=self.keep, alpha=-self.rate)
            bias = self.blocks[2 * i + 1][:k]
            if self.keep != 1:
                bias.mul_(self.keep)
            bias.add_(out.sum(1, keepdim=True), alpha=-self.rate)


class _Full:
    """Every other step: clipping, proximal term, shift, weight decay and momentum."""

    def __init__(self, blocks: list[torch.Tensor], rate: float, sgd, shift: list[torch.Tensor] | None) -> None:
        self.blocks, self.rate, self.sgd, self.shift = blocks, rate, sgd, shift
        self.start = [block.clone() for block in blocks] if sgd.proximal else None
        self.velocity = [torch.zeros_like(block) for block in blocks] if sgd.momentum else None

    def __call__(self, k: int, error: torch.Tensor, layers: Sequence[torch.Tensor]) -> None:
        sgd = self.sgd
        x = [block[:k] for block in self.blocks]
        g: list[torch.Tensor] = [None] * len(x)
        for i, out, inputs in _backward(k, error, layers, self.blocks):
            g[2 * i] = torch.bmm(out.transpose(1, 2), inputs)
            g[2 * i + 1] = out.sum(1, keepdim=True)
        if self.start is not None:
            for a, b, c in zip(g, x, self.start, strict=True):
                a.add_(b, alpha=sgd.proximal).sub_(c[:k], alpha=sgd.proximal)
        if sgd.clip_norm is not None:
            square = sum(torch.linalg.vector_norm(a.flatten(1), dim=1).square() for a in g)
            factor = (sgd.clip_norm / square.sqrt()).clamp_(max=1).view(k, 1, 1)
            for a in g:
                a.mul_(factor)
        if self.shift is not None:
            for a, b in zip(g, self.shift, strict=True):
                a.add_(b[:k])
        if sgd.weight_decay:
            torch._foreach_add_(g, x, alpha=sgd.weight_decay)
        if self.velocity is not None:
            v = [block[:k] for block in self.velocity]
            torch._foreach_mul_(v, sgd.momentum)
            torch._foreach_add_(v, g)
            g = v
        torch._foreach_add_(x, g, alpha=-self.rate)
