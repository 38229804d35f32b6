"""Gradient matching: samples whose training makes the update that was seen (Geiping et al. 2020). Imports torch.

Minimised is 1 - cos(update of the samples, update seen) over all layers at once, plus the total variation, by Adam on
the sign of the gradient; the local steps are simulated where they are few. Beside it what a known
model says of samples: its logits, and how well an update points where training on a sample does, which is FedMIA's
(Zhu et al. 2024).
"""

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, grad, vmap

from simfl.attacks.base import AttackerKnowledge
from simfl.core.errors import ScenarioError
from simfl.core.types import Floats, Integers, Vectors

RATE, DROPS = 0.1, (3 / 8, 5 / 8, 7 / 8)


@dataclass(frozen=True)
class Target:
    """The update to be matched, and the training that made it.

    Attributes:
        start: the model that training began from, (d,).
        update: what it made of it, (d,).
        labels: the classes of the samples, int64 (n,).
        steps: local steps that are simulated, each on all samples; 1 = one gradient.
        rate, momentum, weight_decay: of these steps.
    """

    start: Vectors
    update: Vectors
    labels: Integers
    steps: int = 1
    rate: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0


def match(
    knowledge: AttackerKnowledge, target: Target, first: Sequence[Vectors], steps: int, variation: float
) -> Vectors:
    """The samples of the least cost, (n, *shape).

    Args:
        target: what is to be explained.
        first: where each restart begins, (n, *shape) each.
        steps: of the optimiser.
        variation: weight of the total variation.
    """
    restarts = [_descent(knowledge, target, torch.from_numpy(begin.copy()), steps, variation) for begin in first]
    return min(restarts, key=lambda one: one[0])[1]


def takes_samples(knowledge: AttackerKnowledge, layer: str) -> bool:
    """Whether a layer, by its name, is given the samples themselves, and no activations of layers before it."""
    module, seen = copy.deepcopy(knowledge.module).eval(), list[torch.Tensor]()

    def note(layer: torch.nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        seen.append([*inputs, *named.values()][0])

    module.get_submodule(layer).register_forward_pre_hook(note, with_kwargs=True)
    samples = torch.linspace(-1, 2, 2 * prod(knowledge.shape)).view(2, *knowledge.shape)
    with torch.no_grad():
        try:
            module(samples)
        except Exception:  # a model of tokens, for instance, takes no decimals
            return False
    return bool(seen) and all(torch.equal(inputs.flatten(1), samples.flatten(1)) for inputs in seen)


def label_counts(knowledge: AttackerKnowledge, update: Vectors, samples: int, rate: float) -> Integers:
    """The classes of so many samples, from the change of the last bias: n_c / n = mean probability + change / rate.

    The probabilities are taken for equal. Of one sample the class is that of the only rising bias.
    """
    last = knowledge.trained_parameters[-1]
    ends = last.name == [name for name, _ in knowledge.module.named_parameters()][-1]
    if not ends or last.elements.stop - last.elements.start != knowledge.classes:
        raise ScenarioError("attacks", f"inversion reads labels off the last bias, and the last trained parameter is "
                                       f"'{last.name}'; use another attack, or a model that ends with one")  # fmt: skip
    rise = update[last.elements].astype(np.float64)
    if samples == 1:
        return np.array([int(rise.argmax())])
    share = np.maximum(1 / knowledge.classes + rise / rate, 0)
    wanted = share / share.sum() * samples if share.any() else np.full(knowledge.classes, samples / knowledge.classes)
    counts = np.floor(wanted).astype(np.int64)
    missing = samples - int(counts.sum())
    counts[np.argsort(counts - wanted, kind="stable")[:missing]] += 1
    return np.repeat(np.arange(knowledge.classes), counts)


def _descent(
    knowledge: AttackerKnowledge, target: Target, x: torch.Tensor, steps: int, variation: float
) -> tuple[float, Vectors]:
    start = torch.from_numpy(np.array(target.start))
    weights = knowledge.weights(start)
    aim = torch.from_numpy(target.update[: knowledge.trained_size].astype(np.float32))
    aim, labels = aim / aim.norm().clamp_min(1e-30), torch.from_numpy(target.labels)
    low, high = torch.from_numpy(knowledge.low), torch.from_numpy(knowledge.high)
    width = (high - low).clamp_min(1e-6)
    z = ((x - low) / width).requires_grad_()  # steps are shares of the range of values
    optimiser = torch.optim.Adam([z], lr=RATE)
    drops = torch.optim.lr_scheduler.MultiStepLR(optimiser, [int(steps * part) for part in DROPS], 0.1)
    best, cost = z.detach().clone(), float("inf")
    for _ in range(steps):
        optimiser.zero_grad()
        update = _update(knowledge, weights, target, low + width * z, labels)
        off = 1 - torch.dot(update, aim) / update.norm().clamp_min(1e-30)
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
    knowledge: AttackerKnowledge,
    weights: dict[str, torch.Tensor],
    target: Target,
    x: torch.Tensor,
    labels: torch.Tensor,
) -> torch.Tensor:
    """What training on the samples changes, (d,) without running statistics; up to a factor where it is one step."""
    now = {p.name: weights[p.name].detach().requires_grad_() for p in knowledge.trained_parameters}
    initial, speed = now, [torch.zeros_like(value) for value in now.values()]
    for _ in range(target.steps):
        loss = torch.nn.functional.cross_entropy(functional_call(knowledge.module, weights | now, (x,)), labels)
        slopes = torch.autograd.grad(loss, list(now.values()), create_graph=True, allow_unused=True)
        slopes = tuple(
            torch.zeros_like(v) if s is None else s + target.weight_decay * v  # what is not used is not moved
            for s, v in zip(slopes, now.values(), strict=True)
        )
        speed = [target.momentum * v + s for v, s in zip(speed, slopes, strict=True)]
        now = {name: value - target.rate * v for (name, value), v in zip(now.items(), speed, strict=True)}
    return torch.cat([(now[name] - initial[name]).flatten() for name in now])


def _variation(x: torch.Tensor) -> torch.Tensor:
    """Mean absolute difference of neighbouring pixels, down and across; 0 for samples that are no images."""
    if x.dim() != 4:
        return x.sum() * 0
    return (x[:, :, 1:] - x[:, :, :-1]).abs().mean() + (x[..., 1:] - x[..., :-1]).abs().mean()


NUMBERS = 1 << 23
"""Of single samples' gradients at a time."""


def alignments(knowledge: AttackerKnowledge, starts: Vectors, updates: Vectors, x: Vectors, y: Integers) -> Floats:
    """Cosines between each update, (m, d), and minus the gradient of each sample's loss, (m, n).

    Args:
        starts: where each update began, there the gradients are taken, (m, d).
        updates: running statistics do not count.
        x, y: the samples, (n, *shape) and (n,).
    """
    updates = updates[:, : knowledge.trained_size]
    cosines = np.empty((len(updates), len(x)))
    distinct, which = np.unique(starts, axis=0, return_inverse=True)
    lengths = np.maximum(np.linalg.norm(updates, axis=1), 1e-30)[:, None]
    directions = torch.from_numpy((updates / lengths).astype(np.float32))
    at_once = max(1, NUMBERS // updates.shape[1])
    for i, start in enumerate(distinct):
        mine = which.ravel() == i
        for first in range(0, len(x), at_once):
            some = slice(first, first + at_once)
            slopes = _slopes(knowledge, torch.from_numpy(start), torch.from_numpy(x[some]), torch.from_numpy(y[some]))
            cosines[mine, some] = -(directions[torch.from_numpy(mine)] @ slopes.T).double().numpy()
    return cosines


def _slopes(knowledge: AttackerKnowledge, start: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient of each sample's loss, of length 1, (n, d)."""
    all_of = knowledge.weights(start)

    def loss(trained: dict[str, torch.Tensor], one: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        logits = functional_call(knowledge.module, all_of | trained, (one[None],))
        return torch.nn.functional.cross_entropy(logits, label[None])

    trained = {p.name: all_of[p.name] for p in knowledge.trained_parameters}
    with warnings.catch_warnings():  # recurrent layers are computed sample by sample
        warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
        each = vmap(grad(loss), in_dims=(None, 0, 0))(trained, x, y)
    flat = torch.cat([each[p.name].flatten(1) for p in knowledge.trained_parameters], dim=1)
    return flat / flat.norm(dim=1, keepdim=True).clamp_min(1e-30)


BATCH = 500


def logits_of(knowledge: AttackerKnowledge, model: Vectors, x: Vectors) -> Floats:
    """float64 (n, classes) of samples (n, *shape) under a model (d,)."""
    flat = torch.from_numpy(np.array(model, dtype=np.float32))
    weights = knowledge.weights(flat)
    with torch.inference_mode():
        cuts = range(0, len(x), BATCH)
        parts = [functional_call(knowledge.module, weights, (torch.from_numpy(x[i : i + BATCH]),)) for i in cuts]
    return torch.cat(parts).double().numpy()
