"""The semi-strong notion: a certificate for each client that no combination of sums shows more of it than of T others.

For client i let f(i) be the least sum of magnitudes of a vector v of the span with v_i = 1. By duality

    f(i) >= T  if and only if there are w with |w_j| <= 1 for all j and w - T e_i orthogonal to the span,

because then T = T v_i = sum w_j v_j <= sum |v_j|. Such a w is the client's certificate. It stays one for a larger span
if w - T e_i is orthogonal to the new row too; the others are looked for again: by projections (``nearby.py``), and
where these find none by linear programmes without an objective that begin with the basis of the old certificate. What
is found is made exactly orthogonal and divided by its largest entry, so that the bound on f(i) that is read off it
holds whatever the solver's tolerances did.

A row is refused by the first client that has no certificate. With P the projection onto the span, P e_i / P_ii is a
vector with v_i = 1, so that f(i) is at most the sum of its magnitudes: the client of the smallest such sum comes first.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from simfl.selection.guard.nearby import nearby
from simfl.selection.guard.programmes import CertificateProgramme, largest

Floats = NDArray[np.float64]

TOLERANCE = 1e-9
"""Relative: a bound of T (1 - 1e-9) counts as T; the columns of a run have nine digits as well."""

INDEPENDENT = 1e-3
"""Least part of a row's length that stands orthogonally on the span; one with less is refused, as floating point could
not tell."""

NO_UNITS = np.empty((0, 1), dtype=np.int32)


@dataclass(frozen=True)
class Certificates:
    """Certificates of all clients for one span, up to :data:`TOLERANCE`.

    Attributes:
        T: what they certify of each client, (clients,).
        rows: 0 and 1, (rank, clients): independent rows of the span.
        frame: (rank, clients): an orthonormal basis of it.
        weights: (clients, clients): the certificate w of each client, a row each.
        bases: the simplex basis of each: statuses of columns and rows; None = not known.
        units: disjoint rows of the span with T clients each, int32 (units, T); there may be none.
    """

    T: Floats
    rows: Floats
    frame: Floats
    weights: Floats
    bases: tuple[Any, ...]
    units: NDArray[np.int32]

    @classmethod
    def of(cls, rows: NDArray[np.bool_], T: int, units: NDArray[np.int32] = NO_UNITS) -> Self:
        """For the span of independent rows, (rank, clients).

        Raises:
            ValueError: some client has no certificate.
        """
        start = cls._without(rows, T, units)
        if (certified := start._solve(np.arange(rows.shape[1]))) is None:
            raise ValueError(f"these rows do not keep the semi-strong notion with T = {T}")
        return certified

    @classmethod
    def left(cls, rows: NDArray[np.bool_], T: int, units: NDArray[np.int32] = NO_UNITS) -> Self:
        """For the span of independent rows, (rank, clients), with what they have left of T to each client."""
        start = cls._without(rows, T, units)
        least, weights, bases = start.T.copy(), start.weights.copy(), list(start.bases)
        programme = CertificateProgramme(start.rows)
        for i in range(rows.shape[1]):
            if (solution := programme.solve(i, T, None)) is None:
                least[i], weights[i] = largest(start.rows, start.frame, i, T)
            else:
                weights[i], bases[i] = solution
        return replace(start, T=least, weights=weights, bases=tuple(bases))

    @classmethod
    def _without(cls, rows: NDArray[np.bool_], T: int, units: NDArray[np.int32]) -> Self:
        n = rows.shape[1]
        frame = np.linalg.qr(rows.T.astype(np.float64))[0].T
        return cls(np.full(n, float(T)), rows.astype(np.float64), frame, np.zeros((n, n)), (None,) * n, units)

    def with_row(self, row: NDArray[np.bool_]) -> Self | None:
        """For the span with an independent row, (clients,), more; None if it is not certified to keep the notion."""
        new = row.astype(np.float64)
        rest = new
        for _ in range(2):  # once more takes away what rounding left
            rest = rest - (self.frame @ rest) @ self.frame
        length = float(np.linalg.norm(rest))
        if length < INDEPENDENT * float(np.linalg.norm(new)):
            return None
        wider = replace(self, rows=np.vstack([self.rows, new]), frame=np.vstack([self.frame, rest / length]))
        violated = np.abs(self.weights[:, row].sum(axis=1) - self.T * new) > TOLERANCE
        order = np.argsort(wider._at_most() / self.T, kind="stable")
        return wider._solve(order[violated[order]], row)

    def _at_most(self) -> Floats:
        """Upper bounds of each f(i), (clients,); infinite for clients in no row."""
        P = self.frame.T @ self.frame
        part = np.diag(P)
        return np.where(part > TOLERANCE, np.abs(P).sum(axis=1) / np.maximum(part, TOLERANCE), np.inf)

    def bounds(self) -> Floats:
        """What the certificates prove of each f(i), (clients,)."""
        y = self.weights - np.diag(self.T)
        y -= (y @ self.frame.T) @ self.frame
        diagonal = np.diag(y).copy()
        np.fill_diagonal(y, 0.0)
        return 1.0 + np.maximum(0.0, -diagonal) / np.maximum(1.0, np.abs(y).max(axis=1))

    def _solve(self, clients: NDArray[np.int64], row: NDArray[np.bool_] | None = None) -> Self | None:
        """With new certificates for some clients, looked for in this order; None where one of them has none.

        Args:
            row: the last one, which some have no certificate for; None = there are no certificates yet.
        """
        weights, bases = self.weights.copy(), list(self.bases)
        programme = CertificateProgramme(self.rows) if len(clients) else None
        by_column: dict[bytes, int] = {}
        moved = np.zeros(len(weights), dtype=bool)
        for place, i in enumerate(clients.tolist()):
            if place == 1 and row is not None and len(self.units):
                others = clients[1:]  # nearby is for those who have all of T
                whole = others[self.T[others] >= self.units.shape[1] * (1 - TOLERANCE)]
                near, moved = nearby(self.weights, self.units, self.frame, row, whole)
                weights[moved] = near[moved]
            if moved[i]:
                continue
            like = by_column.setdefault(self.rows[:, i].tobytes(), i)
            if like != i and self.T[like] == self.T[i]:  # clients with equal columns have the same programme
                weights[i], bases[i] = weights[like], bases[like]
                continue
            assert programme is not None
            if (solution := programme.solve(i, self.T[i], bases[i])) is None:
                return None
            weights[i], bases[i] = solution
        certified = replace(self, weights=weights, bases=tuple(bases))
        return certified if (certified.bounds() >= self.T * (1 - TOLERANCE)).all() else None
