"""What updates count in a sum, and whose draws stand in it: measured, against what the accountants are told."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from simfl.core.types import SERVER, Floats
from simfl.privacy.multiround.participation_matrix import with_samples
from simfl.probes.signal import SURE, Refuted, refuted_noise
from simfl.probes.simulate import DIMENSION, Played, simulate
from simfl.scenario import Scenario

SMALL = 1e-2  # updates that nobody clips; rounding still is far less
EQUAL = 0.03
"""Coefficients differ where they do by more, relatively."""
MEANT = 200
"""Draws over which coefficients are averaged where noise moves them."""


def refutations(scenario: Scenario, draws: int) -> list[Refuted]:
    """All that probes of a scenario's sums and noise refute, the noise measured with so many draws or more."""
    base, rng = simulate(scenario), np.random.default_rng(scenario.seed)
    sent = base.again(rng.standard_normal((scenario.clients, DIMENSION))).sums
    rounding = [] if scenario.secagg.certificate else [it for i, each in enumerate(sent) for it in _off(each, i)]
    return [*rounding, *refuted_weights(base), *repeated_noise(base), *refuted_noise(base, draws)]


def _off(total: Any, number: int) -> list[Refuted]:
    """A sum that is farther from the weighted sum of what was sent than rounding is said to move it."""
    if not total.shares.size or total.clipped:
        return []
    off = float(np.abs(total.total - total.shares @ total.sent).max(initial=0))
    exact = 1e-5 * max(1.0, float(np.abs(total.sent).max(initial=0)))
    most = float(np.abs(total.shares).sum()) * total.step
    what = f"rounding of a coordinate of aggregate {number} by the protocol"
    return [Refuted(what, most, off)] if off > most + exact else []


def coefficients(base: Played, redraw: int = 0) -> Floats:
    """What each client's update counts in each released aggregate, (sums, clients): same draws, all other updates 0."""
    direction = SMALL * np.where(np.arange(DIMENSION) % 2, -1.0, 1.0)
    nothing = [each.released for each in base.again(base.nothing, redraw).sums]
    seen = np.zeros((len(nothing), base.scenario.clients))
    for client in range(base.scenario.clients):
        one = base.nothing
        one[client] = direction
        for t, each in enumerate(base.again(one, redraw).sums):
            seen[t, client] = float((each.released - nothing[t]) @ direction) / float(direction @ direction)
    return seen


def refuted_weights(base: Played) -> list[Refuted]:
    """Clients who count otherwise in an aggregate than the participation matrix says, relative to the heaviest one.

    Of aggregates that single updates decide, of compressed ones, and where updates that stay are said to change, the
    matrix says nothing.
    """
    history = base.history
    view = history.any_view
    if view.opaque or history.beside.coded or not view.same or SERVER not in history.participation:
        return []
    matrix = history.participation[SERVER].astype(np.float64)
    rows = (matrix if history.samples is None else with_samples(matrix, history.samples)).toarray()
    summed = rows[[done.number for done in base.rounds if len(done.clients)]]
    counted = [t for t, each in enumerate(base.sums) if len(each.clients)]
    clipped = [base.sums[t].clipped for t in counted]
    refuted = _unequal(summed, coefficients(base)[counted], 0.0, clipped)
    if not refuted:
        return []
    draws = np.array([coefficients(base, k)[counted] for k in range(1, MEANT + 1)])
    return _unequal(summed, draws.mean(axis=0), SURE * draws.std(axis=0) / np.sqrt(MEANT), clipped)


def _unequal(rows: Floats, measured: Floats, error: Any, clipped: Sequence[int]) -> list[Refuted]:
    """Clients who count otherwise than their row says, up to an error; sums that a protocol clipped are left out."""
    refuted, errors = [], np.broadcast_to(error, rows.shape)
    for t, (row, column, off) in enumerate(zip(rows, np.abs(measured), errors, strict=True)):
        most = column.max() or 1.0
        said, counted = row / (row.max() or 1.0), column / most
        gap = np.abs(said - counted) - 2 * off / most
        client = int(np.argmax(gap))
        if gap[client] > EQUAL and not clipped[t]:
            what = f"weight of client {client} in aggregate {t}, the heaviest being 1"
            refuted.append(Refuted(what, float(said[client]), float(counted[client])))
    return refuted


def repeated_noise(base: Played) -> list[Refuted]:
    """Draws of clients' noise that stand in two places as if they were two: of two stages, jobs or aggregates."""
    recorder = base.again(base.nothing)
    noise = [use for uses in recorder.uses_by_call for use in uses if use.purpose not in base.public]
    times = Counter(use.address for use in noise)
    stages: dict[tuple[str, ...], set[int]] = {}
    for use in recorder.streams.uses:
        if use.purpose not in base.public:
            stages.setdefault(use.address, set()).add(use.stage)
    places = {address: max(times[address], len(by)) for address, by in stages.items()}
    return [
        Refuted(f"places in which noise of the stream {'/'.join(address)} stands", 1, count)
        for address, count in places.items() if count > 1
    ][:3]  # fmt: skip
