"""Dropout whose masks are drawn by simfl, not by torch. Imported only where torch is."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from simfl.core.errors import ScenarioError

LEVELS = 2**16
"""A unit is dropped with a probability that is a whole number of these."""

WHOLE = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
"""Layers that drop whole channels."""


class KeyedDropout(nn.Module):
    """Drops units, or whole channels, by masks that it is handed; what remains is scaled so that the mean stays.

    As torch.nn.Dropout and Dropout2d (Srivastava et al. 2014), with the probability rounded to 1/65,536. In
    evaluation it does nothing.

    Attributes:
        shapes: of one sample's mask, for each time that a pass through the model uses the layer.
        pending: the masks of the next pass, in the order in which they are used.
    """

    def __init__(self, probability: float, channels: bool) -> None:
        super().__init__()
        self.dropped, self.channels = round(LEVELS * probability), channels
        self.shapes: list[tuple[int, ...]] = []
        self.pending: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return x
        if not self.pending:
            raise RuntimeError("a dropout layer was handed no mask for this pass")
        return x * self.pending.pop(0).to(x.dtype)

    def shape(self, sample: tuple[int, ...]) -> tuple[int, ...]:
        """The mask's shape for an input of this shape, both of one sample."""
        return (sample[0], *[1] * (len(sample) - 1)) if self.channels else sample


def key_dropout(module: nn.Module) -> None:
    """Puts a :class:`KeyedDropout` in the place of each of torch's dropout layers inside a module.

    Raises:
        ScenarioError: one drops everything.
    """
    known: dict[nn.Module, nn.Module] = {}  # a layer that is used in several places stays one layer
    for owner in list(module.modules()):
        for name, layer in list(owner._modules.items()):
            if isinstance(layer, (nn.Dropout, *WHOLE)):
                if layer not in known:
                    known[layer] = _replacement(layer)
                setattr(owner, name, known[layer])


def _replacement(layer: nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d) -> nn.Module:
    dropped = round(LEVELS * layer.p)
    if dropped == LEVELS:
        raise ScenarioError("model", f"has a dropout layer of probability {layer.p:g}, which drops everything")
    return KeyedDropout(layer.p, isinstance(layer, WHOLE)) if dropped else nn.Identity()


@contextmanager
def trial_pass(module: nn.Module) -> Iterator[None]:
    """A block in which the module makes one pass, dropping nothing; its layers learn the shapes of their masks."""
    layers = _layers(module)

    def note(layer: KeyedDropout, inputs: tuple[torch.Tensor]) -> None:
        layer.shapes.append(layer.shape(tuple(inputs[0].shape[1:])))
        layer.pending = [torch.ones(())]

    hooks = [layer.register_forward_pre_hook(note) for layer in layers]
    try:
        yield
    finally:
        for layer, hook in zip(layers, hooks, strict=True):
            hook.remove()
            layer.pending = []


def _layers(module: nn.Module) -> list[KeyedDropout]:
    return [layer for layer in module.modules() if isinstance(layer, KeyedDropout)]


class Masks:
    """The masks of a module that has made its :func:`trial_pass`: what they are drawn for and where they are handed.

    A mask is numbered with its channels last, so that it lies in memory as convolutions compute.
    """

    def __init__(self, module: nn.Module) -> None:
        self.layers = _layers(module)
        self.uses = [(layer.dropped, shape) for layer in self.layers for shape in layer.shapes]
        self.shapes = [shape for _, shape in self.uses]

    def draw(self, rng: np.random.Generator, samples: int) -> list[NDArray[np.float32]]:
        """For each use, a value for each unit of some samples, (samples, *shape): 0 or what the unit is scaled by."""
        masks = []
        for dropped, shape in self.uses:
            words = rng.bit_generator.random_raw(-(-samples * prod(shape) // 4))  # four levels in each
            levels = words.astype("<u8", copy=False).view("<u2")[: samples * prod(shape)]
            scale = np.float32(LEVELS / (LEVELS - dropped))
            mask = np.multiply(levels >= dropped, scale, dtype=np.float32)
            masks.append(np.moveaxis(mask.reshape(samples, *shape[1:], shape[0]), -1, 1))
        return masks

    def stack_masks(
        self, rngs: Sequence[np.random.Generator], sizes: Sequence[int], width: int, batch: int
    ) -> list[torch.Tensor]:
        """The masks of one step of works side by side, (width, batch, *shape) each; 0 in what fills up the step.

        ``sizes`` are the samples of each work's step, ``batch`` those of the largest step.
        """
        buffers = [np.zeros((batch, *shape[1:], width, shape[0]), dtype=np.float32) for shape in self.shapes]
        for i, (rng, size) in enumerate(zip(rngs, sizes, strict=True)):
            for buffer, mask in zip(buffers, self.draw(rng, size), strict=True):
                buffer[:size, ..., i, :] = np.moveaxis(mask, 1, -1)
        return [torch.from_numpy(np.moveaxis(buffer, (-2, -1), (0, 2))) for buffer in buffers]

    def set_masks(self, masks: Sequence[torch.Tensor]) -> None:
        """Hands masks, one for each use, to the layers for the next pass."""
        rest = iter(masks)
        for layer in self.layers:
            layer.pending = [next(rest) for _ in layer.shapes]
