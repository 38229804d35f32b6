"""What least squares makes of sums, and how far it is off: exact for known sums, an expectation under noise.

y = P delta + zeta, one row a sum; the estimate is H y with H = (G + ridge)^+ P', G = P'P. With M = I - H P, updates
that are orthogonal to each other and noise of variance s^2 a coordinate,

    E |estimate_i - delta_i|^2 = sum_j M_ij^2 |delta_j|^2 + d s^2 (H H')_ii.

Without a ridge M projects onto P's null space: equal norms give M_ii without noise, and 1 - rank(P) / N on average.
That is no lower bound. Updates of equal length with a cosine of c between any two, and no noise, are missed by

    (1 - c) |M|^2 / N + c |M 1|^2 / N

on average, because their Gram matrix is (1 - c) I + c 1 1'. Sums that tell the mean update (M 1 = 0) miss 1 - c of what
they would miss of uncorrelated updates. For any other updates of equal length it holds in expectation, c their mean
cosine, where it is left to chance which client has which update.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.processor import one_thread

Floats = NDArray[np.float64]


class Solution(NamedTuple):
    """The estimator for a Gram matrix.

    Attributes:
        inverse: (G + ridge)^+, (N, N): the estimate is ``inverse @ P.T @ y``.
        miss: M = I - inverse G, (N, N): what the sums do not tell.
        spread: (H H')_ii, (N,): by what the noise of a sum is multiplied.
    """

    rank: int
    inverse: Floats
    miss: Floats
    spread: Floats

    @property
    def uncorrelated_error(self) -> float:
        """Mean relative error without noise of updates that are equally long and orthogonal; 1 - rank / N if no ridge.

        No lower bound: updates that point the same way are missed by less (:attr:`alike`).
        """
        return float(np.square(self.miss).sum() / len(self.miss))

    @property
    def alike(self) -> float:
        """Mean relative error without noise of updates that are all the same."""
        return float(np.square(self.miss.sum(axis=1)).sum() / len(self.miss))

    @property
    def amplification(self) -> float:
        """tr(H H') / N; tr(G^-1) / N once the sums tell everything."""
        return float(self.spread.mean())


def solve(gram: Floats, ridge: float = 0.0) -> Solution:
    """
    Args:
        gram: G = P'P, (N, N).
        ridge: added to its diagonal; 0 = the pseudo-inverse.
    """
    n = len(gram)
    with one_thread():
        values, vectors = np.linalg.eigh(gram)
        known = values > max(values[-1], 0.0) * n * 10 * np.finfo(float).eps
        rank = int(known.sum())
        if ridge:
            values, known = np.maximum(values, 0.0), np.ones(n, dtype=bool)
        basis, scale = vectors[:, known], 1 / (values[known] + ridge)
        inverse = (basis * scale) @ basis.T
        if rank == n and not ridge:
            miss = np.zeros((n, n))  # exactly, not what rounding leaves
        else:
            miss = np.eye(n) - (basis * (scale * values[known])) @ basis.T
    return Solution(rank, inverse, miss, np.square(basis) @ (scale**2 * values[known]))


def expected_errors(solution: Solution, norms: Floats, noise: float = 0.0) -> Floats:
    """E e_i, relative to |delta_i|^2, for orthogonal updates, (N,); NaN where the update is zero.

    ``norms``: |delta_j|^2, (N,). ``noise``: d s^2, the expected squared length of a sum's noise.
    """
    with one_thread():
        off = np.square(solution.miss) @ norms + noise * solution.spread
    return np.divide(off, norms, out=np.full(len(norms), np.nan), where=norms > 0)


def errors(estimates: Floats, truth: Floats) -> tuple[Floats, Floats]:
    """Squared lengths of the errors and of the true updates, (N,) each; (N, d) both."""
    return np.square(estimates - truth).sum(axis=1), np.square(truth).sum(axis=1)
