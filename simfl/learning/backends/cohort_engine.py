"""Many works at once, every step of them side by side, padded to one shape. Imported only where torch is."""

import copy
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from math import prod
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.learning.backends.base import TrainingTask
from simfl.learning.backends.update import Product, StepBatch, stepper, take
from simfl.learning.models.dropout import Masks
from simfl.learning.work import Work


class NetworkReplicas(Protocol):
    """k copies of a model. A block holds one parameter of all of them, its first axis counting the copies.

    Behind the ``trained`` blocks, the parameters, stand running statistics.
    """

    trained: int

    def inputs(self, x: torch.Tensor) -> torch.Tensor:
        """Samples (n, *shape) in the form in which :meth:`gradients` takes them."""

    def blocks(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The blocks of k flat vectors, (k, d), copied."""

    def flat(self, blocks: Sequence[torch.Tensor]) -> torch.Tensor:
        """The flat vectors (k, d) of blocks."""

    def gradients(
        self, blocks: Sequence[torch.Tensor], batch: StepBatch
    ) -> tuple[torch.Tensor | None, list[torch.Tensor | Product] | list[torch.Tensor]]:
        """Sum of weight times cross-entropy, (k,), and each parameter's gradient; running statistics move in place."""


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
                    masks = self._masks(
                        rngs[:active], [work.bounds[s + 1] - work.bounds[s] for work in works[:active]], k
                    )
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


PARAMETERS = 8
"""Vectors of a model's length in training: start, parameters, gradient and its copy, velocity, shift, mask, delta."""

ACTIVATIONS = 3
"""Times that a layer's output is there: kept for the way back, its gradient, and what a layer needs while it works."""

SHARE = 0.3
"""Of the device's memory, so that two runs fit into it; their samples and libraries have the rest."""


def numbers(task: TrainingTask) -> tuple[int, int]:
    """Parameters of the task's model, running statistics included, and outputs of all its layers for one sample."""
    module = copy.deepcopy(task.module).to("meta").eval()
    outputs = [prod(task.x.shape[1:])]
    for layer in module.modules():
        if not list(layer.children()):
            layer.register_forward_hook(lambda layer, inputs, result: outputs.append(result.numel()))
    with torch.no_grad():
        module(torch.empty((1, *task.x.shape[1:]), dtype=task.x.dtype, device="meta"))
    return sum(part.numel() for part in module.state_dict().values()), sum(outputs)


def fitting(memory_bytes: int, parameters: int, outputs: int, batch_size: int, most: int) -> int:
    """Copies that fit into a share of the memory, between 1 and ``most``."""
    one_bytes = 4 * (PARAMETERS * parameters + ACTIVATIONS * outputs * batch_size)
    return max(1, min(most, int(SHARE * memory_bytes) // one_bytes))


def replica_count(task: TrainingTask, most: int) -> int:
    """For the task's device: by all of its memory, not by what is free, so that the same device gives the same bits."""
    memory_bytes = torch.cuda.get_device_properties(task.x.device).total_memory
    return fitting(memory_bytes, *numbers(task), task.batch_size, most)


REMEMBERED = 20_000
"""Frames of up to so many samples are kept for the next round: clients are often equally large."""


class Frame(NamedTuple):
    """The layout of padded steps, which depends on the lengths of works only. Read-only, since it is cached.

    Attributes:
        place: int64: flat position of each used sample in (steps, width, batch), the works one behind the other.
        weight: float32, shape (steps, width, batch): 1 / samples of the step, 0 for padding.
        active: works that make step s, for every step: always the first so many.
        share: float64, shape (steps, width): the step's share of the work's reported loss.
        noted: for every step, whether any share is not zero.
    """

    place: NDArray[np.int64]
    weight: torch.Tensor
    active: list[int]
    share: torch.Tensor
    noted: list[bool]


class StepSchedule(NamedTuple):
    """A frame and the samples at its positions, int64 (steps, width, batch); padding points at sample 0.

    ``versions`` are those of augmented images, or None.
    """

    frame: Frame
    chosen: torch.Tensor
    versions: torch.Tensor | None


def cohorts(works: Sequence[Work], limit: int) -> list[list[int]]:
    """Positions of works that are trained together: of one kind, ``limit`` at most.

    Of one kind are those of equal rates, proximal and distance terms, all or none of them shifted and masked, all
    equally often steady or none. The longest works come first, so that works of similar length share a cohort.
    """
    kind = [(w.rate, w.proximal, w.distance, w.steady * w.steps, w.shift is None, w.mask is None) for w in works]
    groups: list[list[int]] = []
    for i in sorted(range(len(works)), key=lambda i: (kind[i], -works[i].steps)):
        if groups and len(groups[-1]) < limit and kind[groups[-1][0]] == kind[i]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def schedule(works: Sequence[Work], width: int, batch: int, device: torch.device) -> StepSchedule:
    """The padded steps of works sorted by falling number of steps, beside idle ones up to ``width``.

    The shape of a step is always (., batch): a batched product's rounding must not depend on who else is in it.
    """
    samples = sum(len(work.order) for work in works)
    make = _remembered if samples <= REMEMBERED else _frame
    bounds, last = tuple(work.bounds for work in works), tuple(work.last_pass for work in works)
    frame = make(bounds, last, width, batch, device)

    def spread(parts: list[NDArray[np.int64]]) -> torch.Tensor:
        cells = np.zeros(tuple(frame.weight.shape), dtype=np.int64)
        cells.ravel()[frame.place] = np.concatenate(parts)
        return torch.from_numpy(cells).to(device)

    versions = (
        None if works[0].versions is None else spread([work.versions for work in works if work.versions is not None])
    )
    return StepSchedule(frame, spread([work.order for work in works]), versions)


def _frame(
    bounds: tuple[tuple[int, ...], ...], last_pass: tuple[int, ...], width: int, batch: int, device: torch.device
) -> Frame:
    steps = np.array([len(edges) - 1 for edges in bounds])
    sizes = np.diff(list(chain.from_iterable(bounds)))
    sizes = np.delete(sizes, np.cumsum(steps + 1)[:-1] - 1)  # without the seams between works
    row = np.repeat(np.arange(len(bounds)), steps)
    step = _within(steps)
    shape = (int(steps[0]), width, batch)
    place = np.repeat((step * width + row) * batch, sizes) + _within(sizes)
    weight = np.zeros(shape, dtype=np.float32)
    weight.ravel()[place] = np.repeat(1 / sizes, sizes)
    counted = sizes * (step >= np.repeat(last_pass, steps))
    share = np.zeros(shape[:2])
    share[step, row] = counted / np.bincount(row, weights=counted)[row]
    return Frame(
        place,
        torch.from_numpy(weight).to(device),
        np.bincount(step).tolist(),
        torch.from_numpy(share).to(device),
        np.asarray(share.any(axis=1)).tolist(),
    )


_remembered = lru_cache(maxsize=256)(_frame)


def _within(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """0 .. n - 1 for each n in ``counts``, one behind the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
