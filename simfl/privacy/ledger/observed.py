"""What an observer of a run or a log has seen: sums, and the noise in each."""

from typing import Any

import numpy as np

from simfl.core.types import SERVER
from simfl.privacy.accountant import History
from simfl.privacy.dp.losses import losses, noised_weights
from simfl.privacy.ledger.information import Floats
from simfl.privacy.multiround.participation_matrix import with_samples
from simfl.privacy.stage import Stage

GAUSSIAN_IN_SUM = (
    "Gaussian noise that is added to the sum (central_gaussian, adaptive_gaussian, tree_gaussian), or none"
)
"""What the ledger can speak of."""


def is_covered(stage: Stage) -> bool:
    """Whether the ledger can speak of sums that a stage has changed."""
    return not stage.observer or (stage.gaussian and not stage.at_client)


def sums_and_noise(history: History, aggregator: int, P: Any) -> tuple[Any, Floats]:
    """The weights of updates in each sum, scipy CSR (J, N), and what one of weight 1 counts in units of noise, (J,).

    Args:
        history: of a run whose stages are all covered (:func:`is_covered`).
        aggregator: who sees the sums.
        P: its participation matrix, CSR (J, N), without what it knows itself.
    """
    if aggregator == SERVER:
        for loss in losses(history):  # of one stage at most
            assert loss.mu is not None
            return noised_weights(history, loss), loss.mu
    rows = P.astype(np.float64)
    return rows if history.samples is None else with_samples(rows, history.samples), np.full(P.shape[0], np.inf)
