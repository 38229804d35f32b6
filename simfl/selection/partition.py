"""User partitioning, one of N/K fixed groups (MR section 3.3), and batch partitioning (MR section 4).

Half partitioning (HP) has more rows than batches at the same semi-strong guarantee.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from pydantic import Field

from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Units, View
from simfl.selection.base import POLICIES, Mode, Shuffle, nobody, resolve_mode
from simfl.selection.units import blocks, circle
from simfl.selection.units.circle import cheapest_starts
from simfl.selection.units.sizes import Problem, group_problems, order_problems, unit_problems

if TYPE_CHECKING:
    from simfl.selection.theory.families import DisjointUnits, NeighbourPairs


@POLICIES("partition")
@dataclass(frozen=True)
class PartitionSelection:
    """One of N/K fixed groups of K clients, all of it available: the one that holds the least-used client.

    Group g is the clients gK .. gK+K-1 (permuted by ``shuffle``). ``auto`` is ``fair`` whatever the dropout rates,
    as in the paper. Reference: arXiv 2106.03328, section 3.3.
    """

    k: Annotated[int, Field(ge=1, description="clients in a group; divides the number of clients")]
    mode: Annotated[Mode, Field(description="which available group: fair (auto), uniform or least_total")] = "auto"
    shuffle: Annotated[Shuffle, Field(description="assign clients to groups by the seed, or in this order")] = False

    example = {"k": 4}

    @property
    def unit_size(self) -> int:
        return self.k

    @property
    def uniform(self) -> bool:
        return self.mode == "uniform"

    def check(self, setting: ScenarioView) -> list[Problem]:
        return group_problems(self.k, setting.clients) or order_problems(self.shuffle, setting.clients)

    def resolve(self, setting: ScenarioView) -> Self:
        return replace(self, mode="fair") if self.mode == "auto" else self

    def family(self, clients: int) -> "DisjointUnits":
        from simfl.selection.theory.families import DisjointUnits

        return DisjointUnits(clients, self.k, self.k)

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        return blocks.choose(view, self.k, k, "fair" if self.mode == "auto" else self.mode, rng)


@POLICIES("batch_partition")
@dataclass(frozen=True)
class BatchPartitionSelection:
    """K/T of N/T fixed batches of T clients, each wholly available; a batch takes part together or not at all.

    Batch b is the clients bT .. bT+T-1 (permuted by ``shuffle``). T = 1 is random selection, T = K the partition.
    Reference: arXiv 2106.03328, section 4, Algorithms 1 and 2.
    """

    k: Annotated[int, Field(ge=1, description="clients in an aggregation; a multiple of T")]
    T: Annotated[int, Field(ge=1, description="clients in a batch, the privacy guarantee; divides k and the clients")]
    mode: Annotated[Mode, Field(description="which available batches")] = "auto"
    shuffle: Annotated[Shuffle, Field(description="assign clients to batches by the seed, or in this order")] = False

    example = {"k": 4, "T": 2}

    @property
    def unit_size(self) -> int:
        return self.T

    @property
    def uniform(self) -> bool:
        return self.mode == "uniform"

    def check(self, setting: ScenarioView) -> list[Problem]:
        sizes = unit_problems(self.k, self.T, setting.clients, halves=False)
        return sizes or order_problems(self.shuffle, setting.clients)

    def resolve(self, setting: ScenarioView) -> Self:
        return resolve_mode(self, setting)

    def family(self, clients: int) -> "DisjointUnits":
        from simfl.selection.theory.families import DisjointUnits

        return DisjointUnits(clients, self.k, self.T)

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        return blocks.choose(view, self.T, k, self.mode, rng)


@POLICIES("half_partition")
@dataclass(frozen=True)
class HalfPartitionSelection:
    """K/T units of two neighbouring half-batches out of M = 2N/T half-batches of T/2 clients on a circle.

    Half-batch h is the clients hT/2 .. hT/2+T/2-1 (permuted by ``shuffle``). A start s takes the half-batches s and
    s+1 (the circle closes), both wholly available; no two starts are adjacent. ``least_total`` takes a valid row of
    least summed participation (of the whole row: neighbouring units compete); ties are broken by
    independent random weights. Reference: "On Multi-Round Privacy in Federated Learning", Half Partitioning.
    """

    k: Annotated[int, Field(ge=1, description="clients in an aggregation; a multiple of T")]
    T: Annotated[int, Field(ge=2, description="clients in a unit, the privacy guarantee; even, divides k and clients")]
    mode: Annotated[Mode, Field(description="which available row")] = "auto"
    shuffle: Annotated[Shuffle, Field(description="assign clients to half-batches by the seed, or in this order")] = (
        False
    )

    example = {"k": 4, "T": 2}

    @property
    def unit_size(self) -> int:
        return self.T

    def disjoint_units(self, clients: int) -> int:
        """Units that can be taken one by one without a common client, however badly they are chosen: a third of the
        half-batches, because two neighbouring units may leave a half-batch between them that no unit can use.
        """
        return -(-2 * clients // self.T // 3)

    def check(self, setting: ScenarioView) -> list[Problem]:
        sizes = unit_problems(self.k, self.T, setting.clients, halves=True)
        return sizes or order_problems(self.shuffle, setting.clients)

    def resolve(self, setting: ScenarioView) -> Self:
        return resolve_mode(self, setting)

    def family(self, clients: int) -> "NeighbourPairs":
        from simfl.selection.theory.families import NeighbourPairs

        return NeighbourPairs(clients, self.k, self.T)

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        need, half = blocks.count(k, self.T), self.T // 2
        usable = blocks.whole(view.available, half)
        if circle.capacity(usable) < need:
            return nobody(self.T)
        if self.mode == "least_total":
            cost = blocks.totals(view.participation, half)
            starts = cheapest_starts(circle.starts(usable), cost + np.roll(cost, -1), need, rng)
        elif self.mode == "fair":
            covered = blocks.least_used(view.participation, np.repeat(circle.coverable(usable), half), rng) // half
            starts = circle.uniform_starts(usable, need, rng, covered)
        else:
            starts = circle.uniform_starts(usable, need, rng)
        pairs = np.stack([starts, (starts + 1) % len(usable)], axis=1)
        return blocks.members(pairs.ravel(), half).reshape(need, self.T)
