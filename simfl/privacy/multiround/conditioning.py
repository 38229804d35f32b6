"""Rows that span the same space and that floating point can work with."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.multiround.budget import Budget
from simfl.privacy.multiround.weights import Values

CONDITION = 1e6
FRACTION = 10_000  # work of one operation on fractions


def well_conditioned(codes: NDArray[np.int32], values: Values, budget: Budget) -> NDArray[np.float64] | None:
    """The rows of ``codes``, (r, M), each with largest entry 1, or their exact reduced echelon form if nearly
    dependent.

    None if the budget does not allow for the work on fractions or it does not help. Exactly the rows are independent.
    """
    rows = values.floats[codes]
    rows /= rows.max(axis=1, keepdims=True)
    if _condition(rows) <= CONDITION:
        return rows
    if not budget.take(FRACTION * codes.shape[0] ** 2 * codes.shape[1]):
        return None
    form = _echelon([[values.fraction(code) for code in row] for row in codes])
    return form if _condition(form) <= CONDITION else None


def _condition(rows: NDArray[np.float64]) -> float:
    singular = np.linalg.svd(rows, compute_uv=False)
    return float(singular[0] / singular[-1]) if singular[-1] > 0 else np.inf


def _echelon(rows: list[list[Fraction]]) -> NDArray[np.float64]:
    """Gauss-Jordan elimination in fractions; complete pivoting keeps the entries moderate."""
    for k in range(len(rows)):
        i, j = max(
            ((i, j) for i in range(k, len(rows)) for j in range(len(rows[0]))), key=lambda ij: abs(rows[ij[0]][ij[1]])
        )
        rows[k], rows[i] = rows[i], rows[k]
        pivot = rows[k][j]
        rows[k] = [x / pivot for x in rows[k]]
        for other in range(len(rows)):
            if other != k and rows[other][j]:
                factor = rows[other][j]
                rows[other] = [x - factor * y for x, y in zip(rows[other], rows[k], strict=True)]
    return np.array([[float(x) for x in row] for row in rows])
