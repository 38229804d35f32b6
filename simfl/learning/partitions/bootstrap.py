"""Clients that each hold a bootstrap sample of one pool: as many clients as wanted, whatever the data set."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.learning.data.base import Dataset
from simfl.learning.partitions.base import PARTITIONS, Split

MOST = 10**9
"""Positions in all, 8 GB."""


@PARTITIONS("bootstrap")
@dataclass(frozen=True)
class Bootstrap:
    """Every client holds so many samples, drawn once from all training samples with replacement, as others do, too.

    Clients are independent and identically distributed, and hold positions only: a million of them with 20 samples each
    take 160 MB, on a data set of any size. Reference: Efron, Annals of Statistics 7, 1979 (the bootstrap).
    """

    samples: Annotated[int, Field(ge=1, le=10**9, description="samples of each client")] = 20

    example = {"samples": 10}
    always_possible = True
    leaves_nobody_out = True

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        if clients * self.samples > MOST:
            nearest = max(1, MOST // clients)
            raise ScenarioError("samples", f"is {self.samples:,}; {clients:,} clients can hold {nearest:,} each")
        indices = rng.integers(len(data.y_train), size=clients * self.samples)
        return Split(np.arange(clients + 1, dtype=np.int64) * self.samples, indices)
