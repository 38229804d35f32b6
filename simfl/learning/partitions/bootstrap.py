"""Clients that draw their samples from one pool: once with replacement, anew for every version of the model, or more of
them from version to version.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.errors import ScenarioError, amount
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


Count = Annotated[int, Field(ge=0, le=10**9)]


@PARTITIONS("growing")
@dataclass(frozen=True)
class GrowingData:
    """Every client begins with some samples and gets new ones with every version of the model; the rest is unused.

    ``cumulative``: it trains on all it has got so far; else on the newest only. After ``versions`` nothing new comes.
    Reference: Mugunthan, MIT 2022, Table 5.1 (USING_CUMULATIVE).
    """

    first: Annotated[
        Count | tuple[Count, ...], Field(description="samples a client begins with: a number, or one a client")
    ]
    new: Annotated[Count, Field(description="samples that each client gets with every further version")] = 0
    versions: Annotated[int, Field(ge=1, le=10**6, description="versions of the model that find something new")] = 1
    cumulative: Annotated[bool, Field(description="train on all that has come so far, not on the newest only")] = True

    example = {"first": 10}
    changes = True
    disjoint = True

    @property
    def accumulates(self) -> bool:
        return self.cumulative

    @property
    def counts_change(self) -> bool:
        first = {self.first} if isinstance(self.first, int) else set(self.first)
        return self.versions > 1 and (self.new > 0 if self.cumulative else first != {self.new})

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        first = np.full(clients, self.first) if isinstance(self.first, int) else np.array(self.first)
        if len(first) != clients:
            raise ScenarioError("first", f"has {amount(len(first), 'number')} for {amount(clients, 'client')}")
        sizes = first + self.new * (self.versions - 1)
        have = len(data.y_train)
        if sizes.sum() > have:
            raise ScenarioError("first", f"with all that is new makes {sizes.sum():,} samples; there are {have:,}")
        whole = Split.cut(rng.permutation(have)[: sizes.sum()], sizes)
        return Grown(whole.offsets, whole.indices, first, self.new, self.versions, self.cumulative)


@dataclass(frozen=True)
class Grown(Split):
    """Samples in the order of arrival, beginning with ``first``, int64 (clients,); else as in :class:`GrowingData`."""

    first: NDArray[np.int64]
    new: int
    versions: int
    cumulative: bool

    def samples_at(self, client: int, version: int) -> NDArray[np.int64]:
        begin, end = (int(edge) for edge in self._edges(np.int64(client), np.int64(version)))
        return self[client][begin:end]

    def counts(self, clients: NDArray[np.integer], versions: NDArray[np.integer]) -> NDArray[np.int64]:
        begin, end = self._edges(np.asarray(clients), np.asarray(versions))
        return end - begin

    def _edges(
        self, clients: NDArray[np.integer] | np.int64, versions: NDArray[np.integer] | np.int64
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where what is trained on begins and ends among all that a client ever gets."""
        version = np.minimum(versions, self.versions - 1)
        end = self.first[clients] + self.new * version
        newest = np.where(version > 0, self.first[clients] + self.new * (version - 1), 0)
        return np.where(self.cumulative, 0, newest), end
