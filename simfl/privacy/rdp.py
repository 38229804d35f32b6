"""Epsilon by Rényi divergences."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from simfl.columns import Column
from simfl.privacy.amplification import Accounting
from simfl.privacy.base import ACCOUNTANTS, Accountant, History

__all__ = ["Rdp"]

SAMPLED = [*(x / 10 for x in range(20, 110)), *range(11, 64), 128, 256, 512, 1024]
"""The library's own orders from 2 on; below, its series for samples does not always converge."""


@ACCOUNTANTS("rdp")
@dataclass(frozen=True, kw_only=True)
class Rdp(Accounting, Accountant):
    """Rényi accounting of Gaussian noise by dp-accounting, also of samples of clients, where these may be claimed.

    ``poisson``: a client's update against none; ``fixed_size``: against any other. Reference: Mironov, Talwar and
    Zhang, "Rényi differential privacy of the sampled Gaussian mechanism", 2019; Wang, Balle and Kasiviswanathan,
    "Subsampled Rényi differential privacy", AISTATS 2019.
    """

    columns: ClassVar[tuple[Column, ...]] = (
        Column("epsilon_rdp", "ε (Rényi)", "number", "Epsilon by Rényi accounting, with the sampling that the scenario "
               "claims.", -1, words="ε by Rényi accounting"),
    )  # fmt: skip

    def accounts(self, history: History) -> Mapping[str, Iterable[float | int | None]]:
        return {"epsilon_rdp": self.evaluated(history)}

    def of_events(self, mus: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
        import dp_accounting as dp

        if np.isinf(mus).any():
            return np.inf
        events = [dp.SelfComposedDpEvent(dp.GaussianDpEvent(1 / mu), n) for mu, n in zip(mus.tolist(), counts.tolist())]
        return self._composed(dp.ComposedDpEvent(events), dp.NeighboringRelation.ADD_OR_REMOVE_ONE)

    def of_sample(self, mu: float, rounds: int, clients: int) -> float:
        import dp_accounting as dp

        if np.isinf(mu):
            return np.inf
        rate = self.rate or 1.0
        if self.amplification == "poisson":
            event: Any = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(1 / mu))
            relation = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
        else:  # the library takes the noise over a sensitivity of one; a replaced update moves the sum twice as far
            noise, relation = dp.GaussianDpEvent(1 / (2 * mu)), dp.NeighboringRelation.REPLACE_ONE
            event = dp.SampledWithoutReplacementDpEvent(clients, round(rate * clients), noise)
        return self._composed(dp.SelfComposedDpEvent(event, rounds), relation)

    def _composed(self, event: Any, relation: Any) -> float:
        from dp_accounting import rdp

        return float(rdp.RdpAccountant(SAMPLED, relation).compose(event).get_epsilon(self.delta))
