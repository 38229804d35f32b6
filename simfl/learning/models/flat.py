"""A module's trained parameters as one flat vector, the running statistics of its norm layers behind them.

Parameters with ``requires_grad=False`` are frozen: they stay in the module, as they are.

Imported only where torch is.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from simfl.clients.local_values import Parameter

NORMS = (nn.GroupNorm, nn.LayerNorm, nn.modules.batchnorm._NormBase)
"""Layers that normalise."""

STATISTICS = ("running_mean", "running_var")
"""Buffers of a norm layer that training moves and evaluation uses."""


class LayoutEntry(NamedTuple):
    """Where a parameter or statistic lies in the flat vector: elements ``start`` .. ``start + prod(shape)``."""

    name: str
    start: int
    shape: tuple[int, ...]
    trained: bool = True


def layout(module: nn.Module) -> list[LayoutEntry]:
    """The entries of all trained parameters, in the module's own order, then those of all running statistics."""
    entries, start = [], 0
    for trained, tensors in ((True, _parameters(module)), (False, _statistics(module))):
        for name, tensor in tensors:
            entries.append(LayoutEntry(name, start, tuple(tensor.shape), trained))
            start += tensor.numel()
    return entries


def is_recurrent(module: nn.Module) -> bool:
    """Whether it has an LSTM, a GRU or a plain recurrent layer."""
    return any(isinstance(layer, nn.RNNBase) for layer in module.modules())


def frozen(module: nn.Module) -> list[str]:
    """The names of its frozen parameters."""
    return [name for name, parameter in module.named_parameters() if not parameter.requires_grad]


def _parameters(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return ((name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad)


def _statistics(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase) and layer.track_running_stats:
            for statistic in STATISTICS:
                yield f"{name}.{statistic}" if name else statistic, layer.get_buffer(statistic)


def parameters(module: nn.Module) -> list[Parameter]:
    """The entries with the layers that own them, for client algorithms."""
    layers = dict(module.named_modules())
    owners = [layers[entry.name.rpartition(".")[0]] for entry in layout(module)]
    return [
        Parameter(
            entry.name, type(owner).__name__, entry.start, entry.shape, isinstance(owner, NORMS), not entry.trained
        )
        for entry, owner in zip(layout(module), owners, strict=True)
    ]


def size(entries: Sequence[LayoutEntry]) -> int:
    """Elements of all entries."""
    return sum(prod(entry.shape) for entry in entries)


def values(module: nn.Module) -> NDArray[np.float32]:
    """The module's own values of the entries, (d,), as they are now."""
    tensors = (tensor for _, tensor in (*_parameters(module), *_statistics(module)))
    parts = [tensor.detach().cpu().numpy().ravel() for tensor in tensors]
    return np.concatenate([*parts, np.empty(0, np.float32)]).astype(np.float32)


def views(flat: torch.Tensor, entries: Sequence[LayoutEntry]) -> list[torch.Tensor]:
    """The entries as views of ``flat``, shape (..., d) with the leading axes kept."""
    lead = flat.shape[:-1]
    return [flat[..., s.start : s.start + prod(s.shape)].view(*lead, *s.shape) for s in entries]


def attach(module: nn.Module, flat: torch.Tensor) -> list[nn.Parameter]:
    """Makes trained parameters and running statistics views of ``flat``, shape (d,), and returns the former."""
    entries = layout(module)
    parameters = [parameter for _, parameter in _parameters(module)]
    for parameter, view in zip(parameters, views(flat, entries), strict=False):
        parameter.data = view
    for entry, view in zip(entries[len(parameters) :], views(flat, entries[len(parameters) :]), strict=True):
        owner, _, name = entry.name.rpartition(".")
        module.get_submodule(owner).register_buffer(name, view)
    return parameters
