"""What updates count in a sum, and whose draws stand in it: measured, against what the accountants are told."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import SERVER
from simfl.privacy.multiround.participation_matrix import with_samples
from simfl.probes.play import Played, Sum, play
from simfl.probes.signal import Refuted
from simfl.scenario import Scenario

SMALL = 1e-2
"""Updates that nobody clips; rounding still is far less."""
EQUAL = 0.03
"""Coefficients differ where they do by more, relatively."""


def coefficients(base: Played, dimension: int) -> NDArray[np.float64]:
    """What each client's update counts in each released aggregate, (sums, clients), by updates that are 0 but for one
    client's, and the same draws.
    """
    clients = base.scenario.clients
    direction = SMALL * np.where(np.arange(dimension) % 2, -1.0, 1.0)
    nothing = [each.released for each in base.again(np.zeros((clients, dimension))).sums]
    found = np.zeros((len(nothing), clients))
    for client in range(clients):
        one = np.zeros((clients, dimension))
        one[client] = direction
        for t, each in enumerate(base.again(one).sums):
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
    if history.single or history.recoded or history.lengths_change or SERVER not in history.participation:
        return []
    matrix = history.participation[SERVER].astype(np.float64)
    rows = (matrix if history.samples is None else with_samples(matrix, history.samples)).toarray()
    summed = rows[[done.number for done in base.rounds if len(done.clients)]]
    measured = coefficients(base, dimension)[[t for t, each in enumerate(base.sums) if len(each.clients)]]
    clipped, found = [each.clipped for each in base.sums if len(each.clients)], []
    for t, (said, counted) in enumerate(zip(summed, np.abs(measured), strict=True)):
        if clipped[t]:
            continue
        said, counted = (row / row.max() if row.max() else row for row in (said, counted))
        if np.abs(said - counted).max() > EQUAL:
            client = int(np.argmax(np.abs(said - counted)))
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
