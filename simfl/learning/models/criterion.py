"""The loss that a module is trained on: cross-entropy, or that of its method ``loss``. Imported only where torch is."""

from collections.abc import Callable

import torch
from torch.nn.functional import cross_entropy

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def loss_method(module: torch.nn.Module) -> Loss | None:
    """The method ``loss(outputs, targets)`` of a user's module, which gives the loss of each sample, (n,)."""
    method = getattr(module, "loss", None)
    return method if callable(method) else None


def mean_loss(module: torch.nn.Module) -> Loss:
    """The mean loss of the samples of a step, of outputs and targets (n, ...).

    Raises:
        ValueError: when called: the module's method does not give one number a sample.
    """
    if (method := loss_method(module)) is None:
        return cross_entropy
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
    return cross_entropy(outputs, targets, reduction="none") if method is None else method(outputs, targets)
