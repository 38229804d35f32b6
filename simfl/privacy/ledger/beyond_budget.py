"""What the ledger says of rounds whose rank is not known, for lack of budget or exact weights: bounds without it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.privacy.ledger.coalition_bounds import smaller_than_hidden
from simfl.privacy.ledger.information import Floats
from simfl.privacy.ledger.noise_ledger import ColluderCurve, NoiseLedger, round_digits
from simfl.privacy.multiround.classes import identical
from simfl.privacy.multiround.guarantee_trace import evaluation_rounds
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix


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
    everybody = np.append(False, counts[1:] >= clients - 1)
    signals = _signals(P, mu)
    first = P.indptr[partial.known]
    squares = np.bincount(P.indices[:first], signals[:first], clients).astype(np.float64)
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


def _signals(P: Any, mu: Floats) -> Floats:
    """The squared signal to noise of each weight's client in its sum, if the others are known; shape (n,)."""
    with np.errstate(invalid="ignore"):
        signals: Floats = np.where(P.data > 0, P.data * np.repeat(mu, np.diff(P.indptr)), 0.0) ** 2
    return signals


def _forget(worst: ColluderCurve, first: int) -> None:
    """Drops the values of the rounds from the first one on."""
    for each in worst.parts:
        each[..., first:] = np.nan


def _class_sizes(exact: ParticipationMatrix) -> NDArray[np.int64]:
    """How many clients have the same column as each client for certain, itself included, shape (N,)."""
    classes = identical(exact)
    sizes: NDArray[np.int64] = np.append(classes.size, exact.shape[1])[classes.label]  # label -1: in no sum, and hidden
    return np.where(exact.with_rough_weights(), 1, sizes)
