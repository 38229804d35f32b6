"""Selection without a plan: random (the default of FedAvg), weighted to who took part least, by coins, everybody."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.scenario_view import ScenarioView, dropout_rates
from simfl.core.types import Units, View
from simfl.selection.base import POLICIES
from simfl.selection.units import blocks
from simfl.selection.units.sizes import Problem, at_most_clients

if TYPE_CHECKING:
    from simfl.selection.theory import families
    from simfl.selection.theory.families import Coins, DisjointUnits


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


@POLICIES("bernoulli")
@dataclass(frozen=True)
class BernoulliSelection:
    """Each available client with probability K/(N(1-p)), independently: K clients on average, sometimes none.

    p is the mean dropout probability of the scenario's clients. Reference: arXiv 2106.03328, Appendix G.1.
    """

    k: Annotated[int, Field(ge=1, description="mean number of clients in an aggregation")]
    probability: Annotated[
        float | None, Field(gt=0, le=1, description="of an available client's selection; null = k/(N(1-p))")
    ] = None

    unit_size = 1
    example = {"k": 4}
    fixed_size = False
    sampling = "poisson"

    @property
    def inclusion(self) -> float | None:
        return self.probability

    def check(self, setting: ScenarioView) -> list[Problem]:
        return at_most_clients(self.k, setting.clients)

    def resolve(self, setting: ScenarioView) -> Self:
        """Fills ``probability``.

        Raises:
            ScenarioError: the dropout rates are not known, or fewer than k clients are available on average.
        """
        if self.probability is not None:
            return self
        dropout = dropout_rates(setting)
        if dropout is None:
            raise ScenarioError("probability", "is needed: this availability has no known dropout rates")
        present = float(np.sum(1.0 - np.asarray(dropout)))
        most = int(present * (1 + 1e-9))
        if self.k > most:
            advice = f"the nearest valid value is {most}" if most else "no k is valid"
            raise ScenarioError("k", f"is {self.k} but only {present:.6g} clients are available on average; {advice}")
        return replace(self, probability=min(self.k / present, 1.0))

    def family(self, clients: int) -> "Coins":
        from simfl.selection.theory.families import Coins

        return Coins(clients, self.k, self.probability)

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        """Any number of available clients, shape (selected, 1); ``k`` is not used.

        Raises:
            ValueError: ``probability`` has not been filled.
        """
        if self.probability is None:
            raise ValueError("bernoulli selection needs its probability: resolve it for a scenario first")
        tossed = rng.random(len(view.available)) < self.probability
        return np.flatnonzero(tossed & view.available).astype(np.int32).reshape(-1, 1)
