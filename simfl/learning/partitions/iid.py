"""Independent and identically distributed clients."""

from dataclasses import dataclass

import numpy as np

from simfl.learning.data.base import Dataset
from simfl.learning.partitions.assign import equal_sizes
from simfl.learning.partitions.base import PARTITIONS, Split


@PARTITIONS("iid")
@dataclass(frozen=True)
class Iid:
    """The samples are shuffled and dealt out in parts whose sizes differ by at most one."""

    always_possible = True
    leaves_nobody_out = True
    disjoint = True

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        samples = len(data.y_train)
        return Split.cut(rng.permutation(samples), equal_sizes(samples, clients))
