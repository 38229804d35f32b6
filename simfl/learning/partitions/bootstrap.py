"""Clients that draw their samples from one pool: once with replacement, or anew for every version of the model."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
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


@PARTITIONS("resampled")
@dataclass(frozen=True)
class Resampled:
    """With every version of the model each client draws distinct samples from all training samples, as others do, too.

    Reference: Byrd, Mugunthan, Polychroniadou and Balch, "Collusion resistant federated learning with oblivious
    distributed differential privacy", ICAIF 2022, section 5.1.
    """

    samples: Annotated[int, Field(ge=1, le=10**9, description="samples of each client in every round")] = 200

    example = {"samples": 10}
    changes = True
    counts_change = False

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        have = len(data.y_train)
        if self.samples > have:
            raise ScenarioError("samples", f"is {self.samples:,}; there are {have:,}, the nearest valid value")
        draws = Draws(
            np.arange(clients + 1, dtype=np.int64) * self.samples,
            np.empty(0, dtype=np.int64),
            have,
            Streams(int(rng.integers(2**62))),
        )
        first = np.concatenate([draws.samples_at(client, 0) for client in range(clients)])
        return Draws(draws.offsets, first, have, draws.streams)


@dataclass(frozen=True)
class Draws(Split):
    """What clients draw from ``have`` samples; the first version's draws stand as the split itself."""

    have: int
    streams: Streams

    def samples_at(self, client: int, version: int) -> NDArray[np.int64]:
        size = int(self.offsets[client + 1] - self.offsets[client])
        return self.streams("resampled", version, client).choice(self.have, size, replace=False)
