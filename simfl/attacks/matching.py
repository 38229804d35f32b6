"""Gradient matching: samples whose training makes the update that was seen (Geiping et al. 2020). Imports torch.

Minimised is 1 - cos(update of the samples, update seen) over all layers at once, plus the total variation, by Adam on
the sign of the gradient; the local steps are played through where they are few.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call

from simfl.lab import Bench

__all__ = ["Target", "label_counts", "match"]

RATE, DROPS = 0.1, (3 / 8, 5 / 8, 7 / 8)


@dataclass(frozen=True)
class Target:
    """What is to be explained.

    Attributes:
        start: the model that training began from, (d,).
        update: what it made of it, (d,).
        labels: the classes of the samples, int64 (n,).
        steps: local steps that are played through, each on all samples; 1 = one gradient.
        rate, momentum, weight_decay: of these steps.
    """

    start: NDArray[np.float32]
    update: NDArray[np.float32]
    labels: NDArray[np.int64]
    steps: int = 1
    rate: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0


def match(
    bench: Bench, target: Target, first: Sequence[NDArray[np.float32]], steps: int, variation: float
) -> NDArray[np.float32]:
    """The samples of the least cost, (n, *shape).

    Args:
        bench: the model.
        target: what is to be explained.
        first: where each restart begins, (n, *shape) each.
        steps: of the optimiser.
        variation: weight of the total variation.
    """
    found = [_descent(bench, target, torch.from_numpy(begin.copy()), steps, variation) for begin in first]
    return min(found, key=lambda one: one[0])[1]


def label_counts(bench: Bench, update: NDArray[np.float32], samples: int, rate: float) -> NDArray[np.int64]:
    """The classes of so many samples, from the change of the last bias: n_c / n = mean probability + change / rate.

    The probabilities are taken for equal. Of one sample the class is that of the only rising bias.
    """
    last = bench.trained[-1]
    rise = update[last.start : last.start + prod(last.shape)].astype(np.float64)
    if samples == 1:
        return np.array([int(rise.argmax())])
    share = np.maximum(1 / bench.classes + rise / rate, 0)
    wanted = share / share.sum() * samples if share.any() else np.full(bench.classes, samples / bench.classes)
    counts = np.floor(wanted).astype(np.int64)
    missing = samples - int(counts.sum())
    counts[np.argsort(counts - wanted, kind="stable")[:missing]] += 1
    return np.repeat(np.arange(bench.classes), counts)


def _descent(
    bench: Bench, target: Target, x: torch.Tensor, steps: int, variation: float
) -> tuple[float, NDArray[np.float32]]:
    start = torch.from_numpy(np.array(target.start))
    weights = {p.name: start[p.start : p.start + prod(p.shape)].view(p.shape) for p in bench.parameters}
    moved = sum(prod(p.shape) for p in bench.trained)
    aim = torch.from_numpy(target.update[:moved].astype(np.float32))
    aim, labels = aim / aim.norm().clamp_min(1e-30), torch.from_numpy(target.labels)
    low, high = torch.from_numpy(bench.low), torch.from_numpy(bench.high)
    width = (high - low).clamp_min(1e-6)
    z = ((x - low) / width).requires_grad_()  # steps are shares of the range of values
    optimiser = torch.optim.Adam([z], lr=RATE)
    drops = torch.optim.lr_scheduler.MultiStepLR(optimiser, [int(steps * part) for part in DROPS], 0.1)
    best, cost = z.detach().clone(), float("inf")
    for _ in range(steps):
        optimiser.zero_grad()
        made = _update(bench, weights, target, low + width * z, labels)
        off = 1 - torch.dot(made, aim) / made.norm().clamp_min(1e-30)
        loss = off + variation * _variation(z)
        loss.backward()
        if (now := loss.item()) < cost:
            best, cost = z.detach().clone(), now
        assert z.grad is not None
        z.grad.sign_()
        optimiser.step()
        drops.step()
        with torch.no_grad():
            z.clamp_(0, 1)
    return cost, (low + width * best).numpy()


def _update(
    bench: Bench, weights: dict[str, torch.Tensor], target: Target, x: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """What training on the samples changes, (d,) without running statistics; up to a factor where it is one step."""
    now = {p.name: weights[p.name].detach().requires_grad_() for p in bench.trained}
    begun, speed = now, [torch.zeros_like(value) for value in now.values()]
    for _ in range(target.steps):
        loss = torch.nn.functional.cross_entropy(functional_call(bench.module, weights | now, (x,)), labels)
        slopes = torch.autograd.grad(loss, list(now.values()), create_graph=True)
        slopes = tuple(s + target.weight_decay * v for s, v in zip(slopes, now.values(), strict=True))
        speed = [target.momentum * v + s for v, s in zip(speed, slopes, strict=True)]
        now = {name: value - target.rate * v for (name, value), v in zip(now.items(), speed, strict=True)}
    return torch.cat([(now[name] - begun[name]).flatten() for name in now])


def _variation(x: torch.Tensor) -> torch.Tensor:
    """Mean absolute difference of neighbouring pixels, down and across; 0 for samples that are no images."""
    if x.dim() != 4:
        return x.sum() * 0
    return (x[:, :, 1:] - x[:, :, :-1]).abs().mean() + (x[..., 1:] - x[..., :-1]).abs().mean()
