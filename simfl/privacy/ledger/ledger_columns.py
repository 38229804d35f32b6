"""What a run's tables say of the ledger: a value a round for the worst client, and one for each client at the end."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import SERVER, Bools, Floats
from simfl.privacy.accountant import History
from simfl.privacy.dp.losses import losses, noised_weights
from simfl.privacy.ledger.ledger_scope import COLLUDERS, LEDGER_COLUMNS
from simfl.privacy.ledger.noise_ledger import ColluderCurve, NoiseLedger, bounded_ledger
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix, with_samples

Foreign = Callable[[Any, int], Any]
"""The sums as they look to their aggregator."""


def ledgers(
    history: History, foreign: Foreign, every: int, budget: int, weak: NDArray[np.float64] | None = None
) -> Iterator[NoiseLedger]:
    """The ledger against each aggregator; with bounds after the budget, and from the first round on whose weights, with
    the clients' samples where they count, are not sure.
    """
    for who, P in history.participation.items():
        sums, mu, aggregates = sums_and_noise(history, who, foreign(P, who))
        rounds = ParticipationMatrix.of(aggregates, doubles=True)
        yield bounded_ledger(sums, mu, aggregates, rounds, budget, every, weak=weak).whole


def of_rounds(history: History, tables: list[NoiseLedger]) -> Mapping[str, list[float | None]]:
    """The columns of rounds.csv, against the worst aggregator."""
    if history.silent:
        return {column.name: [None] * history.shape[0] for column in LEDGER_COLUMNS}
    values = np.maximum.reduce([_rows(each.worst) for each in tables])
    if _is_bare(history):
        values = np.full_like(values, np.inf)
    elif not _is_noised(history):
        values[0, history.open_to(0)] = np.inf
        for both, count in zip(_bounds(values), COLLUDERS, strict=True):
            both[:, history.open_to(count)] = np.inf
    cells = [[float(value) if np.isfinite(value) else None for value in row] for row in values]
    return dict(zip([column.name for column in LEDGER_COLUMNS], cells, strict=True))


def of_clients(history: History, tables: list[NoiseLedger]) -> Mapping[str, NDArray[np.generic]]:
    """A value for each client after the last round, (clients,), infinite where nothing covers its update."""
    values = np.maximum.reduce([_rows(each.last) for each in tables])
    if history.silent:
        values = np.zeros_like(values)
    elif _is_bare(history):
        took_part = np.zeros(history.shape[1], dtype=bool)
        for P in history.participation.values():
            took_part[P.indices] = True
        values = np.where(took_part, np.inf, np.zeros_like(values))
    elif not _is_noised(history):
        values[0, _in_open_sums(history, 0)] = np.inf
        for both, count in zip(_bounds(values), COLLUDERS, strict=True):
            both[:, _in_open_sums(history, count)] = np.inf
    return dict(zip([column.name for column in LEDGER_COLUMNS], values, strict=True))


def _in_open_sums(history: History, colluders: int) -> Bools:
    """Whose update the server and so many clients may have seen, bool (clients,); anybody's where a sum has failed."""
    open_, seen = history.fewest_tolerated() < colluders, np.zeros(history.shape[1], dtype=bool)
    for P in history.participation.values():
        seen[P[open_].indices] = True
        seen |= bool((open_ & (np.diff(P.indptr) == 0)).any())
    return seen


def _is_bare(history: History) -> bool:
    """Whether more than sums is seen of each client, and no noise covers it."""
    view = history.any_view
    return bool(view.opaque) or view.uncovered or (view.open and not _is_noised(history))


def _is_noised(history: History) -> bool:
    """Whether the observer sees noised sums only; else it is the server, to whom colluders can open the protocol."""
    return any(loss.mu is not None and np.isfinite(loss.mu).all() for loss in losses(history))


def _rows(curve: ColluderCurve) -> NDArray[np.float64]:
    """In the order of the columns."""
    between = np.stack([curve.lower, curve.upper], axis=1).reshape(-1, len(curve.alone))
    return np.concatenate([curve.alone[None], between, curve.everybody[None]])


def _bounds(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rows of the lower and the upper bound against each number of colluders, a view, (numbers, 2, n)."""
    return rows[1:-1].reshape(len(COLLUDERS), 2, -1)


def sums_and_noise(history: History, aggregator: int, P: Any) -> tuple[Any, Floats, Any]:
    """The weights of updates in each sum, scipy CSR (J, N), and what one of weight 1 counts in units of noise, (J,).

    The third are the weights in each round's aggregate, CSR (J, N): the first itself, unless a sum adds up the
    aggregates of several rounds, of which its own is the last.

    Args:
        history: of a run whose stages are all covered (:func:`simfl.privacy.ledger.ledger_scope.is_covered`).
        aggregator: who sees the sums.
        P: its participation matrix, CSR (J, N), without what it knows itself.
    """
    if aggregator == SERVER:
        for loss in losses(history):  # of one stage at most
            assert loss.mu is not None
            sums = noised_weights(history, loss)
            return sums, loss.mu, sums if loss.span is None else noised_weights(history, replace(loss, span=None))
    rows = P.astype(np.float64)
    sums = rows if history.samples is None else with_samples(rows, history.samples)
    return sums, np.full(P.shape[0], np.inf), sums
