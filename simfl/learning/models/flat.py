"""A module's parameters as one flat vector. Imported only where torch is."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import torch

from simfl.variant import Parameter

__all__ = ["Slot", "layout", "parameters", "size", "views", "attach"]


class Slot(NamedTuple):
    """Where a parameter lies in the flat vector: elements ``start`` .. ``start + prod(shape)``."""

    name: str
    start: int
    shape: tuple[int, ...]


def layout(module: torch.nn.Module) -> list[Slot]:
    """The slots of all parameters, in the module's own order."""
    slots, start = [], 0
    for name, parameter in module.named_parameters():
        slots.append(Slot(name, start, tuple(parameter.shape)))
        start += parameter.numel()
    return slots


def parameters(module: torch.nn.Module) -> list[Parameter]:
    """The slots with the layers that own them, for client variants."""
    layers = dict(module.named_modules())
    return [
        Parameter(slot.name, type(layers[slot.name.rpartition(".")[0]]).__name__, slot.start, slot.shape)
        for slot in layout(module)
    ]


def size(slots: Sequence[Slot]) -> int:
    """Number of parameters."""
    return sum(prod(slot.shape) for slot in slots)


def views(flat: torch.Tensor, slots: Sequence[Slot]) -> list[torch.Tensor]:
    """The parameters as views of ``flat``, shape (..., d) with the leading axes kept."""
    lead = flat.shape[:-1]
    return [flat[..., s.start : s.start + prod(s.shape)].view(*lead, *s.shape) for s in slots]


def attach(module: torch.nn.Module, flat: torch.Tensor) -> list[torch.nn.Parameter]:
    """Makes the module's parameters views of ``flat``, shape (d,), and returns them."""
    parameters = list(module.parameters())
    for parameter, view in zip(parameters, views(flat, layout(module)), strict=True):
        parameter.data = view
    return parameters
