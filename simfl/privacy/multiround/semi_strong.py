"""The semi-strong guarantee at several ranks: min over clients of f(i), with as few programmes as possible."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfl.core.linear_solver import linear_programme
from simfl.core.types import Bools, Floats, Integers
from simfl.privacy.multiround.basis import Basis
from simfl.privacy.multiround.guarantee_trace import Budget
from simfl.privacy.multiround.weight_reading import Values

if TYPE_CHECKING:
    from highspy import Highs, HighsSolution

CONDITION = 1e6
FRACTION = 10_000  # work of one operation on fractions


def well_conditioned(codes: NDArray[np.int32], values: Values, budget: Budget) -> Floats | None:
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


def _condition(rows: Floats) -> float:
    singular = np.linalg.svd(rows, compute_uv=False)
    return float(singular[0] / singular[-1]) if singular[-1] > 0 else np.inf


def _echelon(rows: list[list[Fraction]]) -> Floats:
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


TOLERANCE = 1e-9


def expected_work(rank: int, width: int) -> float:
    """Work of one programme, as measured on random cohorts: about 0.6 simplex steps a class."""
    return 0.6 * rank * width * width


class Programme:
    """The programmes of all classes over one row space, solved one after the other, warm: one a client, the least
    magnitude in which its update can be seen,

        f(i) = min { sum_c m_c |v_c| : v in R, v_i = 1 }
             = max { m_i + y_i : y orthogonal to R, |y_c| <= m_c for all c other than i }

    over classes c of m_c identical clients. The right-hand side is what is solved: it is feasible at y = 0, two
    bounds and a cost change from client to client, and its basis stays for the next one.

    ``rows`` are well conditioned, float64 (r, M), no zero column; ``size`` the clients in each class, (M,).
    """

    def __init__(self, rows: Floats, size: Integers) -> None:
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

    def solve(self, i: int) -> tuple[float, float, Floats]:
        """f(i) of class i, enclosed: a lower bound, an upper bound, and the v that has the upper bound, shape (M,).

        Both bounds are taken from vectors that are projected onto where they must lie, so they hold whatever
        the solver's own tolerances did.
        """
        if self._direct:
            y, v = self._solve_direct(i)
        else:
            y, v = self._solve_null(i)
        return self._lower(i, y), *self._upper(i, v)

    def _solve_direct(self, i: int) -> tuple[Floats, Floats]:
        model, size = self._model, self._size[i]
        model.changeColBounds(i, -size, np.inf)
        model.changeColCost(i, -1.0)
        solution = self._run()
        model.changeColBounds(i, -size, size)
        model.changeColCost(i, 0.0)
        return np.array(solution.col_value), np.array(solution.row_dual) @ self._rows

    def _solve_null(self, i: int) -> tuple[Floats, Floats]:
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

    def _lower(self, i: int, y: Floats) -> float:
        """m_i + y_i after y was made orthogonal to R and scaled into its bounds."""
        y = y - (y @ self._row_space.T) @ self._row_space
        loads = np.abs(y) / self._size
        loads[i] = 0.0
        return float(self._size[i] + max(0.0, y[i]) / max(1.0, loads.max(initial=0.0)))

    def _upper(self, i: int, v: Floats) -> tuple[float, Floats]:
        v = (v @ self._row_space.T) @ self._row_space
        if not abs(v[i]) > TOLERANCE:
            return np.inf, v
        v = v / v[i]
        return float(self._size @ np.abs(v)), v


def _model(matrix: Floats, size: Floats, direct: bool) -> "Highs":
    """max 0 over y with |y| <= size and matrix @ y = 0 (direct), or over s with |matrix @ s| <= size."""
    from scipy.sparse import csc_matrix

    free, nothing = np.full(matrix.shape[1], np.inf), np.zeros(len(matrix))
    variables, rows = ((-size, size), (nothing, nothing)) if direct else ((-free, free), (-size, size))
    return linear_programme(csc_matrix(matrix), variables, rows, TOLERANCE)


GAP = 1e-7
"""Greatest distance of the two bounds of a value that is called exact."""

FEW = 4  # programmes that a rank must be able to pay for before its classes are even merged


@dataclass(frozen=True)
class Enclosure:
    """A certified interval for the semi-strong value, and where its upper end comes from: the classes on which a vector
    of that ratio lives, or the number of a round that has it.
    """

    lower: float
    upper: float
    source: Integers | int

    @property
    def value(self) -> float | None:
        """The value where the bounds meet, in nine digits: further ones are the processor's. Else None."""
        if self.upper - self.lower > GAP * max(1.0, self.upper):
            return None
        return float(f"{self.upper:.9g}")


def semi_strong(basis: Basis, ranks: list[int], last: dict[int, int], budget: Budget) -> dict[int, Enclosure]:
    """The semi-strong value at each of some ranks.

    From the last rank to the first: f(i) only grows when rounds are taken away, so its value at a later rank is a
    lower bound, and only the clients whose bound lies below the best value need a programme.

    Args:
        ranks: positive ranks.
        last: for each rank the last round at which the matrix has it.
        budget: ranks that it does not allow for keep an open interval.
    """
    row_ratio, row_round = basis.of.ratios()
    bound = basis.size.astype(np.float64)
    result: dict[int, Enclosure] = {}
    for rank in sorted(ranks, reverse=True):
        t = last[rank]
        strong = float(basis.classes.smallest[t])
        best = Enclosure(strong, float(row_ratio[t]), int(row_round[t]))
        done = (basis.isolated > 0) & (basis.isolated <= rank)
        bound[done] = basis.size[done]
        if done.any():
            alone = np.flatnonzero(done)[np.argmin(basis.size[done])]
            if basis.size[alone] < best.upper:
                best = Enclosure(strong, float(basis.size[alone]), np.array([alone]))
        if best.value is None and budget.affords(FEW * expected_work(rank, int(basis.classes.count[t]))):
            best = _solve_programmes(basis, rank, best, bound, done, budget)
        result[rank] = best
    return result


def _solve_programmes(
    basis: Basis, rank: int, best: Enclosure, bound: Floats, done: Bools, budget: Budget
) -> Enclosure:
    """Solves programmes in the order of their lower bounds until none can lie below the best; updates ``bound``."""
    present, label, size = basis.merged_classes(rank)
    lower = np.zeros(len(size))
    np.maximum.at(lower, label, np.maximum(bound[present], size[label]))
    solved = np.zeros(len(size), dtype=bool)
    solved[label[done[present]]] = True
    first = np.unique(label, return_index=True)[1]
    programme = None
    upper, source = best.upper, best.source
    needed = np.count_nonzero(~solved & (lower < upper))
    if not budget.affords(needed / 2 * expected_work(rank, len(size))):
        return best
    while not solved.all():
        i = int(np.argmin(np.where(solved, np.inf, lower)))
        if lower[i] >= upper - 1e-9 * upper:
            break
        if programme is None and (programme := _programme(basis, rank, present[first], size, budget)) is None:
            break
        work = programme.work
        low, high, v = programme.solve(i)
        solved[i] = True
        if not budget.take(programme.work - work):
            break
        lower[i] = max(lower[i], min(low, high))
        if high < upper:
            upper, source = high, present[np.abs(v[label]) > 1e-9]
    bound[present] = np.maximum(bound[present], lower[label])
    return Enclosure(min(upper, max(best.lower, float(lower.min()))), upper, source)


def _programme(basis: Basis, rank: int, columns: Integers, size: Integers, budget: Budget) -> Programme | None:
    """The programmes over some classes, one for each merged class; None where the budget does not allow for it."""
    if not budget.take(float(len(size)) ** 3):
        return None
    rows = well_conditioned(basis.codes[:rank, columns], basis.of.values, budget)
    return None if rows is None else Programme(rows, size)
