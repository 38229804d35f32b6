"""Which clients stand alone in a combination of aggregates, from which round on, and in which combination."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from simfl.privacy.multiround.analysis import MatrixAnalysis
from simfl.privacy.multiround.basis import Basis
from simfl.privacy.multiround.budget import Budget
from simfl.privacy.multiround.witness import isolating

NAMED = 5
"""Coefficients of a combination that reports name, the largest first."""


@dataclass(frozen=True)
class Exposure:
    """A client whose own update the server can compute.

    Attributes:
        client: its position.
        round: position of the round from which on it can.
        coefficients: position of a round -> its coefficient in the combination that gives the update, zeros left out;
            fractions where ``exact``, else floats; None if beyond the budget.
        residual: the largest magnitude at which the combination differs from the client alone; 0 where ``exact``.
        exact: whether the combination was computed in fractions.
    """

    client: int
    round: int
    coefficients: Mapping[int, Fraction | float] | None
    residual: float | None
    exact: bool

    def largest(self) -> list[tuple[int, float]]:
        """(position of a round, coefficient) of the largest coefficients, at most :data:`NAMED`."""
        ranked = sorted((self.coefficients or {}).items())
        ranked.sort(key=lambda item: max(item[1], -item[1]), reverse=True)
        return [(t, float(value)) for t, value in ranked[:NAMED]]


def exposures(study: MatrixAnalysis, budget: Budget) -> list[Exposure]:
    """All exposures among the rounds whose rank is known, in order of time."""
    basis = study.basis
    alone = np.flatnonzero((basis.size == 1) & (basis.isolated > 0))
    seen = np.flatnonzero(basis.classes.label >= 0)
    client_of = np.zeros(len(basis.size), dtype=np.int64)
    client_of[basis.classes.label[seen]] = seen
    exposed = []
    for rank in np.unique(basis.isolated[alone]).tolist():
        classes = alone[basis.isolated[alone] == rank].tolist()
        combinations = _exact(basis, rank, classes, budget) or _approximate(basis, rank, classes, budget)
        t = int(basis.rounds[rank - 1])
        exposed += [Exposure(int(client_of[c]), t, *way) for c, way in zip(classes, combinations, strict=True)]
    return sorted(exposed, key=lambda exposure: (exposure.round, exposure.client))


Way = tuple[Mapping[int, Fraction | float] | None, float | None, bool]


def _exact(basis: Basis, rank: int, classes: list[int], budget: Budget) -> list[Way]:
    witnesses = isolating(basis, rank, classes, budget)
    return [] if witnesses is None else [(witness.coefficients, 0.0, True) for witness in witnesses]


def _approximate(basis: Basis, rank: int, classes: list[int], budget: Budget) -> list[Way]:
    """Least squares in floating point."""
    if not budget.take(10 * rank * rank * basis.codes.shape[1]):
        return [(None, None, False)] * len(classes)
    rows = basis.floats(rank)
    scale = rows.max(axis=1)
    rows /= scale[:, None]
    units = (np.arange(rows.shape[1])[:, None] == classes).astype(float)
    solution = np.linalg.lstsq(rows.T, units)[0]
    residuals = np.abs(rows.T @ solution - units).max(axis=0)
    rounds = basis.rounds[:rank].tolist()
    return [
        ({t: float(z) for t, z in zip(rounds, column / scale, strict=True) if z}, float(residual), False)
        for column, residual in zip(solution.T, residuals, strict=True)
    ]
