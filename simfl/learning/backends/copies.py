"""What networks share that keep each parameter of k models as one block (k, *shape). Imported only where torch is."""

from collections.abc import Sequence

import torch

from simfl.learning.models.dropout import Masks
from simfl.learning.models.flat import layout, views

__all__ = ["Copies"]


class Copies:
    """The part of a :class:`simfl.learning.backends.cohort_engine.Network` that moves parameters.

    Args:
        module: the model.
        bf16: compute products in bfloat16 (autocast); parameters and sums stay float32.
    """

    def __init__(self, module: torch.nn.Module, bf16: bool) -> None:
        self.slots = layout(module)
        self.trained = sum(slot.trained for slot in self.slots)
        self.masks = Masks(module)
        self.bf16 = bf16

    def inputs(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def blocks(self, flat: torch.Tensor) -> list[torch.Tensor]:
        return [view.clone(memory_format=torch.contiguous_format) for view in views(flat, self.slots)]

    def flat(self, blocks: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat([block.flatten(1) for block in blocks], dim=1)
