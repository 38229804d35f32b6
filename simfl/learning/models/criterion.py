"""The loss that a module is trained on: cross-entropy, that of its method ``loss``, or one that the scenario names.

Imported only where torch is.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

NUMERIC: dict[str, Callable[..., torch.Tensor]] = {
    "mse": functional.mse_loss,
    "l1": functional.l1_loss,
    "huber": functional.huber_loss,
    "bce": functional.binary_cross_entropy_with_logits,
}
"""Losses of numbers: of each number of a target and of an output; Huber's turns from squares to lengths at 1."""

CROSS_ENTROPY = "cross_entropy"

NAMED = "named_loss"
"""The attribute of a module that says which of these it is trained on; copies and worker processes have it, too."""


def loss_method(module: torch.nn.Module) -> Loss | None:
    """What gives the loss of each sample, (n,), of ``(outputs, targets)``, where that is not plain cross-entropy: the
    loss that the scenario names, or the method ``loss`` of the module's class.
    """
    if (name := vars(module).get(NAMED)) is not None:
        return partial(_loss_of, name)
    return module.loss if callable(getattr(type(module), "loss", None)) else None  # type: ignore[return-value]


def _loss_of(name: str, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean over a sample's places, or over its target's numbers."""
    if name == CROSS_ENTROPY:
        each = functional.cross_entropy(outputs, targets, reduction="none")
    else:
        each = NUMERIC[name](outputs.reshape(targets.shape), targets, reduction="none")
    return each.reshape(len(targets), -1).mean(1)


def mean_loss(module: torch.nn.Module) -> Loss:
    """The mean loss of the samples of a step, of outputs and targets (n, ...).

    Raises:
        ValueError: when called: the module's method does not give one number a sample.
    """
    if (method := loss_method(module)) is None:
        return functional.cross_entropy
    each = method

    def mean(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        losses = each(outputs, targets)
        if tuple(losses.shape) != (len(targets),):
            shape, many = list(losses.shape), len(targets)
            raise ValueError(f"loss gives shape {shape} for {many} samples, not one number each (reduction='none')")
        return losses.float().mean()

    return mean


def sample_losses(module: torch.nn.Module, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of each sample, (n,), of outputs and targets (n, ...)."""
    method = loss_method(module)
    return functional.cross_entropy(outputs, targets, reduction="none") if method is None else method(outputs, targets)
