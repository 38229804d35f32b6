"""The ledger: signal to noise of each client's update, alone and against colluders, after every round."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simfl.core.processor import one_thread
from simfl.core.types import Floats, Integers
from simfl.privacy.ledger.coalitions import Errors, Information, greedy, groups, pairs, smaller_than_hidden
from simfl.privacy.ledger.ledger_scope import COLLUDERS
from simfl.privacy.multiround.basis import Basis, basis
from simfl.privacy.multiround.guarantee_trace import Budget, evaluation_rounds
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix, identical

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
        self._small: dict[bytes, tuple[Integers, Floats]] = {}
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
        at, label = self._ranks.isolated, self._ranks.classes.label
        single = (self._ranks.size == 1) & (at > 0) & (at <= self._information.rank)
        isolated = np.append(single, False)[label]  # whose update is a combination of the sums; label -1: in no sum
        alone = np.minimum(np.where(isolated, alone, 0.0), everybody)
        lower, upper = np.tile(alone, (shape[0], 1)), np.tile(everybody, (shape[0], 1))
        if self._budget.take(n * n * (2 * self._information.rank + 8 * int(self._colluders.max(initial=0)) ** 2)):
            with np.errstate(divide="ignore"):
                least = 0.5 / self._squares
            errors = Errors(self._information.hidden(), root.T @ root, np.where(self._squares > 0, least, 0.0))
            self._raise_to_attained(errors, lower)
            if not self._noise_free:
                self._lower_to_bounds(upper)
            if n <= ALL_PAIRS and (two := np.flatnonzero(self._colluders == 2)).size:
                lower[two] = upper[two] = errors.with_two()
            lower[self._colluders == 1] = upper[self._colluders == 1] = errors.with_one()
        hidden = smaller_than_hidden(self._colluders, self._class_sizes(), weak)
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
        distances = pairs(gram)
        for row, count in zip(upper, self._colluders.tolist(), strict=True):
            if count < n - 1:
                np.minimum(row, np.sqrt(distances[:, count]), out=row)
            if self._budget.take(4 * n * n * self._information.rank):
                np.minimum(row, np.sqrt(groups(gram, count)), out=row)

    def _class_sizes(self) -> Integers:
        """Of each client's class of equal columns after all rounds, shape (N,); what is smaller later holds earlier."""
        label = self._ranks.classes.label
        return np.append(self._ranks.size, len(label))[label]


def round_digits(values: Floats) -> Floats:
    """To so many significant digits that no order of additions shows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = DIGITS - 1 - np.floor(np.log10(values))
        rounded = np.round(values * 10**digits) / 10**digits
    return np.where((values > 0) & np.isfinite(values), rounded, values)


def with_later_rounds(
    partial: NoiseLedger,
    P: Any,
    mu: Floats,
    every: int,
    weak: Floats | None = None,
    exact: ParticipationMatrix | None = None,
) -> NoiseLedger:
    """A ledger with values for the rounds after those that it knows, too; itself where there are none.

    What all other clients together learn needs no rank, and is exact. Nobody learns more, so that in these rounds
    ``alone`` and ``upper`` are upper bounds, 0 for clients that are hidden for certain and that of all others for the
    rest. What coalitions have learnt in the rounds before they still know: ``lower`` stays a lower bound.
    Up to the digits of the weights all of this holds whatever those are that are not sure, if equal numbers stand for
    equal weights; numbers of too few digits hide nobody.

    Args:
        partial: exact up to the round ``partial.known``; its lower bounds may be of later rounds, too.
        P, mu, every, weak: those of :func:`simfl.privacy.ledger.noise_ledger.ledger`.
        exact: weights whose columns are equal where those of P are; None = those of P.
    """
    rounds, clients = P.shape
    if partial.known == rounds:
        return partial
    evaluated, counts = evaluation_rounds(rounds, every), np.array([0, *partial.colluders], dtype=np.int64)
    sizes = _class_sizes(ParticipationMatrix.of(P, doubles=True) if exact is None else exact)
    least = np.ones(rounds) if weak is None else np.where(np.isnan(weak), 1, weak)
    seen = ~smaller_than_hidden(counts, sizes, 1)  # by nobody, then by so many colluders
    everybody, before = np.append(False, counts[1:] >= clients - 1), slice(P.indptr[partial.known])
    with np.errstate(invalid="ignore"):  # squared, of each weight's client in its sum if the others are known, (n,)
        signals = np.where(P.data > 0, P.data * np.repeat(mu, np.diff(P.indptr)), 0.0) ** 2
    squares = np.bincount(P.indices[before], signals[before], clients).astype(np.float64)
    most, of_all = np.where(seen, squares, 0.0).max(axis=1, initial=0.0), squares.max(initial=0.0)
    worst = ColluderCurve(*(each.copy() for each in partial.worst.parts))
    learnt = partial.last.lower.max(axis=1, initial=0.0)
    _forget(worst, partial.known)
    for t in range(partial.known, rounds):
        span = slice(P.indptr[t], P.indptr[t + 1])
        members = P.indices[span]
        squares[members] += signals[span]
        most = np.maximum(most, np.where(seen[:, members], squares[members], 0.0).max(axis=1, initial=0.0))
        of_all = max(of_all, squares[members].max(initial=0.0))
        if evaluated[t]:
            upper, all_others = round_digits(np.sqrt(np.where(counts + 1 < least[t], 0.0, most))), np.sqrt(of_all)
            worst.alone[t], worst.upper[:, t] = upper[0], upper[1:]
            worst.everybody[t] = round_digits(np.array([all_others]))[0]
            lower = partial.worst.lower[:, t]
            worst.lower[:, t] = np.where(np.isnan(lower), learnt, lower)
            worst.lower[everybody[1:], t] = worst.everybody[t]
    bounds = np.where(seen & (counts[:, None] + 1 >= least[-1]), round_digits(np.sqrt(squares)), 0.0)
    last = ColluderCurve(bounds[0], partial.last.lower.copy(), bounds[1:], round_digits(np.sqrt(squares)))
    last.lower[everybody[1:]] = last.everybody
    return NoiseLedger(partial.colluders, worst, last, rounds)


def _forget(worst: ColluderCurve, first: int) -> None:
    """Drops the values of the rounds from the first one on."""
    for each in worst.parts:
        each[..., first:] = np.nan


def _class_sizes(exact: ParticipationMatrix) -> Integers:
    """How many clients have the same column as each client for certain, itself included, shape (N,)."""
    classes = identical(exact)
    sizes: Integers = np.append(classes.size, exact.shape[1])[classes.label]  # label -1: in no sum, and hidden
    return np.where(exact.with_rough_weights(), 1, sizes)


@dataclass(frozen=True)
class BoundedLedger:
    """A ledger of all rounds, and how far it is exact.

    Attributes:
        whole: of all rounds; after the exact ones ``alone`` and ``upper`` are upper bounds, and ``lower`` lower ones.
        certain: of the sums whose weights are sure, as far as the budget goes: what is learnt at least.
        exact: number of rounds up to which it is exact.
    """

    whole: NoiseLedger
    certain: NoiseLedger
    exact: int

    @property
    def alone_lower(self) -> tuple[Floats, Floats]:
        """Lower bounds of what the sums alone tell: of each client, (N,), and most after each round, (J,)."""
        last, worst = self.certain.last.alone, self.certain.worst.alone
        later = np.where(np.isnan(worst), last.max(initial=0.0), worst)
        return last, np.where(np.isnan(self.whole.worst.alone), np.nan, later)


def bounded_ledger(
    sums: Any,
    mu: Floats,
    aggregates: Any,
    rounds: ParticipationMatrix,
    budget: int,
    every: int,
    colluders: Sequence[int] = COLLUDERS,
    weak: Floats | None = None,
) -> BoundedLedger:
    """The ledger of sums some weights of which may be rounded numbers: exact as far as weights are sure and the budget
    goes, bounds for the rounds after that.

    A sum with a weight that may be a rounded number tells nothing for certain. The other sums are there, whatever it
    is: what they tell is a lower bound. What all others together learn needs no exact weights, and nobody learns more.

    Args:
        sums, mu, aggregates: see :func:`simfl.privacy.ledger.ledger_columns.sums_and_noise`.
        rounds: the aggregates with exact weights, as far as they are sure.
        budget, every, colluders, weak: see :func:`simfl.privacy.ledger.noise_ledger.ledger`; ``weak`` must hold
            whatever the weights are that are not sure.
    """
    first = rounds.first_unsure
    sure = rounds.sure if aggregates is sums else np.arange(rounds.shape[0]) < first
    known_mu = np.where(sure, mu, 0.0)
    certain = ledger(sums, known_mu, budget, every, colluders, weak, rounds.only(known_mu > 0))
    exact = min(first, certain.known)
    whole = with_later_rounds(replace(certain, known=exact), sums, mu, every, weak, rounds)
    return BoundedLedger(whole, certain, exact)
