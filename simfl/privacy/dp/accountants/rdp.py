"""Epsilon by Rényi divergences."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from simfl.core.certificate_words import SAMPLED_EPSILON
from simfl.core.columns import Column
from simfl.privacy.accountant import ACCOUNTANTS
from simfl.privacy.dp.accountants.amplification import Accounting
from simfl.privacy.dp.mechanisms import gaussian

SAMPLED = [*(x / 10 for x in range(20, 110)), *range(11, 64), 128, 256, 512, 1024]
"""The library's own orders from 2 on; below, its series for samples does not always converge."""


@ACCOUNTANTS("rdp")
@dataclass(frozen=True, kw_only=True)
class Rdp(Accounting):
    """Rényi accounting of Gaussian noise by dp-accounting, also of samples of clients, where these may be claimed.

    ``poisson``: a client's update against none; ``fixed_size``: against any other. Reference: Mironov, Talwar and
    Zhang, "Rényi differential privacy of the sampled Gaussian mechanism", 2019; Wang, Balle and Kasiviswanathan,
    "Subsampled Rényi differential privacy", AISTATS 2019.
    """

    columns: ClassVar[tuple[Column, ...]] = (
        Column("epsilon_rdp", "ε (Rényi)", "number", "Epsilon by Rényi accounting, with the sampling that the scenario "
               "claims.", -1, "end", words="ε by Rényi accounting", **SAMPLED_EPSILON),
    )  # fmt: skip

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
        sampled = self.of_event(dp.SelfComposedDpEvent(event, rounds), relation)
        whole = np.sqrt(rounds) * (mu if self.amplification == "poisson" else 2 * mu)
        return sampled or float(gaussian.epsilon(whole, self.delta))  # 0 where the library meets a negative divergence

    def of_event(self, event: object, relation: object) -> float:
        from dp_accounting import rdp

        return float(rdp.RdpAccountant(SAMPLED, relation).compose(event).get_epsilon(self.delta))
