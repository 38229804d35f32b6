"""Clients that hold a few classes, and so many samples of each."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.learning.data.base import Dataset
from simfl.learning.partitions.assign import assign_classes, by_class
from simfl.learning.partitions.base import PARTITIONS, Split


@PARTITIONS("few_classes")
@dataclass(frozen=True)
class FewClasses:
    """A client holds ``samples`` training samples of each of ``classes`` classes; the rest of the data nobody holds.

    The classes are dealt so that each is somebody's about equally often; no sample is held twice. The setting of
    LotteryFL (Li et al. 2021) and of Mugunthan (MIT thesis, 2022), chapter 4.
    """

    classes: Annotated[int, Field(ge=1, le=10_000, description="classes of each client")] = 2
    samples: Annotated[int, Field(ge=1, le=10**9, description="samples of each of its classes")] = 50

    leaves_nobody_out = True
    disjoint = True

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        pools = by_class(data, rng)
        present = np.flatnonzero([len(pool) for pool in pools])
        if self.classes > len(present):
            raise ScenarioError("classes", f"is {self.classes}; the data have {len(present)} classes")
        rows = assign_classes(present, clients, self.classes, rng)
        holders = np.bincount(rows.ravel(), minlength=len(pools))
        if short := [label for label in present if holders[label] * self.samples > len(pools[label])]:
            most = min(len(pools[label]) // holders[label] for label in present if holders[label])
            raise ScenarioError(
                "samples",
                f"is {self.samples} for each of {holders[short[0]]} clients that hold a class of "
                f"{len(pools[short[0]])} samples; the nearest valid value is {most}",
            )
        used = np.zeros(len(pools), dtype=np.int64)
        parts = []
        for row in rows:
            parts.append(np.concatenate([pools[label][used[label] : used[label] + self.samples] for label in row]))
            used[row] += self.samples
        return Split.of(parts)
