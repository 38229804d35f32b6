"""The flat sequential loop. Imported only where torch is."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.learning.backends.base import TrainingTask
from simfl.learning.backends.update import TINY, take
from simfl.learning.models.criterion import mean_loss
from simfl.learning.models.dropout import Masks
from simfl.learning.models.flat import attach, layout, size, views
from simfl.learning.work import Work

HELD_BYTES = 2**28
"""Updates that are kept on the device at most, before they leave it."""


class SequentialEngine:
    """Trains one work after the other in place, in one flat vector that the module's parameters view."""

    def __init__(self, task: TrainingTask) -> None:
        self.task = task
        self.entries = layout(task.module)
        self.flat = torch.zeros(size(self.entries), device=task.x.device)
        self.trained = [entry for entry in self.entries if entry.trained]
        self.parameters = attach(task.module, self.flat)
        self.tensors: list[torch.Tensor] = [*self.parameters]  # the same, as torch's functions on lists take them
        self.masks, self.loss = Masks(task.module), mean_loss(task.module)
        self.images = task.x.dim() == 4
        seen = any(isinstance(layer, torch.nn.Conv2d) for layer in task.module.modules())
        self.layout = torch.channels_last if seen else torch.contiguous_format

    def train(self, works: Sequence[Work]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        most = max(1, HELD_BYTES // (4 * max(1, len(self.flat))))
        parts = [self._several(works[first : first + most]) for first in range(0, len(works), most)]
        deltas, losses = zip(*parts, strict=True)
        return parts[0] if len(parts) == 1 else (np.concatenate(deltas), np.concatenate(losses))

    def _several(self, works: Sequence[Work]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """They leave the device together, so that it waits for the processor once."""
        deltas = self.flat.new_empty(len(works), len(self.flat))
        losses = torch.empty(len(works), dtype=torch.float64, device=self.flat.device)
        for i, work in enumerate(works):
            losses[i] = self._one(work, deltas[i])
        return deltas.cpu().numpy(), losses.cpu().numpy()

    def _one(self, work: Work, delta: torch.Tensor) -> torch.Tensor:
        """Trains one work, and sets its update, (d,); the mean loss of its last pass."""
        task, sgd = self.task, self.task.sgd
        device = task.x.device
        start = torch.from_numpy(work.start).to(device)
        self.flat.copy_(start)
        pulled = work.proximal or work.distance
        plain = work.shift is None and work.mask is None and not (sgd.momentum or pulled or sgd.clip_norm)
        step = self._plain_step if plain else _Step(self, work, start)
        order = torch.from_numpy(work.order).to(device)
        versions = None if work.versions is None else torch.from_numpy(work.versions).to(device)
        bounds = work.bounds
        rng = work.dropout() if self.masks.layers and work.dropout else None
        total = torch.zeros((), dtype=torch.float64, device=device)
        for s in range(work.steps):
            now = slice(bounds[s], bounds[s + 1])
            chosen = order[now]
            x = take(task.x, chosen, None if versions is None else versions[now], task.crop)
            if self.images:
                x = x.to(memory_format=self.layout)  # .contiguous() would leave one channel as it is
            if rng is not None:
                masks = self.masks.draw(rng, len(chosen))
                self.masks.set_masks([torch.from_numpy(mask).to(device) for mask in masks])
            with torch.autocast(device.type, torch.bfloat16, enabled=task.bf16):
                logits = task.module(x)
            loss = self.loss(logits.float(), task.y.index_select(0, chosen))
            gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
            with torch.no_grad():
                step(gradients, work.rate)
            if s >= work.last_pass:
                total += loss.detach() * len(chosen)
        torch.sub(self.flat, start, out=delta)
        return total / (bounds[-1] - bounds[work.last_pass])

    def _plain_step(self, gradients: Sequence[torch.Tensor | None], rate: float) -> None:
        tensors, used = self.tensors, [gradient for gradient in gradients if gradient is not None]
        if len(used) < len(tensors):  # as torch.optim does, a step leaves what the loss does not depend on
            tensors = [tensor for tensor, gradient in zip(tensors, gradients, strict=True) if gradient is not None]
        if decay := self.task.sgd.weight_decay:
            torch._foreach_mul_(tensors, 1 - rate * decay)
        torch._foreach_add_(tensors, used, alpha=-rate)


class _Step:
    """A step with memory: momentum, proximal or distance term, shift or clipping, over all parameters in one vector."""

    def __init__(self, engine: SequentialEngine, work: Work, start: torch.Tensor) -> None:
        n = size(engine.trained)
        self.sgd, self.proximal, self.x, self.start = engine.task.sgd, work.proximal, engine.flat[:n], start[:n]
        self.distance = work.distance
        self.gradient = torch.zeros_like(self.x)
        self.parts = views(self.gradient, engine.trained)
        self.shift = None if work.shift is None else torch.from_numpy(work.shift[:n]).to(self.x.device)
        self.mask = None if work.mask is None else torch.from_numpy(work.mask[:n]).to(self.x)
        self.velocity = torch.zeros_like(self.x) if self.sgd.momentum else None
        moving = [vector for vector in (self.x, self.velocity) if vector is not None]
        self.moving = [views(vector, engine.trained) for vector in moving]

    def __call__(self, gradients: Sequence[torch.Tensor | None], rate: float) -> None:
        unused = [i for i, gradient in enumerate(gradients) if gradient is None]
        before = [(parts[i], parts[i].clone()) for parts in self.moving for i in unused]
        known = [torch.zeros_like(p) if g is None else g for p, g in zip(self.parts, gradients, strict=True)]
        torch._foreach_copy_(self.parts, known)
        self._move(self.gradient, rate)
        for part, value in before:
            part.copy_(value)

    def _move(self, g: torch.Tensor, rate: float) -> None:
        sgd = self.sgd
        if self.proximal:
            g.add_(self.x, alpha=self.proximal).sub_(self.start, alpha=self.proximal)
        if self.distance:
            moved = self.x - self.start
            g.add_(moved.mul_(self.distance / torch.linalg.vector_norm(moved).clamp_(min=TINY)))
        if sgd.clip_norm is not None:
            g.mul_((sgd.clip_norm / torch.linalg.vector_norm(g)).clamp_(max=1))
        if self.shift is not None:
            g.add_(self.shift)
        if sgd.weight_decay:
            g.add_(self.x, alpha=sgd.weight_decay)
        if self.velocity is not None:
            self.velocity.mul_(sgd.momentum)
            if self.mask is None:
                self.velocity.add_(g)
            else:
                self.velocity.addcmul_(g, self.mask)
            g = self.velocity
        elif self.mask is not None:
            g.mul_(self.mask)
        self.x.add_(g, alpha=-rate)
