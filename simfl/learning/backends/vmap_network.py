"""k copies of any module through torch.func.vmap. Imported only where torch is."""

from collections.abc import Sequence

import torch
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.functional import cross_entropy

from simfl.learning.backends.replicas import BlockReplicas
from simfl.learning.backends.update import StepBatch


class VmapNetwork(BlockReplicas):
    """All models' losses and gradients in one call; for the arguments see :class:`BlockReplicas`."""

    def __init__(self, module: torch.nn.Module, bf16: bool) -> None:
        super().__init__(module, bf16)
        names = [entry.name for entry in self.entries]

        def loss(
            parameters: tuple[torch.Tensor, ...],
            x: torch.Tensor,
            y: torch.Tensor,
            weight: torch.Tensor,
            masks: tuple[torch.Tensor, ...],
        ) -> torch.Tensor:
            self.masks.set_masks(masks)
            logits = functional_call(module, dict(zip(names, parameters, strict=True)), (x,))
            return (cross_entropy(logits.float(), y, reduction="none") * weight).sum()

        self.compute = vmap(grad_and_value(loss))

    def gradients(self, blocks: Sequence[torch.Tensor], batch: StepBatch) -> tuple[torch.Tensor, list[torch.Tensor]]:
        with torch.autocast(batch.x.device.type, torch.bfloat16, enabled=self.bf16):
            gradients, loss = self.compute(tuple(blocks), batch.x, batch.y, batch.weight, tuple(batch.masks))
        return loss, list(gradients)
