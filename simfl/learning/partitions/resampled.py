"""Clients that draw their samples anew from one pool, for every version of the model."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.errors import ScenarioError
from simfl.learning.data.base import Dataset
from simfl.learning.partitions.base import PARTITIONS, Split
from simfl.rng import Streams

__all__ = ["Resampled"]


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

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        have = len(data.y_train)
        if self.samples > have:
            raise ScenarioError("samples", f"is {self.samples:,}; there are {have:,}, the nearest valid value")
        drawn = Draws(
            np.arange(clients + 1, dtype=np.int64) * self.samples,
            np.empty(0, dtype=np.int64),
            have,
            Streams(int(rng.integers(2**62))),
        )
        first = np.concatenate([drawn.held(client, 0) for client in range(clients)])
        return Draws(drawn.offsets, first, have, drawn.streams)


@dataclass(frozen=True)
class Draws(Split):
    """What the clients draw; the first version's draws stand as the split itself.

    Attributes:
        have: samples to draw from.
        streams: the draws, by version and client.
    """

    have: int
    streams: Streams

    def held(self, client: int, version: int) -> NDArray[np.int64]:
        size = int(self.offsets[client + 1] - self.offsets[client])
        return self.streams("resampled", version, client).choice(self.have, size, replace=False)
