"""Epsilon by privacy loss distributions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from simfl.columns import Column
from simfl.privacy.amplification import Accounting
from simfl.privacy.base import ACCOUNTANTS, Accountant, History
from simfl.setting import Setting

__all__ = ["Pld"]


@ACCOUNTANTS("pld")
@dataclass(frozen=True, kw_only=True)
class Pld(Accounting, Accountant):
    """Numerical accounting of Gaussian noise by dp-accounting, also of Poisson samples of clients; tighter than Rényi.

    A client's update against none. Reference: Doroshenko et al., "Connect the dots: tighter discrete approximations of
    privacy loss distributions", PoPETs 2022.
    """

    columns: ClassVar[tuple[Column, ...]] = (
        Column("epsilon_pld", "ε (PLD)", "number", "Epsilon by privacy loss distributions, with the sampling that the "
               "scenario claims.", -1, words="ε by privacy loss distributions"),
    )  # fmt: skip

    def check(self, setting: Setting) -> list[tuple[str, str]]:
        if self.amplification == "fixed_size":
            return [("amplification", "is fixed_size, which only the accountant rdp knows; use that, or none")]
        return super().check(setting)

    def accounts(self, history: History) -> Mapping[str, Iterable[float | int | None]]:
        return {"epsilon_pld": self.evaluated(history)}

    def of_events(self, mus: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
        import dp_accounting as dp

        if np.isinf(mus).any():
            return np.inf
        events = [dp.SelfComposedDpEvent(dp.GaussianDpEvent(1 / mu), n) for mu, n in zip(mus.tolist(), counts.tolist())]
        return self._composed(dp.ComposedDpEvent(events))

    def of_sample(self, mu: float, rounds: int, clients: int) -> float:
        import dp_accounting as dp

        if np.isinf(mu):
            return np.inf
        event = dp.PoissonSampledDpEvent(self.rate or 1.0, dp.GaussianDpEvent(1 / mu))
        return self._composed(dp.SelfComposedDpEvent(event, rounds))

    def _composed(self, event: Any) -> float:
        from dp_accounting import pld

        return float(pld.PLDAccountant().compose(event).get_epsilon(self.delta))
