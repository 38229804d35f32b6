"""What is true whatever the weights are that cannot be read for sure.

Rounds whose weights are sure span a part of the row space, so what is found there exists. Every round is in the row
space. And no vector of the row space tells clients with identical columns apart (equal numbers are taken to stand for
equal weights, unless they have too few digits). That gives an interval that holds whatever the other weights are.
"""

import numpy as np

from simfl.privacy.multiround.classes import identical
from simfl.privacy.multiround.guarantee_trace import Trace, evaluation_rounds, held_before
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix


def bounds_for_any_weights(rounds: ParticipationMatrix, certain: Trace, every: int) -> Trace:
    """The metrics of a matrix of which some rounds are not sure; ``certain`` are those of ``rounds.certain()``."""
    n_rounds, n_clients = rounds.shape
    first = rounds.first_unsure
    open_ = np.arange(n_rounds) >= first
    classes = identical(rounds)
    strong = np.where(classes.count > 0, np.where(rounds.rough, 1, classes.smallest), np.nan)
    at = open_ & evaluation_rounds(n_rounds, every) & (classes.count > 0)
    fewest = np.fmin(rounds.fewest_clients(), certain.weak_upper)
    ratio = np.fmin(rounds.ratios()[0], certain.semi_strong)
    met = at & (ratio <= strong * (1 + 1e-9))
    return Trace(
        np.where(open_, np.nan, certain.rank),
        strong,
        np.where(met, strong, np.where(open_, np.nan, certain.semi_strong)),
        held_before(np.where(at, strong, np.where(open_, np.nan, certain.semi_strong_lower))),
        np.where(at, strong, np.where(open_, np.nan, certain.weak_lower)),
        np.where(at, fewest, np.where(open_, np.nan, certain.weak_upper)),
    )
