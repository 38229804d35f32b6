"""Masks of weights: which can be pruned, which are, and what is sent of a model that has some."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simfl.variant import Parameter

__all__ = ["LAYERS", "packed", "prunable", "pruned", "unpacked"]

LAYERS = ("Linear", "Conv1d", "Conv2d", "Conv3d")
"""Layers whose weights (never biases) are pruned."""

Mask = NDArray[np.bool_]


def prunable(parameters: Sequence[Parameter]) -> tuple[slice, ...]:
    """Where the weights of linear and convolutional layers lie, layer by layer."""
    return tuple(p.elements for p in parameters if p.layer in LAYERS and p.name.rpartition(".")[2] == "weight")


def pruned(model: NDArray[np.float32], mask: Mask, layers: Sequence[slice], share: float) -> Mask:
    """A mask without this share of each layer's remaining weights, the smallest in magnitude.

    As ``torch.nn.utils.prune.l1_unstructured`` applied again and again: the number is rounded, half to even.

    Args:
        model: values, (d,).
        mask: bool (d,): the weights that remain.
        layers: where each layer's weights lie.
        share: of the remaining weights, 0 ... 1.
    """
    mask = mask.copy()
    for layer in layers:
        left = np.flatnonzero(mask[layer])
        if drop := round(share * len(left)):
            order = np.argpartition(np.abs(model[layer][left]), drop - 1)
            mask[layer.start + left[order[:drop]]] = False
    return mask


def packed(mask: Mask) -> NDArray[np.uint8]:
    """Eight coordinates a byte."""
    return np.packbits(mask)


def unpacked(bits: NDArray[np.uint8], dimension: int) -> Mask:
    """Undoes :func:`packed`."""
    return np.unpackbits(bits, count=dimension).view(np.bool_)
