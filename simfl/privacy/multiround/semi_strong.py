"""The semi-strong guarantee at several ranks: min over clients of f(i), with as few programmes as possible."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.multiround.basis import Basis
from simfl.privacy.multiround.budget import Budget
from simfl.privacy.multiround.conditioning import well_conditioned
from simfl.privacy.multiround.linear_programme import Programme, expected_work

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
    source: NDArray[np.int64] | int

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
    basis: Basis,
    rank: int,
    best: Enclosure,
    bound: NDArray[np.float64],
    done: NDArray[np.bool_],
    budget: Budget,
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


def _programme(
    basis: Basis, rank: int, columns: NDArray[np.int64], size: NDArray[np.int64], budget: Budget
) -> Programme | None:
    """The programmes over some classes, one for each merged class; None where the budget does not allow for it."""
    if not budget.take(float(len(size)) ** 3):
        return None
    rows = well_conditioned(basis.codes[:rank, columns], basis.of.values, budget)
    return None if rows is None else Programme(rows, size)
