"""What the aggregates of a deployment gave away: the guarantees over time, and the clients they expose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.api.certificates import (
    BUDGET,
    Basis,
    Budget,
    ColludedGuarantees,
    MatrixAnalysis,
    MultiRound,
    ParticipationMatrix,
    Trace,
    against_any,
    bounded_metrics,
    bounds_for_any_weights,
    facts_of_a_log,
    final_metrics,
    isolating,
    without_clients,
)
from simfl.api.processes import one_thread
from simfl.deployment.audit.log_ledger import LogLedger, Spent
from simfl.plugins import JsonObject, SimflError

NAMED = 5
"""Coefficients of a combination that reports name, the largest first."""

Way = tuple[Mapping[int, Fraction | float] | None, float | None, bool]


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


@dataclass(frozen=True)
class Report:
    """The audit of a participation log.

    Attributes:
        metrics: rank and guarantees after the last round, with witnesses.
        trace: the same over time.
        exposed: who is exposed, in order of time.
        known: number of rounds for which rank and exposure are known; fewer than all if the budget ended.
        doubtful: how many rounds hold weights that cannot be read for sure. ``metrics``, ``trace`` and ``exposed`` then
            say what holds whatever those weights are.
        first_doubtful: position of the first of these rounds.
        as_written: the metrics where such weights are taken as they stand; None where there are none.
        likely: who else is exposed then.
        hidden: (N,): expected relative squared error of each client's update, recovered by least squares over the
            rounds whose rank is known (:func:`hidden`); None if beyond the budget, or weights are
            doubtful.
        spent: what noise in the sums leaves to be learned, where that was asked.
        colluding: labels of the clients that work together with the server; all else is said of the others.
        against_any: the guarantees against any further colluders, where that was asked.
        ledger: at which signal to noise each client's update is known, where that was asked.
        read: in words, how the log was read, and what another reading would say.
        coming: the forecast's first line, where it was made.
    """

    rounds: Sequence[Any]
    clients: Sequence[Any]
    metrics: MultiRound
    trace: Trace
    exposed: tuple[Exposure, ...]
    known: int
    doubtful: int = 0
    first_doubtful: int | None = None
    as_written: MultiRound | None = None
    likely: tuple[Exposure, ...] = ()
    unused: tuple[str, ...] = ()
    hidden: NDArray[np.float64] | None = None

    spent: Spent | None = None
    colluding: tuple[Any, ...] = ()
    against_any: ColludedGuarantees | None = None
    ledger: LogLedger | None = None
    read: tuple[str, ...] = ()
    coming: str = ""

    @property
    def predicted_error(self) -> float | None:
        """1 - rank / N, the mean of ``hidden``: for uncorrelated updates of equal length; no lower bound."""
        return None if self.hidden is None else float(self.hidden.mean())

    def count_rounds(self, rows: int | None = None) -> int:
        """Of how many rounds the first rows of the matrix are, of all if None: a session that failed may show more
        than one.
        """
        return len(set(self.rounds[:rows]))

    def exposed_by_round(self) -> NDArray[np.float64]:
        """How many clients are exposed after each round, shape (J,); NaN where it is not known (see ``known``)."""
        since = np.array([exposure.round for exposure in self.exposed], dtype=np.int64)
        counts = np.cumsum(np.bincount(since, minlength=len(self.rounds))).astype(np.float64)
        counts[self.known :] = np.nan
        return counts

    def to_json(self) -> JsonObject:
        """The report as plain data; null where there is no aggregate or a value is beyond the budget."""
        return {
            "clients": len(self.clients),
            "rounds": self.count_rounds(),
            **facts_of_a_log(),
            **_guarantees(self.metrics),
            "known_rounds": self.count_rounds(self.known),
            "exposed": [self._exposure(exposure) for exposure in self.exposed],
            "least_squares": None
            if self.hidden is None
            else {
                "predicted_error": self.predicted_error,
                "clients": [
                    {"client": client, "error": error}
                    for client, error in zip(self.clients, self.hidden.tolist(), strict=True)
                ],
            },
            "weights": {
                "read_as": self.metrics.read,
                "certain": self.metrics.sure,
                "doubtful_rounds": self.doubtful,
                "first_doubtful_round": None if self.first_doubtful is None else self.rounds[self.first_doubtful],
            },
            "as_written": None
            if self.as_written is None
            else {**_guarantees(self.as_written), "exposed": [self._exposure(exposure) for exposure in self.likely]},
            "unused_columns": list(self.unused),
            "read": list(self.read),
            **({} if self.spent is None else {"epsilon": self.spent.to_json()}),
            **({} if self.ledger is None else {"ledger": self.ledger.to_json()}),
            **({"colluding": list(self.colluding)} if self.colluding else {}),
            **({} if self.against_any is None else {"against_any": self.against_any._asdict()}),
            "trace": {
                "round": list(self.rounds),
                **{
                    name: [None if np.isnan(value) else float(value) for value in getattr(self.trace, name)]
                    for name in ("rank", "strong", "semi_strong", "weak_lower", "weak_upper")
                },
            },
        }

    def _exposure(self, exposure: Exposure) -> JsonObject:
        combined = exposure.coefficients
        return {
            "client": self.clients[exposure.client],
            "round": self.rounds[exposure.round],
            "largest": [{"round": self.rounds[t], "coefficient": value} for t, value in exposure.largest()],
            "combination": None
            if combined is None
            else {"rounds": [self.rounds[t] for t in combined], "coefficients": [float(z) for z in combined.values()]},
            "residual": exposure.residual,
            "exact": exposure.exact,
        }


def _guarantees(rounds_metrics: MultiRound) -> JsonObject:
    return {
        "rank": rounds_metrics.rank,
        "strong": rounds_metrics.strong,
        "semi_strong": rounds_metrics.semi_strong,
        "weak": {
            "lower": rounds_metrics.weak_lower,
            "upper": rounds_metrics.weak_upper,
            "exact": None if rounds_metrics.weak_lower is None else rounds_metrics.weak_exact,
        },
    }


def audit(
    P: object,
    rounds: Sequence[object] | None = None,
    clients: Sequence[object] | None = None,
    every: int = 1,
    budget: int = BUDGET,
    unused: Sequence[str] = (),
    doubles: bool = False,
    colluding: Sequence[int] = (),
    colluders: int | None = None,
    spent: Spent | None = None,
) -> Report:
    """Audits a participation matrix.

    Args:
        P: weights, shape (J, N), non-negative; dense or scipy-sparse.
        rounds, clients: labels; None numbers them from 0.
        every: rounds between evaluations of the semi-strong and weak guarantees; exposure is found for every round.
        budget: work of each stage, in modular multiplications (10**9 is a few seconds).
        unused: names of columns of the log that were not read, for the report.
        doubles: the weights are doubles with all their digits, as a run's are; else whether they were rounded is
            found out.
        colluding: positions of clients that tell the server their own updates; the report is about the others.
        spent: what noise leaves to be learned, for the report.
        colluders: also say what is left against the server and any of so many (further) clients.

    Raises:
        SimflError: P is no participation matrix, or there are as many colluders as clients.
    """
    matrix = ParticipationMatrix.of(P, doubles)
    rounds = range(matrix.shape[0]) if rounds is None else rounds
    clients = range(matrix.shape[1]) if clients is None else clients
    named = sorted(set(colluding))
    if (several := len(named) + (colluders or 0)) and several >= matrix.shape[1]:
        raise SimflError(f"{several} colluders leave none of {matrix.shape[1]} clients; at most {matrix.shape[1] - 1}")
    others = np.setdiff1d(np.arange(matrix.shape[1]), named)
    if named:
        matrix = without_clients(matrix, np.array(named))
    report = _audit(matrix, (rounds, [clients[i] for i in others] if named else clients), every, budget, unused)
    left = None if colluders is None else against_any(report.metrics, colluders)
    return replace(report, colluding=tuple(clients[i] for i in named), against_any=left, spent=spent)


def _audit(
    matrix: ParticipationMatrix,
    labels: tuple[Sequence[Any], Sequence[Any]],
    every: int,
    budget: int,
    unused: Sequence[str],
) -> Report:
    certain = MatrixAnalysis.of(matrix if matrix.sure.all() else matrix.certain(), budget)
    evaluation = certain.evaluate(every)
    by_round, exposed = certain.trace(evaluation), tuple(exposures(certain, Budget(budget)))
    known = certain.basis.known
    if matrix.sure.all():
        return Report(*labels, final_metrics(certain, evaluation), by_round, exposed, known, unused=tuple(unused),
                      hidden=hidden(certain.basis, Budget(budget)))  # fmt: skip
    written = MatrixAnalysis.of(matrix, budget)
    sure = {exposure.client for exposure in exposed}
    likely = tuple(e for e in exposures(written, Budget(budget)) if e.client not in sure)
    return Report(
        *labels,
        bounded_metrics(matrix, certain, evaluation),
        bounds_for_any_weights(matrix, by_round, every),
        exposed,
        known,
        int(np.count_nonzero(~matrix.sure)),
        matrix.first_unsure,
        final_metrics(written, written.evaluate(every=0)),
        likely,
        tuple(unused),
    )


def hidden(basis: Basis, budget: Budget) -> NDArray[np.float64] | None:
    """R_ii of the projector R onto the null space of the sums, (N,): the expected relative squared error of client i.

    No lower bound: updates that point the same way are recovered better (:mod:`simfl.attacks.least_squares`). For
    updates of equal length that are orthogonal to each other, without noise (arXiv 2106.03328, Appendix G); its
    mean is 1 - rank / N. 0 = recovered exactly, 1 = nothing is known. None if it is beyond the budget.
    """
    rank, size, label = len(basis.rounds), basis.size, basis.classes.label
    if not budget.take(10 * rank * rank * len(size)):
        return None
    ratios = np.ones(len(label))
    if rank:
        with one_thread():  # clients of a class have one column: its unit vector has length 1 / sqrt(size)
            span, _ = np.linalg.qr((basis.floats(rank) * np.sqrt(size)).T)
        known = np.square(span).sum(axis=1) / size
        seen = label >= 0
        ratios[seen] = np.clip(1 - known[label[seen]], 0, 1)
    ratios[np.isin(label, np.flatnonzero((size == 1) & (basis.isolated > 0)))] = 0.0  # exactly
    return ratios


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
