"""The solver of linear programmes that guarantees rest on (HiGHS)."""

from typing import TYPE_CHECKING, Any

import numpy as np

from simfl.core.types import Floats

if TYPE_CHECKING:
    from highspy import Highs

Ends = tuple[Floats, Floats]
"""The least and the largest value of each variable or row."""


def linear_programme(matrix: Any, variables: Ends, rows: Ends, tolerance: float) -> "Highs":
    """A programme with nothing to minimise yet, solved by the simplex algorithm alone: silent, and in one thread.

    Args:
        matrix: scipy CSC or CSR (rows, variables).
        variables: their ends, (variables,) each.
        rows: ends of the matrix times the variables, (rows,) each.
        tolerance: by which bounds of variables, and of reduced costs, may be missed.
    """
    import highspy

    solver, lp = highspy.Highs(), highspy.HighsLp()  # type: ignore[no-untyped-call]  # highspy has no types for it
    for option, value in (
        ("output_flag", False),
        ("presolve", "off"),
        ("solver", "simplex"),
        ("threads", 1),
        ("primal_feasibility_tolerance", tolerance),
        ("dual_feasibility_tolerance", tolerance),
    ):
        solver.setOptionValue(option, value)
    lp.num_row_, lp.num_col_ = matrix.shape
    lp.col_cost_ = np.zeros(matrix.shape[1])
    (lp.col_lower_, lp.col_upper_), (lp.row_lower_, lp.row_upper_) = variables, rows
    formats = highspy.MatrixFormat
    lp.a_matrix_.format_ = formats.kColwise if matrix.format == "csc" else formats.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    solver.passModel(lp)
    return solver
