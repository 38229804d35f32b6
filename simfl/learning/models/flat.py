"""A module's parameters as one flat vector, the running statistics of its norm layers behind them.

Imported only where torch is.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import nn

from simfl.variant import Parameter

__all__ = ["NORMS", "STATISTICS", "Slot", "attach", "layout", "parameters", "size", "views"]

NORMS = (nn.GroupNorm, nn.LayerNorm, nn.modules.batchnorm._NormBase)
"""Layers that normalise."""

STATISTICS = ("running_mean", "running_var")
"""Buffers of a norm layer that training moves and evaluation uses."""


class Slot(NamedTuple):
    """Where a parameter or statistic lies in the flat vector: elements ``start`` .. ``start + prod(shape)``."""

    name: str
    start: int
    shape: tuple[int, ...]
    trained: bool = True


def layout(module: nn.Module) -> list[Slot]:
    """The slots of all parameters, in the module's own order, then those of all running statistics."""
    slots, start = [], 0
    for trained, tensors in ((True, module.named_parameters()), (False, _statistics(module))):
        for name, tensor in tensors:
            slots.append(Slot(name, start, tuple(tensor.shape), trained))
            start += tensor.numel()
    return slots


def _statistics(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase) and layer.track_running_stats:
            for statistic in STATISTICS:
                yield f"{name}.{statistic}" if name else statistic, layer.get_buffer(statistic)


def parameters(module: nn.Module) -> list[Parameter]:
    """The slots with the layers that own them, for client variants."""
    layers = dict(module.named_modules())
    owners = [layers[slot.name.rpartition(".")[0]] for slot in layout(module)]
    return [
        Parameter(slot.name, type(owner).__name__, slot.start, slot.shape, isinstance(owner, NORMS), not slot.trained)
        for slot, owner in zip(layout(module), owners, strict=True)
    ]


def size(slots: Sequence[Slot]) -> int:
    """Elements of the slots."""
    return sum(prod(slot.shape) for slot in slots)


def views(flat: torch.Tensor, slots: Sequence[Slot]) -> list[torch.Tensor]:
    """The slots as views of ``flat``, shape (..., d) with the leading axes kept."""
    lead = flat.shape[:-1]
    return [flat[..., s.start : s.start + prod(s.shape)].view(*lead, *s.shape) for s in slots]


def attach(module: nn.Module, flat: torch.Tensor) -> list[nn.Parameter]:
    """Makes the module's parameters and running statistics views of ``flat``, shape (d,), and returns the former."""
    slots = layout(module)
    parameters = list(module.parameters())
    for parameter, view in zip(parameters, views(flat, slots), strict=False):
        parameter.data = view
    for slot, view in zip(slots[len(parameters) :], views(flat, slots[len(parameters) :]), strict=True):
        owner, _, name = slot.name.rpartition(".")
        module.get_submodule(owner).register_buffer(name, view)
    return parameters
