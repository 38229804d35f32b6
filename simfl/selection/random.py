"""Selection without a plan: uniformly random (the FedAvg default), weighted towards who took part least, everybody."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from pydantic import Field

from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Units, View
from simfl.selection.base import POLICIES
from simfl.selection.units import blocks
from simfl.selection.units.sizes import Problem, at_most_clients

if TYPE_CHECKING:
    from simfl.selection.theory import families
    from simfl.selection.theory.families import DisjointUnits


@POLICIES("random")
@dataclass(frozen=True)
class RandomSelection:
    """K available clients, uniformly at random. Reference: McMahan et al. 2017, Algorithm 1."""

    k: Annotated[int, Field(ge=1, description="clients in an aggregation")]

    unit_size = 1
    uniform = True
    sampling = "fixed_size"
    example = {"k": 4}

    def check(self, setting: ScenarioView) -> list[Problem]:
        return at_most_clients(self.k, setting.clients)

    def family(self, clients: int) -> "DisjointUnits":
        from simfl.selection.theory.families import DisjointUnits

        return DisjointUnits(clients, self.k)

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        return blocks.choose(view, 1, k, "uniform", rng)


@POLICIES("weighted")
@dataclass(frozen=True)
class WeightedSelection(RandomSelection):
    """The K available clients of least participation, ties at random. Reference: arXiv 2106.03328, section 3.3."""

    uniform = False
    sampling = ""

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        return blocks.choose(view, 1, k, "least_total", rng)


@POLICIES("all")
@dataclass(frozen=True)
class Everyone:
    """Every available client, however many they are."""

    k: Annotated[int | None, Field(ge=1, description="not used: becomes the number of clients")] = None

    unit_size = 1
    fixed_size = False

    def resolve(self, setting: ScenarioView) -> Self:
        return replace(self, k=setting.clients)

    def family(self, clients: int) -> "families.AllAvailable":
        from simfl.selection.theory import families

        return families.AllAvailable(clients)

    def select(self, view: View, k: int | None, rng: np.random.Generator) -> Units:
        """All available clients, shape (available, 1); ``k`` and the stream are not used."""
        return np.flatnonzero(view.available).astype(np.int32).reshape(-1, 1)
