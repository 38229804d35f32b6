"""What networks share that keep each parameter of k models as one block (k, *shape). Imported only where torch is."""

from collections.abc import Sequence

import torch

from simfl.learning.models.dropout import Masks
from simfl.learning.models.flat import layout, views


class BlockReplicas:
    """The part of a :class:`simfl.learning.backends.cohort_engine.NetworkReplicas` that moves parameters.

    With ``bf16`` products are computed in bfloat16 (autocast); parameters and sums stay float32.
    """

    def __init__(self, module: torch.nn.Module, bf16: bool) -> None:
        self.entries = layout(module)
        self.trained = sum(entry.trained for entry in self.entries)
        self.masks = Masks(module)
        self.bf16 = bf16

    def inputs(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def blocks(self, flat: torch.Tensor) -> list[torch.Tensor]:
        return [view.clone(memory_format=torch.contiguous_format) for view in views(flat, self.entries)]

    def flat(self, blocks: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat([block.flatten(1) for block in blocks], dim=1)
