"""What the ledger says of rounds that its budget did not reach: bounds that need no rank."""

from typing import Any

import numpy as np

from simfl.privacy.ledger.coalition_bounds import smaller_than_hidden
from simfl.privacy.ledger.information import Floats
from simfl.privacy.ledger.noise_ledger import ColluderCurve, NoiseLedger, round_digits
from simfl.privacy.multiround.classes import identical
from simfl.privacy.multiround.guarantee_trace import evaluation_rounds
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix

NOBODY = np.zeros(1, dtype=np.int64)


def with_later_rounds(partial: NoiseLedger, P: Any, mu: Floats, every: int, weak: Floats | None = None) -> NoiseLedger:
    """A ledger with values for the rounds after those that it knows, too; itself where there are none.

    What all other clients together learn needs no rank, and is exact. It bounds what fewer of them, or none, learn of a
    client, if they learn anything: ``alone`` and ``upper`` are upper bounds in these rounds, 0 where the client is
    hidden for certain. What coalitions had learnt before they still know: ``lower`` stays a lower bound.

    Args:
        P, mu, every, weak: those of :func:`simfl.privacy.ledger.noise_ledger.ledger`.
    """
    rounds, clients = P.shape
    if partial.known == rounds:
        return partial
    colluders, evaluated = np.array(partial.colluders, dtype=np.int64), evaluation_rounds(rounds, every)
    classes = identical(ParticipationMatrix.of(P, doubles=True))
    sizes = np.append(classes.size, clients)[classes.label]  # label -1: in no sum, and hidden
    with np.errstate(invalid="ignore"):
        signals = np.where(P.data > 0, P.data * np.repeat(mu, np.diff(P.indptr)), 0.0) ** 2
    first = P.indptr[partial.known]
    squares = np.bincount(P.indices[:first], signals[:first], clients).astype(np.float64)
    worst = ColluderCurve(*(each.copy() for each in partial.worst.parts))
    last = partial.last
    for t in range(partial.known, rounds):
        span = slice(P.indptr[t], P.indptr[t + 1])
        squares[P.indices[span]] += signals[span]
        if not evaluated[t]:
            continue
        everybody = round_digits(np.sqrt(squares))
        least = 1 if weak is None or np.isnan(weak[t]) else int(weak[t])
        alone = np.where(smaller_than_hidden(NOBODY, sizes, least)[0], 0.0, everybody)
        upper = np.where(smaller_than_hidden(colluders, sizes, least), 0.0, everybody)
        lower = np.minimum(np.where(colluders[:, None] >= clients - 1, everybody, partial.last.lower), upper)
        last = ColluderCurve(alone, lower, upper, everybody)
        for of_worst, of_clients in zip(worst.parts, last.parts, strict=True):
            of_worst[..., t] = of_clients.max(axis=-1, initial=0.0)
    return NoiseLedger(partial.colluders, worst, last, rounds)
