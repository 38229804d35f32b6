"""What least squares over all sums leaves unknown of each client's update, from the participation matrix only."""

import numpy as np
from numpy.typing import NDArray

from simfl.core.one_thread import one_thread
from simfl.privacy.multiround.basis import Basis
from simfl.privacy.multiround.budget import Budget


def hidden(basis: Basis, budget: Budget) -> NDArray[np.float64] | None:
    """R_ii of the projector R onto the null space of the sums, (N,): the expected relative squared error of client i.

    No lower bound: updates that point the same way are recovered better (:mod:`simfl.attacks.least_squares`). For
    updates of equal length that are orthogonal to each other, without noise (arXiv 2106.03328, Appendix G); its
    mean is 1 - rank / N. 0 = recovered exactly, 1 = nothing is known. None if it is beyond the budget.
    """
    rank, size, label = len(basis.rounds), basis.size, basis.classes.label
    if not budget.take(10 * rank * rank * len(size)):
        return None
    ratios = np.ones(len(label))
    if rank:
        with one_thread():  # clients of a class have one column: its unit vector has length 1 / sqrt(size)
            span, _ = np.linalg.qr((basis.floats(rank) * np.sqrt(size)).T)
        known = np.square(span).sum(axis=1) / size
        seen = label >= 0
        ratios[seen] = np.clip(1 - known[label[seen]], 0, 1)
    ratios[np.isin(label, np.flatnonzero((size == 1) & (basis.isolated > 0)))] = 0.0  # exactly
    return ratios
