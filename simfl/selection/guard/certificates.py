"""The semi-strong notion: a certificate for each client that no combination of sums shows more of it than of T others.

For client i let f(i) be the least sum of magnitudes of a vector v of the span with v_i = 1. By duality

    f(i) >= T  if and only if there are w with |w_j| <= 1 for all j and w - T e_i orthogonal to the span,

because then T = T v_i = sum w_j v_j <= sum |v_j|. Such a w is the client's certificate. It stays one for a larger span
if w - T e_i is orthogonal to the new row too; the others are looked for again: by projections (:func:`nearby`), and
where these find none by linear programmes without an objective that begin with the basis of the old certificate. What
is found is made exactly orthogonal and divided by its largest entry, so that the bound on f(i) that is read off it
holds whatever the solver's tolerances did.

A row is refused by the first client that has no certificate. With P the projection onto the span, P e_i / P_ii is a
vector with v_i = 1, so that f(i) is at most the sum of its magnitudes: the client of the smallest such sum comes first.
"""

from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from simfl.core.linear_solver import linear_programme
from simfl.core.types import Floats

if TYPE_CHECKING:
    from highspy import Highs, HighsBasis


TOLERANCE = 1e-9
"""Relative: a bound of T (1 - 1e-9) counts as T; the columns of a run have nine digits as well."""

INDEPENDENT = 1e-3
"""Least part of a row's length that is orthogonal to the span; less is refused, as floating point could not tell."""

CUBE = 0.97
"""Half the edge of the smaller cube that projections aim at."""

STEPS = 40
"""Projections in turn, at most."""

RISE = 1e-6
"""Least product of the new row with a direction that is to meet it."""

MOST_STEPS = 100_000
"""Steps of the simplex algorithm for one programme; a row that needs more is refused."""

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


def nearby(
    weights: Floats, units: NDArray[np.int32], frame: Floats, row: NDArray[np.bool_], wanted: NDArray[np.int64]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Certificates for a span with one row more, (clients, clients), by projections from those before it, and for whom
    they are.

    For a client i of a reserved unit S of T clients, the row of S forces w_j = 1 on S: the sum of w over S is T, and no
    entry is larger. What is left is to find a point of the affine space of all w that are 1 on S, with w - T e_i
    orthogonal to the span, in the cube |w_j| <= 1. Projections onto a slightly smaller cube and onto the space, in
    turn, end inside after a few steps where the space goes through the smaller cube (von Neumann's alternating
    projections; Bauschke and Borwein, SIAM Review 38, 1996, section 4), and prove nothing where it does not.

    Args:
        weights: those for the span without the row, (clients, clients).
        units: disjoint, (units, T): rows of the span, whose clients are certified T.
        frame: an orthonormal basis of the span with the row, (rank, clients), the new direction last.
        row: (clients,).
        wanted: who needs a certificate.
    """
    T, n = units.shape[1], len(weights)
    is_wanted = np.isin(units, wanted)
    units, is_wanted = units[is_wanted.any(axis=1)], is_wanted[is_wanted.any(axis=1)]
    away = np.eye(n) - frame.T @ frame
    along = frame[-1] - (frame[-1][units][:, None] @ _pull(away + np.outer(frame[-1], frame[-1]), units))[:, 0]
    rise = along @ row
    certified = np.zeros(n, dtype=bool)
    missing = (T * row - weights @ row)[units] / np.where(np.abs(rise) > RISE, rise, np.inf)[:, None]
    start = weights[units] + missing[:, :, None] * along[:, None]
    inside_unit = np.zeros((len(units), 1, n), dtype=bool)
    np.put_along_axis(inside_unit[:, 0], units, True, axis=1)
    at, inside = _inside(start, start.copy(), units, inside_unit, (away, _pull(away, units)), is_wanted)
    inside &= is_wanted & (np.abs(rise) > RISE)[:, None]
    certified[units[inside]] = True
    moved = weights.copy()
    moved[units[inside]] = at[inside]
    return moved, certified


def _inside(
    start: Floats, at: Floats, units: NDArray[np.int32], inside_unit: NDArray[np.bool_], onto: tuple[Floats, Floats],
    is_wanted: NDArray[np.bool_],
) -> tuple[Floats, NDArray[np.bool_]]:  # fmt: skip
    """Points of the affine spaces through ``start``, (units, T, clients), and which of them lie in the cube."""
    away, pull = onto
    places = np.broadcast_to(units[:, None], (*units.shape, units.shape[1]))
    for _ in range(STEPS):
        inside: NDArray[np.bool_] = np.abs(np.where(inside_unit, 0.0, at)).max(axis=2) <= 1
        if inside[is_wanted].all():
            break
        moved = (np.where(inside_unit, at, np.clip(at, -CUBE, CUBE)) - start) @ away
        at = start + moved - np.take_along_axis(moved, places, axis=2) @ pull
    return at, inside


def _pull(away: Floats, units: NDArray[np.int32]) -> Floats:
    """What takes a move's entries on a unit back to 0 and keeps it orthogonal to the span, (units, T, clients)."""
    return np.linalg.pinv(away[units[:, :, None], units[:, None]], rcond=1e-9, hermitian=True) @ away[units]


class CertificateProgramme:
    """Find w with |w_j| <= 1 and rows @ w = T rows[:, i]; one after the other for different clients i.

    Every programme begins with a basis that it is given, so that its result does not depend on those before it.
    """

    def __init__(self, rows: Floats) -> None:
        self._rows = rows
        self._model: Any = _model(rows)
        self._all = np.arange(len(rows), dtype=np.int32)

    def solve(self, i: int, T: float, basis: Any) -> tuple[Floats, Any] | None:
        """The certificate of client i, (clients,), and its basis; None if there is none, or it was not found."""
        import highspy

        model, sums = self._model, T * self._rows[:, i]
        model.changeRowsBounds(len(sums), self._all, sums, sums)
        model.setBasis(self._begin(basis))
        model.run()
        if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        after = model.getBasis()
        return np.array(model.getSolution().col_value), (tuple(after.col_status), tuple(after.row_status))

    def _begin(self, basis: Any) -> "HighsBasis":
        """A basis of fewer rows, or none, with the other rows basic."""
        import highspy

        columns, rows = basis or ((highspy.HighsBasisStatus.kLower,) * self._rows.shape[1], ())
        begin = highspy.HighsBasis()
        begin.col_status = list(columns)
        begin.row_status = [*rows, *repeat(highspy.HighsBasisStatus.kBasic, len(self._rows) - len(rows))]
        begin.valid = True
        return begin


def _model(rows: Floats) -> "Highs":
    """Nothing to minimise over |w| <= 1 with rows @ w = 0."""
    from scipy.sparse import csr_matrix

    ones, nothing = np.ones(rows.shape[1]), np.zeros(len(rows))
    model = linear_programme(csr_matrix(rows), (-ones, ones), (nothing, nothing), TOLERANCE)
    model.setOptionValue("simplex_iteration_limit", MOST_STEPS)
    return model


def largest(rows: Floats, frame: Floats, i: int, T: float) -> tuple[float, Floats]:
    """The largest t up to T for which client i has a certificate, and that certificate, (clients,).

    Args:
        rows: 0 and 1, (rank, clients).
        frame: an orthonormal basis of their span, (rank, clients).
    """
    from scipy.optimize import linprog

    n = rows.shape[1]
    objective = np.append(np.zeros(n), -1.0)
    coefficients = np.hstack([rows, -rows[:, i : i + 1]])
    solution = linprog(
        objective, A_eq=coefficients, b_eq=np.zeros(len(rows)), bounds=[(-1, 1)] * n + [(1, T)], method="highs"
    )
    y = np.zeros(n) if solution.x is None else solution.x[:n]
    y[i] -= 1.0 if solution.x is None else solution.x[n]
    y -= frame.T @ (frame @ y)
    y /= max(1.0, float(np.abs(np.delete(y, i)).max(initial=0.0)))
    t = min(T, 1.0 + max(0.0, -float(y[i])))
    w = y.copy()
    w[i] += t
    return t, w
