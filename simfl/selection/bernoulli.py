"""Independent selection: every available client tosses its own coin (MR Appendix G)."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.scenario_view import ScenarioView, dropout_rates
from simfl.core.types import Units, View
from simfl.selection.base import POLICIES
from simfl.selection.units.sizes import Problem, at_most_clients

if TYPE_CHECKING:
    from simfl.selection.theory.families import Coins


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
