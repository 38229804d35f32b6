"""The steps of several works side by side, every step padded to one shape. Imported only where torch is."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from simfl.learning.work import Work

__all__ = ["Schedule", "cohorts", "schedule"]


@dataclass(frozen=True)
class Schedule:
    """Steps of k works, the longest work first.

    Attributes:
        chosen: int64, shape (steps, width, batch): samples of each step; padding points at sample 0.
        weight: float32, shape (steps, width, batch): 1 / samples of the step, 0 for padding.
        active: works that make step s, for every step: always the first so many.
        share: float64, shape (steps, width): the step's share of the work's reported loss.
        versions: int64, shape (steps, width, batch): of augmented images, or None.
    """

    chosen: torch.Tensor
    weight: torch.Tensor
    active: list[int]
    share: torch.Tensor
    versions: torch.Tensor | None


def cohorts(works: Sequence[Work], limit: int) -> list[list[int]]:
    """Positions of works that are trained together: equal rates, all or none shifted, at most ``limit`` at a time.

    The longest works come first, so that works of similar length share a cohort.
    """
    kind = [(work.rate, work.shift is None) for work in works]
    groups: list[list[int]] = []
    for i in sorted(range(len(works)), key=lambda i: (kind[i], -works[i].steps)):
        if groups and len(groups[-1]) < limit and kind[groups[-1][0]] == kind[i]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def schedule(works: Sequence[Work], width: int, batch: int, device: torch.device) -> Schedule:
    """The padded steps of works sorted by falling number of steps, beside idle ones up to ``width``.

    The shape of a step is always (., batch): a batched product's rounding must not depend on who else is in it.
    """
    counts = np.array([work.steps for work in works])
    sizes = [np.diff(work.bounds) for work in works]
    step = np.concatenate([np.repeat(np.arange(len(n)), n) for n in sizes])
    owner = np.repeat(np.arange(len(works)), [len(work.order) for work in works])
    first = np.concatenate([np.repeat(work.bounds[:-1], n) for work, n in zip(works, sizes, strict=True)])
    place = np.concatenate([np.arange(len(work.order)) for work in works]) - first
    shape = (int(counts[0]), width, batch)
    chosen = np.zeros(shape, dtype=np.int64)
    chosen[step, owner, place] = np.concatenate([work.order for work in works])
    versions = None
    if works[0].versions is not None:
        versions = np.zeros(shape, dtype=np.int64)
        versions[step, owner, place] = np.concatenate([work.versions for work in works])
        versions = torch.from_numpy(versions).to(device)
    weight = np.zeros(shape, dtype=np.float32)
    weight[step, owner, place] = 1 / np.concatenate([np.repeat(n, n) for n in sizes])
    share = np.zeros(shape[:2])
    for i, (work, n) in enumerate(zip(works, sizes, strict=True)):
        share[work.last_pass : work.steps, i] = n[work.last_pass :] / n[work.last_pass :].sum()
    active = (counts > np.arange(counts[0])[:, None]).sum(axis=1)
    return Schedule(
        torch.from_numpy(chosen).to(device),
        torch.from_numpy(weight).to(device),
        active.tolist(),
        torch.from_numpy(share).to(device),
        versions,
    )
