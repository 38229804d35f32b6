"""What updates count in a sum, and whose draws stand in it: measured, against what the accountants are told."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import SERVER
from simfl.privacy.multiround.participation_matrix import with_samples
from simfl.probes.play import Played, Sum, play
from simfl.probes.signal import SURE, Refuted
from simfl.scenario import Scenario

SMALL = 1e-2
"""Updates that nobody clips; rounding still is far less."""
EQUAL = 0.03
"""Coefficients differ where they do by more, relatively."""


MEANT = 200
"""Draws over which coefficients are averaged where noise moves them."""


def coefficients(base: Played, dimension: int, redraw: int = 0) -> NDArray[np.float64]:
    """What each client's update counts in each released aggregate, (sums, clients), by updates that are 0 but for one
    client's, and the same draws.
    """
    clients = base.scenario.clients
    direction = SMALL * np.where(np.arange(dimension) % 2, -1.0, 1.0)
    nothing = [each.released for each in base.again(np.zeros((clients, dimension)), redraw).sums]
    found = np.zeros((len(nothing), clients))
    for client in range(clients):
        one = np.zeros((clients, dimension))
        one[client] = direction
        for t, each in enumerate(base.again(one, redraw).sums):
            found[t, client] = float((each.released - nothing[t]) @ direction) / float(direction @ direction)
    return found


def refuted_weights(scenario: Scenario, samples: NDArray[np.int64], dimension: int) -> list[Refuted]:
    """Clients who count otherwise in an aggregate than the participation matrix says, relative to the heaviest one.

    Of aggregates that single updates decide, of compressed ones, and where updates that stay are said to change, the
    matrix says nothing.

    Args:
        scenario: what to play; nothing is learned in it.
        samples: of each client, (clients,).
        dimension: of updates.
    """
    base = play(scenario, samples, np.zeros((scenario.clients, dimension)))
    history = base.history
    view = history.any_view
    if view.opaque or history.recoded or not view.same or SERVER not in history.participation:
        return []
    matrix = history.participation[SERVER].astype(np.float64)
    rows = (matrix if history.samples is None else with_samples(matrix, history.samples)).toarray()
    summed = rows[[done.number for done in base.rounds if len(done.clients)]]
    counted = [t for t, each in enumerate(base.sums) if len(each.clients)]
    found = _unequal(summed, coefficients(base, dimension)[counted], 0.0, [base.sums[t].clipped for t in counted])
    if not found:
        return []
    draws = np.array([coefficients(base, dimension, k)[counted] for k in range(1, MEANT + 1)])
    error = SURE * draws.std(axis=0) / np.sqrt(MEANT)
    return _unequal(summed, draws.mean(axis=0), error, [base.sums[t].clipped for t in counted])


def _unequal(
    rows: NDArray[np.float64], measured: NDArray[np.float64], error: Any, clipped: Sequence[int]
) -> list[Refuted]:
    """Clients who count otherwise than their row says, up to an error; sums that a protocol clipped are left out."""
    found = []
    for t, (row, column, off) in enumerate(
        zip(rows, np.abs(measured), np.broadcast_to(error, rows.shape), strict=True)
    ):
        largest, most = row.max(), column.max()
        said, counted = row / (largest or 1), column / (most or 1)
        apart = np.abs(said - counted) - 2 * off / (most or 1)
        if apart.max() > EQUAL and not clipped[t]:
            client = int(np.argmax(apart))
            what = f"weight of client {client} in aggregate {t}, the heaviest being 1"
            found.append(Refuted(what, float(said[client]), float(counted[client])))
    return found


def refuted_rounding(sums: list[Sum]) -> list[Refuted]:
    """Sums of a protocol that are farther from the weighted sum of what was sent than rounding is said to move it."""
    found = []
    for t, each in enumerate(sums):
        if not each.shares.size or each.clipped:
            continue
        off = float(np.abs(each.total - each.shares @ each.sent).max(initial=0))
        exact = 1e-5 * max(1.0, float(np.abs(each.sent).max(initial=0)))
        most = float(np.abs(each.shares).sum()) * each.step
        if off > most + exact:
            found.append(Refuted(f"rounding of a coordinate of aggregate {t} by the protocol", most, off))
    return found


def repeated_noise(scenario: Scenario, samples: NDArray[np.int64], dimension: int) -> list[Refuted]:
    """Draws of clients' noise that stand in two places as if they were two: of two stages, jobs or aggregates."""
    base = play(scenario, samples, np.zeros((scenario.clients, dimension)))
    recorder = base.again(np.zeros((scenario.clients, dimension)))
    drawn = [use for uses in recorder.drawn for use in uses if use.purpose not in base.public]
    twice = {address: times for address, times in Counter(use.address for use in drawn).items() if times > 1}
    by_stage: dict[tuple[str, ...], set[int]] = {}
    for use in recorder.streams.uses:
        by_stage.setdefault(use.address, set()).add(use.stage)
    shared = {
        address: len(stages)
        for address, stages in by_stage.items()
        if len(stages) > 1 and address[1] not in base.public
    }
    return [
        Refuted(f"places in which noise of the stream {'/'.join(address)} stands", 1, times)
        for address, times in list({**twice, **shared}.items())[:3]
    ]
