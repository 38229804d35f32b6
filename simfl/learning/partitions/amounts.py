"""Clients that differ in how much they hold, not in what: from the beginning, or more from round to round."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.distributions import DistributionField, LogNormal, checked_draws
from simfl.core.errors import ScenarioError, amount
from simfl.learning.data.base import Dataset
from simfl.learning.partitions.base import PARTITIONS, Split, apportion


@PARTITIONS("quantity")
@dataclass(frozen=True)
class Quantity:
    """The samples are shuffled and divided in proportion to draws from a distribution; a client may go empty."""

    proportions: Annotated[DistributionField, Field(description="relative number of samples of a client")] = LogNormal(
        median=1.0, sigma=1.0
    )

    always_possible = True
    disjoint = True

    def split(self, data: Dataset, clients: int, rng: np.random.Generator) -> Split:
        samples = len(data.y_train)
        order = rng.permutation(samples)
        shares = checked_draws("proportions", self.proportions, self.proportions.sample(rng, clients))
        if not shares.sum() > 0:
            shares = np.ones(clients)
        return Split.cut(order, apportion(samples, shares))


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
