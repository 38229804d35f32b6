"""k copies of any module through torch.func.vmap. Imported only where torch is."""

from collections.abc import Sequence

import torch
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.functional import cross_entropy

from simfl.learning.models.flat import layout, views

__all__ = ["VmapNetwork"]


class VmapNetwork:
    """Blocks are (k, *shape), one a parameter of the module.

    Args:
        module: the model.
        bf16: compute products in bfloat16 (autocast); parameters and sums stay float32.
    """

    def __init__(self, module: torch.nn.Module, bf16: bool) -> None:
        self.slots = layout(module)
        names = [slot.name for slot in self.slots]

        def loss(parameters, x, y, weight):
            logits = functional_call(module, dict(zip(names, parameters, strict=True)), (x,))
            return (cross_entropy(logits.float(), y, reduction="none") * weight).sum()

        self.compute = vmap(grad_and_value(loss))
        self.bf16 = bf16

    def inputs(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def blocks(self, flat: torch.Tensor) -> list[torch.Tensor]:
        return [view.clone(memory_format=torch.contiguous_format) for view in views(flat, self.slots)]

    def flat(self, blocks: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat([block.flatten(1) for block in blocks], dim=1)

    def gradients(
        self, blocks: Sequence[torch.Tensor], x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, list]:
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.bf16):
            gradients, loss = self.compute(tuple(blocks), x, y, weight)
        return loss, list(gradients)
