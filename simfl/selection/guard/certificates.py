"""The semi-strong notion: a certificate for each client that no combination of sums shows more of it than of T others.

For client i let f(i) be the least sum of magnitudes of a vector v of the span with v_i = 1. By duality

    f(i) >= T  if and only if there are w with |w_j| <= 1 for all j and w - T e_i orthogonal to the span,

because then T = T v_i = sum w_j v_j <= sum |v_j|. Such a w is the client's certificate. It stays one for a larger span
if w - T e_i is orthogonal to the new row too; the others are looked for again, by linear programmes without an
objective that begin with the basis of the old certificate. What the solver finds is made exactly orthogonal and divided
by its largest entry, so that the bound on f(i) that is read off it holds whatever the solver's tolerances did.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from highspy import Highs, HighsBasis

Floats = NDArray[np.float64]

TOLERANCE = 1e-9
"""Relative: a bound of T (1 - 1e-9) counts as T; the columns of a run have nine digits as well."""

INDEPENDENT = 1e-3
"""Least part of a row's length that stands orthogonally on the span; one with less is refused, as floating point could
not tell."""

MOST_STEPS = 100_000
"""Steps of the simplex algorithm for one programme; a row that needs more is refused."""


@dataclass(frozen=True)
class Certificates:
    """Certificates of all clients for one span, up to :data:`TOLERANCE`.

    Attributes:
        T: what they certify.
        rows: 0 and 1, (rank, clients): independent rows of the span.
        frame: (rank, clients): an orthonormal basis of it.
        weights: (clients, clients): the certificate w of each client, a row each.
        bases: the simplex basis of each: statuses of columns and rows; None = not known.
    """

    T: int
    rows: Floats
    frame: Floats
    weights: Floats
    bases: tuple[Any, ...]

    @classmethod
    def of(cls, rows: NDArray[np.bool_], T: int) -> Self:
        """For the span of independent rows, (rank, clients).

        Raises:
            ValueError: some client has no certificate.
        """
        clients = rows.shape[1]
        frame = np.linalg.qr(rows.T.astype(np.float64))[0].T
        start = cls(T, rows.astype(np.float64), frame, np.zeros((clients, clients)), (None,) * clients)
        if (certified := start._solve(np.arange(clients))) is None:
            raise ValueError(f"these rows do not keep the semi-strong notion with T = {T}")
        return certified

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
        members_first = np.argsort(~row, kind="stable")
        return wider._solve(members_first[violated[members_first]])

    def bounds(self) -> Floats:
        """What the certificates prove of each f(i), (clients,)."""
        y = self.weights - self.T * np.eye(len(self.weights))
        y -= (y @ self.frame.T) @ self.frame
        diagonal = np.diag(y).copy()
        np.fill_diagonal(y, 0.0)
        return 1.0 + np.maximum(0.0, -diagonal) / np.maximum(1.0, np.abs(y).max(axis=1))

    def _solve(self, clients: NDArray[np.int64]) -> Self | None:
        """With new certificates for some clients, looked for in this order; None where one of them has none."""
        weights, bases = self.weights.copy(), list(self.bases)
        programme = _Programme(self.rows, self.T) if len(clients) else None
        by_column: dict[bytes, int] = {}
        for i in clients.tolist():
            like = by_column.setdefault(self.rows[:, i].tobytes(), i)
            if like != i:  # clients with equal columns have the same programme
                weights[i], bases[i] = weights[like], bases[like]
                continue
            assert programme is not None
            if (solution := programme.solve(i, bases[i])) is None:
                return None
            weights[i], bases[i] = solution
        certified = replace(self, weights=weights, bases=tuple(bases))
        return certified if certified.bounds().min() >= self.T * (1 - TOLERANCE) else None


class _Programme:
    """Find w with |w_j| <= 1 and rows @ w = T rows[:, i]; one after the other for different clients i.

    Every programme begins with a basis that it is given, so that its result does not depend on those before it.
    """

    def __init__(self, rows: Floats, T: int) -> None:
        self._rows, self._T = rows, T
        self._model = _model(rows)
        self._all = np.arange(len(rows), dtype=np.int32)

    def solve(self, i: int, basis: Any) -> tuple[Floats, Any] | None:
        """The certificate of client i, (clients,), and its basis; None if there is none, or it was not found."""
        import highspy

        model, sums = self._model, self._T * self._rows[:, i]
        model.changeRowsBounds(len(sums), self._all, sums, sums)  # type: ignore[attr-defined]  # it has no type
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
        begin.row_status = [*rows, *_repeat(highspy.HighsBasisStatus.kBasic, len(self._rows) - len(rows))]
        begin.valid = True
        return begin


def _repeat(value: Any, times: int) -> Iterator[Any]:
    return (value for _ in range(times))


def _model(rows: Floats) -> "Highs":
    """Nothing to minimise over |w| <= 1 with rows @ w = 0."""
    import highspy

    model = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy has no types for it
    for option, value in (
        ("output_flag", False),
        ("presolve", "off"),
        ("solver", "simplex"),
        ("threads", 1),
        ("simplex_iteration_limit", MOST_STEPS),
        ("primal_feasibility_tolerance", TOLERANCE),
        ("dual_feasibility_tolerance", TOLERANCE),
    ):
        model.setOptionValue(option, value)
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = rows.shape
    where, clients = np.nonzero(rows)
    lp.col_cost_ = np.zeros(rows.shape[1])
    lp.col_lower_, lp.col_upper_ = -np.ones(rows.shape[1]), np.ones(rows.shape[1])
    lp.row_lower_ = lp.row_upper_ = np.zeros(len(rows))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.searchsorted(where, np.arange(len(rows) + 1)).astype(np.int32)
    lp.a_matrix_.index_, lp.a_matrix_.value_ = clients.astype(np.int32), rows[where, clients]
    model.passModel(lp)
    return model
