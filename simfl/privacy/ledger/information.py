"""What the sums so far determine, kept as a triangular factor that every further sum updates."""

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 1e-9
"""Below it a length that is at most 1 counts as 0."""

Floats = NDArray[np.float64]


class Information:
    """Row space and precision of observed sums A X + noise of unit variance, or of none.

    ``basis`` holds orthonormal rows that span the row space. A sum with noise adds its coordinates in that basis to the
    triangular factor T of the precision T'T, by a QR update (LAPACK tpqrt) of O(rank^2); sums without noise are linear
    constraints and are kept apart.
    """

    def __init__(self, clients: int) -> None:
        self._basis = np.zeros((min(16, clients), clients))
        self.rank = 0
        self._factor = np.zeros((0, 0))
        self._exact: list[Floats] = []
        self.noised = 0

    @property
    def basis(self) -> Floats:
        """Orthonormal rows that span all sums, shape (rank, N)."""
        return self._basis[: self.rank]

    def add(self, row: Floats, mu: float, rises: bool) -> None:
        """One more sum.

        Args:
            row: the weights of the clients, shape (N,), not all 0.
            mu: what an update of weight 1 counts in units of the noise; infinite without noise.
            rises: whether the sum is no combination of those before.
        """
        scale = float(row.max())
        row = row / scale
        coordinates = self.basis @ row
        if rises:
            rest = row - coordinates @ self.basis
            again = self.basis @ rest
            rest -= again @ self.basis  # twice is enough
            length = float(np.sqrt(rest @ rest))
            self._append(rest / length)
            coordinates = np.append(coordinates + again, length)
        if np.isinf(mu):
            self._exact.append(coordinates)
        elif mu > 0:
            self._update(coordinates * (mu * scale))

    def _append(self, direction: Floats) -> None:
        if self.rank == len(self._basis):
            wider = np.zeros((min(2 * self.rank, self._basis.shape[1]), self._basis.shape[1]))
            wider[: self.rank] = self._basis
            self._basis = wider
        self._basis[self.rank] = direction
        self.rank += 1

    def _update(self, coordinates: Floats) -> None:
        from scipy.linalg.lapack import dtpqrt

        self.noised += 1
        grown = np.zeros((self.rank, self.rank), order="F")
        known = len(self._factor)
        grown[:known, :known] = self._factor
        self._factor = np.triu(dtpqrt(0, min(32, self.rank), grown, coordinates[None])[0])

    def noised_columns(self) -> Floats:
        """B of shape (rank, N) with B'B = A'A for the sums with noise."""
        known = len(self._factor)
        product: Floats = self._factor @ self._basis[:known]
        return product

    def hidden(self) -> Floats:
        """The projector onto the combinations of updates that no sum tells anything of, shape (N, N)."""
        return np.eye(self._basis.shape[1]) - self.basis.T @ self.basis

    def error_root(self) -> Floats:
        """Y with one column a client, such that Y'Y is the covariance of the estimate of what is not hidden, (m, N)."""
        from scipy.linalg import solve_triangular

        if not self.noised:
            return np.zeros((0, self._basis.shape[1]))
        if not self._exact and len(self._factor) == self.rank:
            root: Floats = solve_triangular(self._factor, self.basis, trans="T")
            return root
        free = self._open_coordinates()
        factor = np.zeros((len(self._factor), self.rank))
        factor[:, : len(self._factor)] = self._factor
        triangle = np.linalg.qr(factor @ free, mode="r")
        open_ = free.T @ self.basis
        open_[:, np.square(open_).sum(axis=0) < TOLERANCE**2] = 0.0  # known from the sums without noise
        solved: Floats = solve_triangular(triangle, open_, trans="T")
        return solved

    def _open_coordinates(self) -> Floats:
        """A basis of the coordinates that the sums without noise leave open, shape (rank, m)."""
        exact = np.zeros((max(len(self._exact), 1), self.rank))
        for row, known in zip(exact, self._exact, strict=False):
            row[: len(known)] = known
        _, singular, right = np.linalg.svd(exact)
        return right[np.count_nonzero(singular > TOLERANCE * max(1.0, singular[0])) :].T
