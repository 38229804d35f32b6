"""The linear programmes that look for certificates, one for each client."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.linear_solver import simplex_solver

if TYPE_CHECKING:
    from highspy import Highs, HighsBasis

Floats = NDArray[np.float64]

TOLERANCE = 1e-9
"""Of sums and bounds."""

MOST_STEPS = 100_000
"""Steps of the simplex algorithm for one programme; a row that needs more is refused."""


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
        begin.row_status = [*rows, *_repeat(highspy.HighsBasisStatus.kBasic, len(self._rows) - len(rows))]
        begin.valid = True
        return begin


def _repeat(value: Any, times: int) -> Iterator[Any]:
    return (value for _ in range(times))


def _model(rows: Floats) -> "Highs":
    """Nothing to minimise over |w| <= 1 with rows @ w = 0."""
    import highspy

    model = simplex_solver(TOLERANCE)
    model.setOptionValue("simplex_iteration_limit", MOST_STEPS)
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
