"""Independent and identically distributed clients."""

from dataclasses import dataclass

import numpy as np

from simfl.learning.data.base import Dataset
from simfl.learning.partitions.base import PARTITIONS, Split

__all__ = ["Iid"]


@PARTITIONS("iid")
@dataclass(frozen=True)
class Iid:
    """The samples are shuffled and dealt out in parts whose sizes differ by at most one."""

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        samples = len(data.y_train)
        sizes = np.full(clients, samples // clients)
        sizes[: samples % clients] += 1
        return Split.cut(rng.permutation(samples), sizes)
