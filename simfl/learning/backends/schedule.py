"""The steps of several works side by side, every step padded to one shape. Imported only where torch is."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.learning.work import Work

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
