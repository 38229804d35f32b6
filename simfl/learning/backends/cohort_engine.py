"""Many works at once, step by step. Imported only where torch is."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.learning.backends.base import TrainingTask
from simfl.learning.backends.batch import take
from simfl.learning.backends.schedule import cohorts, schedule
from simfl.learning.backends.update import Product, StepBatch, stepper
from simfl.learning.models.dropout import Masks
from simfl.learning.work import Work


class NetworkReplicas(Protocol):
    """k copies of a model. A block holds one parameter of all of them, its first axis counting the copies.

    Behind the ``trained`` blocks, the parameters, stand running statistics.
    """

    trained: int

    def inputs(self, x: torch.Tensor) -> torch.Tensor:
        """Samples (n, *shape) in the form in which :meth:`gradients` takes them."""
        ...

    def blocks(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The blocks of k flat vectors, (k, d), copied."""
        ...

    def flat(self, blocks: Sequence[torch.Tensor]) -> torch.Tensor:
        """The flat vectors (k, d) of blocks."""
        ...

    def gradients(
        self, blocks: Sequence[torch.Tensor], batch: StepBatch
    ) -> tuple[torch.Tensor | None, list[torch.Tensor | Product] | list[torch.Tensor]]:
        """Sum of weight times cross-entropy, (k,), and its gradient for each parameter; running statistics move in
        place.
        """
        ...


class CohortEngine:
    """Trains works in cohorts of at most ``limit``, every step of all of them in one pass of a network.

    Args:
        limit: works in a cohort: bounds memory, and small cohorts stay in the cache.
        fixed: fill every cohort up to the limit with idle copies, where a network's rounding depends on how many
            copies there are.
    """

    def __init__(self, task: TrainingTask, network: NetworkReplicas, limit: int, fixed: bool = False) -> None:
        self.task, self.network, self.limit, self.fixed = task, network, limit, fixed
        self.masks = Masks(task.module)
        self.buffer: torch.Tensor | None = None
        augmented = task.crop or task.flip
        self.x = task.x if augmented else network.inputs(task.x)

    def train(self, works: Sequence[Work]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        groups = cohorts(works, self.limit)
        if groups[0] == list(range(len(works))):
            return self._cohort(works)
        deltas = np.empty((len(works), len(works[0].start)), dtype=np.float32)
        loss = np.empty(len(works))
        for group in groups:
            deltas[group], loss[group] = self._cohort([works[i] for i in group])
        return deltas, loss

    def _cohort(self, works: Sequence[Work]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        n, device, repeats = len(works), self.x.device, 1
        if works[0].steady:  # as are all of them, and equally long: their samples are taken once
            works, repeats = [work.first for work in works], works[0].steps
        width = self.limit if self.fixed else n
        start = self._stack([work.start for work in works], width)
        plan = schedule(works, width, self.task.batch_size, device)
        loss = torch.zeros(width, dtype=torch.float64, device=device)
        with torch.no_grad():
            blocks = self.network.blocks(start)
            shift, mask = (self._blocks(vectors, width) for vectors in zip(*((w.shift, w.mask) for w in works)))
            trained = blocks[: self.network.trained]
            step = stepper(trained, works[0], self.task.sgd, shift, mask)
            rngs = [work.dropout() for work in works if work.dropout] if self.masks.layers else []
            for s, active in enumerate(plan.frame.active):
                k = width if self.fixed else active
                chosen = plan.chosen[s, :k]
                x = self._samples(chosen, None if plan.versions is None else plan.versions[s, :k])
                y = self.task.y.index_select(0, chosen.reshape(-1)).view(k, -1)
                here, weight = [block[:k] for block in blocks], plan.frame.weight[s, :k]
                moving = [block[:active] for block in trained]
                for left in reversed(range(repeats)):
                    noted = plan.frame.noted[s] and not left
                    masks = self._masks(rngs[:active], [work.step_size(s) for work in works[:active]], k)
                    row, gradients = self.network.gradients(here, StepBatch(x, y, weight, noted, masks))
                    step(moving, gradients)
                    if row is not None and noted:
                        loss[:k].add_(row.double() * plan.frame.share[s, :k])
            delta = self.network.flat(blocks)[:n].sub_(start[:n])
        return delta.cpu().numpy(), loss[:n].cpu().numpy()

    def _blocks(self, vectors: Sequence[NDArray[np.generic] | None], width: int) -> list[torch.Tensor] | None:
        if vectors[0] is None:
            return None
        stacked = self._stack([np.asarray(vector, dtype=np.float32) for vector in vectors], width)
        return self.network.blocks(stacked)[: self.network.trained]

    def _stack(self, vectors: Sequence[NDArray[np.float32]], width: int) -> torch.Tensor:
        """Flat vectors as rows, (width, d); what stands after the last one does not matter."""
        if all(vector is vectors[0] for vector in vectors):
            return torch.from_numpy(vectors[0]).to(self.x.device).expand(width, -1)
        rows = np.zeros((width, len(vectors[0])), dtype=np.float32)
        np.stack(vectors, out=rows[: len(vectors)])
        return torch.from_numpy(rows).to(self.x.device)

    def _masks(self, rngs: Sequence[np.random.Generator], sizes: Sequence[int], width: int) -> list[torch.Tensor]:
        if not rngs:
            return []
        return [part.to(self.x.device) for part in self.masks.stack_masks(rngs, sizes, width, self.task.batch_size)]

    def _samples(self, chosen: torch.Tensor, versions: torch.Tensor | None) -> torch.Tensor:
        flat = chosen.reshape(-1)
        if versions is not None:
            x = self.network.inputs(take(self.x, flat, versions.reshape(-1), self.task.crop))
        else:
            if self.buffer is None or len(self.buffer) < len(flat):
                self.buffer = self.x.new_empty(len(flat), *self.x.shape[1:])
            # kept from step to step: new memory of this size would come from the system each time
            x = torch.index_select(self.x, 0, flat, out=self.buffer[: len(flat)])
        return torch.unflatten(x, 0, chosen.shape)
