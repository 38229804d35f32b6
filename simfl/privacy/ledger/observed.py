"""What an observer of a run or a log has seen: sums, and the noise in each."""

from dataclasses import replace
from typing import Any

import numpy as np

from simfl.core.types import SERVER
from simfl.privacy.accountant import History
from simfl.privacy.dp.losses import losses, noised_weights
from simfl.privacy.ledger.information import Floats
from simfl.privacy.multiround.participation_matrix import with_samples


def sums_and_noise(history: History, aggregator: int, P: Any) -> tuple[Any, Floats, Any]:
    """The weights of updates in each sum, scipy CSR (J, N), and what one of weight 1 counts in units of noise, (J,).

    The third are the weights in each round's aggregate, CSR (J, N): the first itself, unless a sum adds up the
    aggregates of several rounds, of which its own is the last.

    Args:
        history: of a run whose stages are all covered (:func:`simfl.privacy.ledger.ledger_scope.is_covered`).
        aggregator: who sees the sums.
        P: its participation matrix, CSR (J, N), without what it knows itself.
    """
    if aggregator == SERVER:
        for loss in losses(history):  # of one stage at most
            assert loss.mu is not None
            sums = noised_weights(history, loss)
            return sums, loss.mu, sums if loss.span is None else noised_weights(history, replace(loss, span=None))
    rows = P.astype(np.float64)
    sums = rows if history.samples is None else with_samples(rows, history.samples)
    return sums, np.full(P.shape[0], np.inf), sums
