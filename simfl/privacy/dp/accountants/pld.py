"""Epsilon by privacy loss distributions."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simfl.core.certificate_words import SAMPLED_EPSILON
from simfl.core.columns import Column
from simfl.core.scenario_view import ScenarioView
from simfl.privacy.accountant import ACCOUNTANTS
from simfl.privacy.dp.accountants.amplification import Accounting


@ACCOUNTANTS("pld")
@dataclass(frozen=True, kw_only=True)
class Pld(Accounting):
    """Numerical accounting of Gaussian noise by dp-accounting, also of Poisson samples of clients; tighter than Rényi.

    A client's update against none. Reference: Doroshenko et al., "Connect the dots: tighter discrete approximations of
    privacy loss distributions", PoPETs 2022.
    """

    columns: ClassVar[tuple[Column, ...]] = (
        Column("epsilon_pld", "ε (PLD)", "number", "Epsilon by privacy loss distributions, with the sampling that the "
               "scenario claims.", -1, "end", words="ε by privacy loss distributions", **SAMPLED_EPSILON),
    )  # fmt: skip

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if self.amplification == "fixed_size":
            return [("amplification", "is fixed_size, which only the accountant rdp knows; use that, or none")]
        return super().check(setting)

    def of_sample(self, mu: float, rounds: int, clients: int) -> float:
        import dp_accounting as dp

        if np.isinf(mu):
            return np.inf
        event = dp.PoissonSampledDpEvent(self.rate or 1.0, dp.GaussianDpEvent(1 / mu))
        return self.of_event(dp.SelfComposedDpEvent(event, rounds), dp.NeighboringRelation.ADD_OR_REMOVE_ONE)

    def of_event(self, event: object, relation: object) -> float:
        from dp_accounting import pld

        return float(pld.PLDAccountant(relation).compose(event).get_epsilon(self.delta))
