"""One linear programme a client: the least magnitude in which its update can be seen.

    f(i) = min { sum_c m_c |v_c| : v in R, v_i = 1 }
         = max { m_i + y_i : y orthogonal to R, |y_c| <= m_c for all c other than i }

over classes c of m_c identical clients. The right-hand side is what is solved: it is feasible at y = 0, two
bounds and a cost change from client to client, and its basis stays for the next one.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfl.core.linear_solver import simplex_solver

if TYPE_CHECKING:
    from highspy import Highs, HighsSolution

TOLERANCE = 1e-9


def expected_work(rank: int, width: int) -> float:
    """Work of one programme, as measured on random cohorts: about 0.6 simplex steps a class."""
    return 0.6 * rank * width * width


class Programme:
    """The programmes of all classes over one row space, solved one after the other, warm.

    ``rows`` are well conditioned, float64 (r, M), no zero column; ``size`` the clients in each class, (M,).
    """

    def __init__(self, rows: NDArray[np.float64], size: NDArray[np.int64]) -> None:
        self._size = size.astype(np.float64)
        self._rows = rows
        rank, width = rows.shape
        full = np.linalg.qr(self._rows.T, mode="complete")[0].T
        self._row_space, self._null_space = full[:rank], full[rank:]
        # y itself, with a condition a row of R, or coordinates of y in the null space, with a bound a class:
        # whichever leaves the simplex the smaller basis
        self._direct = 3 * rank <= 2 * width
        self._model = _model(self._rows if self._direct else self._null_space.T, self._size, self._direct)
        self._iterations = 0

    @property
    def work(self) -> float:
        """Work so far, in modular multiplications or what costs as much."""
        rank, width = self._rows.shape
        return float(width) ** 3 + float(self._iterations) * max(rank * width, 2000)

    def solve(self, i: int) -> tuple[float, float, NDArray[np.float64]]:
        """f(i) of class i, enclosed: a lower bound, an upper bound, and the v that has the upper bound, shape (M,).

        Both bounds are taken from vectors that are projected onto where they must lie, so they hold whatever
        the solver's own tolerances did.
        """
        if self._direct:
            y, v = self._solve_direct(i)
        else:
            y, v = self._solve_null(i)
        return self._lower(i, y), *self._upper(i, v)

    def _solve_direct(self, i: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        model, size = self._model, self._size[i]
        model.changeColBounds(i, -size, np.inf)
        model.changeColCost(i, -1.0)
        solution = self._run()
        model.changeColBounds(i, -size, size)
        model.changeColCost(i, 0.0)
        return np.array(solution.col_value), np.array(solution.row_dual) @ self._rows

    def _solve_null(self, i: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        model, size = self._model, self._size[i]
        dimension = len(self._null_space)
        model.changeRowBounds(i, -size, np.inf)
        model.changeColsCost(dimension, np.arange(dimension, dtype=np.int32), -self._null_space[:, i])
        solution = self._run()
        model.changeRowBounds(i, -size, size)
        # stationarity: null_space @ (e_i + duals) = 0, so this lies in the row space
        v = np.array(solution.row_dual)
        v[i] += 1.0
        return np.array(solution.col_value) @ self._null_space, v

    def _run(self) -> "HighsSolution":
        self._model.run()
        self._iterations += max(1, self._model.getInfo().simplex_iteration_count)
        return self._model.getSolution()

    def _lower(self, i: int, y: NDArray[np.float64]) -> float:
        """m_i + y_i after y was made orthogonal to R and scaled into its bounds."""
        y = y - (y @ self._row_space.T) @ self._row_space
        loads = np.abs(y) / self._size
        loads[i] = 0.0
        return float(self._size[i] + max(0.0, y[i]) / max(1.0, loads.max(initial=0.0)))

    def _upper(self, i: int, v: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        v = (v @ self._row_space.T) @ self._row_space
        if not abs(v[i]) > TOLERANCE:
            return np.inf, v
        v = v / v[i]
        return float(self._size @ np.abs(v)), v


def _model(matrix: NDArray[np.float64], size: NDArray[np.float64], direct: bool) -> "Highs":
    """max 0 over y with |y| <= size and matrix @ y = 0 (direct), or over s with |matrix @ s| <= size."""
    import highspy
    from scipy.sparse import csc_matrix

    model = simplex_solver(TOLERANCE)
    lp, sparse = highspy.HighsLp(), csc_matrix(matrix)
    n_rows, n_columns = matrix.shape
    free = np.full(n_columns, np.inf)
    lp.num_row_, lp.num_col_ = n_rows, n_columns
    lp.col_cost_ = np.zeros(n_columns)
    lp.col_lower_, lp.col_upper_ = (-size, size) if direct else (-free, free)
    lp.row_lower_, lp.row_upper_ = (np.zeros(n_rows), np.zeros(n_rows)) if direct else (-size, size)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = sparse.indptr, sparse.indices, sparse.data
    model.passModel(lp)
    return model
