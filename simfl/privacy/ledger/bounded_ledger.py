"""The ledger of all rounds: exact as far as weights are sure and the budget goes, bounds for the rounds after that.

A sum with a weight that may be a rounded number tells nothing for certain. The other sums are there, whatever it is:
what they tell is a lower bound. What all others together learn needs no exact weights, and nobody learns more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simfl.privacy.ledger.beyond_budget import with_later_rounds
from simfl.privacy.ledger.information import Floats
from simfl.privacy.ledger.ledger_scope import COLLUDERS
from simfl.privacy.ledger.noise_ledger import NoiseLedger, ledger
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix


@dataclass(frozen=True)
class BoundedLedger:
    """A ledger of all rounds, and how far it is exact.

    Attributes:
        whole: of all rounds; after the exact ones ``alone`` and ``upper`` are upper bounds, and ``lower`` lower ones.
        certain: of the sums whose weights are sure, as far as the budget goes: what is learnt at least.
        exact: number of rounds up to which it is exact.
    """

    whole: NoiseLedger
    certain: NoiseLedger
    exact: int

    @property
    def alone_lower(self) -> tuple[Floats, Floats]:
        """Lower bounds of what the sums alone tell: of each client, (N,), and most after each round, (J,)."""
        last, worst = self.certain.last.alone, self.certain.worst.alone
        later = np.where(np.isnan(worst), last.max(initial=0.0), worst)
        return last, np.where(np.isnan(self.whole.worst.alone), np.nan, later)


def bounded_ledger(
    sums: Any,
    mu: Floats,
    aggregates: Any,
    rounds: ParticipationMatrix,
    budget: int,
    every: int,
    colluders: Sequence[int] = COLLUDERS,
    weak: Floats | None = None,
) -> BoundedLedger:
    """The ledger of sums some weights of which may be rounded numbers.

    Args:
        sums, mu, aggregates: see :func:`simfl.privacy.ledger.observed.sums_and_noise`.
        rounds: the aggregates with exact weights, as far as they are sure.
        budget, every, colluders, weak: see :func:`simfl.privacy.ledger.noise_ledger.ledger`; ``weak`` must hold
            whatever the weights are that are not sure.
    """
    first = rounds.first_unsure
    sure = rounds.sure if aggregates is sums else np.arange(rounds.shape[0]) < first
    known_mu = np.where(sure, mu, 0.0)
    certain = ledger(sums, known_mu, budget, every, colluders, weak, rounds.only(known_mu > 0))
    exact = min(first, certain.known)
    whole = with_later_rounds(replace(certain, known=exact), sums, mu, every, weak, rounds)
    return BoundedLedger(whole, certain, exact)
