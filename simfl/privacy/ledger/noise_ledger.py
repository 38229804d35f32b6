"""The ledger: signal to noise of each client's update, alone and against colluders, after every round."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.processor import one_thread
from simfl.privacy.ledger import coalition_bounds as bounds
from simfl.privacy.ledger.coalitions import Errors, greedy, with_two
from simfl.privacy.ledger.information import Floats, Information
from simfl.privacy.ledger.ledger_scope import COLLUDERS
from simfl.privacy.multiround.basis import Basis, basis
from simfl.privacy.multiround.budget import Budget
from simfl.privacy.multiround.classes import identical
from simfl.privacy.multiround.guarantee_trace import evaluation_rounds
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix

ALL_PAIRS = 48
"""Clients up to which every coalition of two is looked at."""
DIGITS = 9
"""Significant digits of the values; what lies beyond is rounding."""


@dataclass(frozen=True)
class ColluderCurve:
    """Signal to noise of the clients' updates, 0 where hidden and infinite where nothing covers them.

    Attributes:
        alone: what the sums alone tell, shape (N,).
        lower, upper: bounds of what the worst coalition of so many clients learns, shape (len(colluders), N); equal
            where it is exact.
        everybody: what all other clients together learn, shape (N,).
    """

    alone: Floats
    lower: Floats
    upper: Floats
    everybody: Floats

    @property
    def parts(self) -> tuple[Floats, Floats, Floats, Floats]:
        """All four, in this order."""
        return self.alone, self.lower, self.upper, self.everybody


@dataclass(frozen=True)
class NoiseLedger:
    """The curve of every client after the last round, and that of the worst client after each round.

    Attributes:
        colluders: the numbers of colluders that ``lower`` and ``upper`` are about.
        worst: ``alone`` and ``everybody`` of shape (J,), ``lower`` and ``upper`` of shape (len(colluders), J); NaN
            where not evaluated.
        last: after the last round whose rank is known.
        known: number of rounds whose rank is known; fewer than all if the budget ended.
    """

    colluders: tuple[int, ...]
    worst: ColluderCurve
    last: ColluderCurve
    known: int


def ledger(
    P: Any,
    mu: Floats,
    budget: int,
    every: int = 1,
    colluders: Sequence[int] = COLLUDERS,
    weak: Floats | None = None,
    exact: ParticipationMatrix | None = None,
) -> NoiseLedger:
    """What the sums of a participation matrix tell of updates that stay the same.

    Args:
        P: weights, scipy CSR (J, N), doubles.
        mu: what an update of weight 1 counts in units of the noise of each sum, shape (J,); infinite without noise.
        budget: work, in multiplications.
        every: rounds between evaluations; 0 = after the last round only.
        colluders: numbers of colluders; those that leave nobody else mean all others.
        weak: lower bounds of the weak guarantee after each round, shape (J,); NaN where not known.
        exact: exact weights that span, after each round, what the sums with information span; None = those of P.
    """
    import scipy.linalg  # noqa: F401  (loaded first, so that it is limited to one thread, too)

    informative = P.copy()
    informative.data = np.where(mu[np.repeat(np.arange(len(mu)), np.diff(P.indptr))] > 0, P.data, 0.0)
    rounds = ParticipationMatrix.of(informative, doubles=True)
    exact = rounds if exact is None else exact
    ranks = basis(exact, identical(exact), budget)
    state = _State(rounds, ranks, tuple(colluders), Budget(budget))
    worst = [np.full((len(colluders), rounds.shape[0]), np.nan) for _ in range(2)]
    ends = [np.full(rounds.shape[0], np.nan) for _ in range(2)]
    evaluated = evaluation_rounds(rounds.shape[0], every)
    with one_thread():
        curve = state.curve(1)
        for t in range(ranks.known):
            state.add(t, float(mu[t]))
            if evaluated[t] or t == ranks.known - 1:
                curve = state.curve(1 if weak is None or np.isnan(weak[t]) else int(weak[t]))
                ends[0][t], ends[1][t] = curve.alone.max(initial=0.0), curve.everybody.max(initial=0.0)
                worst[0][:, t] = curve.lower.max(axis=1, initial=0.0)
                worst[1][:, t] = curve.upper.max(axis=1, initial=0.0)
    return NoiseLedger(tuple(colluders), ColluderCurve(ends[0], worst[0], worst[1], ends[1]), curve, ranks.known)


class _State:
    """The sums up to some round."""

    def __init__(self, rounds: ParticipationMatrix, ranks: Basis, colluders: tuple[int, ...], budget: Budget) -> None:
        self._rounds, self._ranks, self._budget = rounds, ranks, budget
        self._colluders = np.array(colluders, dtype=np.int64)
        self._information = Information(rounds.shape[1])
        self._squares = np.zeros(rounds.shape[1])
        self._small: dict[bytes, tuple[NDArray[np.int64], Floats]] = {}
        self._rises = np.zeros(rounds.shape[0], dtype=bool)
        self._rises[ranks.rounds] = True
        self._noise_free = False

    def add(self, t: int, mu: float) -> None:
        span = slice(self._rounds.indptr[t], self._rounds.indptr[t + 1])
        clients = self._rounds.clients[span]
        if not len(clients):
            return
        row = np.zeros(self._rounds.shape[1])
        row[clients] = self._rounds.values.floats[self._rounds.codes[span]]
        self._noise_free |= np.isinf(mu)
        self._information.add(row, mu, bool(self._rises[t]))
        squares = (row[clients] * mu) ** 2
        self._squares[clients] += squares
        if len(clients) <= self._colluders.max(initial=0) + 1:
            key = clients.tobytes()
            self._small[key] = clients, squares + self._small.get(key, (clients, np.zeros(len(clients))))[1]

    def curve(self, weak: int) -> ColluderCurve:
        everybody, shape = np.sqrt(self._squares), (len(self._colluders), len(self._squares))
        n = shape[1]
        root = self._information.error_root()
        with np.errstate(divide="ignore"):
            alone = 1 / np.sqrt(np.square(root).sum(axis=0))
        alone = np.minimum(np.where(self._is_isolated(), alone, 0.0), everybody)
        lower, upper = np.tile(alone, (shape[0], 1)), np.tile(everybody, (shape[0], 1))
        if self._budget.take(n * n * (2 * self._information.rank + 8 * int(self._colluders.max(initial=0)) ** 2)):
            with np.errstate(divide="ignore"):
                least = 0.5 / self._squares
            errors = Errors(self._information.hidden(), root.T @ root, np.where(self._squares > 0, least, 0.0))
            self._raise_to_attained(errors, lower)
            if not self._noise_free:
                self._lower_to_bounds(upper)
            if n <= ALL_PAIRS and (two := np.flatnonzero(self._colluders == 2)).size:
                lower[two] = upper[two] = with_two(errors)
            lower[self._colluders == 1] = upper[self._colluders == 1] = errors.with_one()
        hidden = bounds.smaller_than_hidden(self._colluders, self._class_sizes(), weak)
        upper[hidden] = lower[hidden] = 0.0
        lower[self._colluders >= n - 1] = everybody
        lower = np.minimum(np.maximum.accumulate(np.maximum(lower, alone), axis=0), everybody)
        upper = np.minimum(np.maximum(np.minimum.accumulate(upper[::-1], axis=0)[::-1], lower), everybody)
        return ColluderCurve(*map(round_digits, (alone, lower, upper, everybody)))

    def _raise_to_attained(self, errors: Errors, lower: Floats) -> None:
        """Raises the lower bounds to what coalitions learn that can be named."""
        learned = greedy(errors, min(int(self._colluders.max(initial=0)), len(self._squares) - 1))
        for row, count in zip(lower, self._colluders, strict=True):
            np.maximum(row, learned[min(count, len(learned) - 1)], out=row)
            for clients, squares in self._small.values():
                if len(clients) <= count + 1:  # the other members of a sum take their updates off it
                    row[clients] = np.maximum(row[clients], np.sqrt(squares))

    def _lower_to_bounds(self, upper: Floats) -> None:
        """Lowers the upper bounds to what no coalition exceeds."""
        columns, n = self._information.noised_columns(), len(self._squares)
        gram = columns.T @ columns
        pairs = bounds.pairs(gram)
        for row, count in zip(upper, self._colluders.tolist(), strict=True):
            if count < n - 1:
                np.minimum(row, np.sqrt(pairs[:, count]), out=row)
            if self._budget.take(4 * n * n * self._information.rank):
                np.minimum(row, np.sqrt(bounds.groups(gram, count)), out=row)

    def _is_isolated(self) -> NDArray[np.bool_]:
        """Whose update is a combination of the sums so far, exactly; shape (N,)."""
        at, label = self._ranks.isolated, self._ranks.classes.label
        alone = (self._ranks.size == 1) & (at > 0) & (at <= self._information.rank)
        isolated: NDArray[np.bool_] = np.append(alone, False)[label]  # label -1: in no sum
        return isolated

    def _class_sizes(self) -> NDArray[np.int64]:
        """Of each client's class of equal columns after all rounds, shape (N,); what is smaller later holds earlier."""
        label = self._ranks.classes.label
        sizes: NDArray[np.int64] = np.append(self._ranks.size, len(label))[label]
        return sizes


def round_digits(values: Floats) -> Floats:
    """To so many significant digits that no order of additions shows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = DIGITS - 1 - np.floor(np.log10(values))
        rounded = np.round(values * 10**digits) / 10**digits
    return np.where((values > 0) & np.isfinite(values), rounded, values)
