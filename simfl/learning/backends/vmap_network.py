"""k copies of any module through torch.func.vmap. Imported only where torch is."""

from collections.abc import Sequence

import torch
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.functional import cross_entropy

from simfl.learning.backends.copies import Copies

__all__ = ["VmapNetwork"]


class VmapNetwork(Copies):
    """All models' losses and gradients in one call; for the arguments see :class:`Copies`."""

    def __init__(self, module: torch.nn.Module, bf16: bool) -> None:
        super().__init__(module, bf16)
        names = [slot.name for slot in self.slots]

        def loss(parameters, x, y, weight, masks):
            self.masks.hand(masks)
            logits = functional_call(module, dict(zip(names, parameters, strict=True)), (x,))
            return (cross_entropy(logits.float(), y, reduction="none") * weight).sum()

        self.compute = vmap(grad_and_value(loss))

    def gradients(
        self,
        blocks: Sequence[torch.Tensor],
        x: torch.Tensor,
        y: torch.Tensor,
        weight: torch.Tensor,
        noted: bool,
        masks: Sequence[torch.Tensor] = (),
    ) -> tuple[torch.Tensor, list]:
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.bf16):
            gradients, loss = self.compute(tuple(blocks), x, y, weight, tuple(masks))
        return loss, list(gradients)
