"""A step of k models at once: its samples, and the optimiser's move. Imported only where torch is."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.nn.functional import pad

from simfl.learning.backends.base import Sgd
from simfl.learning.work import Work

Blocks = Sequence[torch.Tensor]

TINY = 1e-20
"""A distance that counts as none: the gradient of |x - start| is 0 at the start."""


class Product(NamedTuple):
    """A gradient (k, outputs, inputs) that is not multiplied out: the sum over the samples of error, (k, batch,
    outputs), times input, (k, batch, inputs).
    """

    error: torch.Tensor
    inputs: torch.Tensor


class StepBatch(NamedTuple):
    """The samples of one step of k models.

    Attributes:
        x: samples, (k, batch, ...).
        y: classes, (k, batch).
        weight: of each sample, (k, batch); 0 for padding.
        noted: whether anybody asks for the loss; where nobody does, it may be anything.
        masks: of the dropout layers, (k, batch, ...) each.
    """

    x: torch.Tensor
    y: torch.Tensor
    weight: torch.Tensor
    noted: bool
    masks: Sequence[torch.Tensor] = ()


def stepper(
    blocks: Blocks, work: Work, sgd: Sgd, shift: Blocks | None = None, mask: Blocks | None = None
) -> "_Plain | _Full":
    """A function (blocks, gradients) that makes one step in place, see :class:`simfl.learning.backends.base.Sgd`.

    It may be given the blocks of the first few models only; further models' gradients are left aside.

    Args:
        blocks: the parameters of all k models before the first step.
        work: one of theirs; its rate, proximal and distance terms are those of all.
        shift: added to every gradient, shaped as the blocks.
        mask: what every gradient is multiplied with, shaped as the blocks.
    """
    pulled = work.proximal or work.distance
    if shift is None and mask is None and not (sgd.momentum or pulled or sgd.clip_norm):
        return _Plain(work.rate, sgd.weight_decay)
    return _Full(blocks, work, sgd, shift, mask)


class _Plain:
    """Plain SGD: a product is added to the weights while it is multiplied out."""

    def __init__(self, rate: float, decay: float) -> None:
        self.rate, self.keep = rate, 1 - rate * decay

    def __call__(self, blocks: Blocks, gradients: Sequence[torch.Tensor | Product]) -> None:
        for block, gradient in zip(blocks, _first_gradients(gradients, len(blocks[0])), strict=True):
            if isinstance(gradient, Product):
                block.baddbmm_(gradient.error.mT, gradient.inputs, beta=self.keep, alpha=-self.rate)
            else:
                if self.keep != 1:
                    block.mul_(self.keep)
                block.add_(gradient, alpha=-self.rate)


class _Full:
    """Every other step: proximal and distance terms, clipping, shift, weight decay, mask, momentum."""

    def __init__(self, blocks: Blocks, work: Work, sgd: Sgd, shift: Blocks | None, mask: Blocks | None) -> None:
        self.rate, self.proximal, self.distance = work.rate, work.proximal, work.distance
        self.sgd, self.shift, self.mask = sgd, shift, mask
        self.start = [block.clone() for block in blocks] if self.proximal or self.distance else None
        self.velocity = [torch.zeros_like(block) for block in blocks] if sgd.momentum else None

    def __call__(self, blocks: Blocks, gradients: Sequence[torch.Tensor | Product]) -> None:
        sgd, k = self.sgd, len(blocks[0])
        g = [
            torch.bmm(part.error.mT, part.inputs) if isinstance(part, Product) else part.clone()
            for part in _first_gradients(gradients, k)
        ]
        if self.start is not None:
            self._pull(g, blocks, _first(self.start, k))
        if sgd.clip_norm is not None:
            factor = (sgd.clip_norm / _norms(g)).clamp_(max=1)
            for part in g:
                part.mul_(factor.view(k, *[1] * (part.dim() - 1)))
        if self.shift is not None:
            torch._foreach_add_(g, _first(self.shift, k))
        if sgd.weight_decay:
            torch._foreach_add_(g, list(blocks), alpha=sgd.weight_decay)
        if self.mask is not None:
            torch._foreach_mul_(g, _first(self.mask, k))
        if self.velocity is not None:
            velocity = _first(self.velocity, k)
            torch._foreach_mul_(velocity, sgd.momentum)
            torch._foreach_add_(velocity, g)
            g = velocity
        torch._foreach_add_(list(blocks), g, alpha=-self.rate)

    def _pull(self, g: list[torch.Tensor], blocks: Blocks, start: list[torch.Tensor]) -> None:
        if self.proximal:
            torch._foreach_add_(g, list(blocks), alpha=self.proximal)
            torch._foreach_add_(g, start, alpha=-self.proximal)
        if self.distance:
            moved = [block - origin for block, origin in zip(blocks, start, strict=True)]
            factor = self.distance / _norms(moved).clamp_(min=TINY)
            for part, away in zip(g, moved, strict=True):
                part.add_(away.mul_(factor.view(-1, *[1] * (part.dim() - 1))))


def _norms(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The Euclidean norm of each model, (k,), over all its parts."""
    return sum(torch.linalg.vector_norm(part.flatten(1), dim=1).square() for part in parts).sqrt()


def _first(parts: Sequence[torch.Tensor], k: int) -> list[torch.Tensor]:
    """The parts that belong to the first k models."""
    return [part[:k] for part in parts]


def _first_gradients(parts: Sequence[torch.Tensor | Product], k: int) -> list[torch.Tensor | Product]:
    """As :func:`_first`, where some are products."""
    return [Product(part.error[:k], part.inputs[:k]) if isinstance(part, Product) else part[:k] for part in parts]


def take(x: torch.Tensor, chosen: torch.Tensor, versions: torch.Tensor | None, crop: int) -> torch.Tensor:
    """Samples ``chosen`` (n,) of ``x`` (all, *shape), in the versions drawn by ``simfl.learning.work.Augment``."""
    batch = x.index_select(0, chosen)
    if versions is None:
        return batch
    height, width = x.shape[-2:]
    place, mirrored = versions // 2, (versions % 2).bool()
    column = torch.arange(width, device=x.device)
    rows = (place // (2 * crop + 1)).unsqueeze(1) + torch.arange(height, device=x.device)
    columns = (place % (2 * crop + 1)).unsqueeze(1) + torch.where(mirrored.unsqueeze(1), width - 1 - column, column)
    sample = torch.arange(len(batch), device=x.device).view(-1, 1, 1)
    cut = pad(batch, (crop, crop, crop, crop))[sample, :, rows.unsqueeze(2), columns.unsqueeze(1)]
    return cut.permute(0, 3, 1, 2)
