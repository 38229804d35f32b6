"""Probes of protocols, selections and compressions by themselves: what each does, against what it says of itself."""

from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.compression.base import Compression
from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.privacy.multiround.guarantees import Guarantees
from simfl.probes.play import play
from simfl.probes.signal import Refuted
from simfl.probes.streams import Watched
from simfl.scenario import Scenario
from simfl.secagg.base import Protocol
from simfl.secagg.sessions import Cohort, SessionFailure
from simfl.secagg.updates import ClientUpdates
from simfl.selection.theory.expected_cardinality import guarantee, keeps_to_family

NOTIONS = {"strong": "privacy_strong", "semi_strong": "privacy_semi_strong", "weak": "privacy_weak_upper"}
"""The column that a guarantee can never be above."""


def driven(protocol: Protocol, clients: int, dimension: int, streams: Streams) -> NDArray[np.float32] | None:
    """The sum of updates of 1 by a protocol whom everybody answers; None where it fails."""
    cohort = Cohort(0, np.arange(clients, dtype=np.int32).reshape(-1, 1), dimension, clients, row=np.ones((clients, 1)))
    _answered(protocol.setup(cohort, streams))
    prepared = _answered(protocol.prepare(cohort, streams))
    if isinstance(prepared, SessionFailure):
        return None
    result = _answered(protocol.recover(cohort, np.ones((clients, 1), dtype=bool), [prepared.secret], streams))
    if isinstance(result, SessionFailure):
        return None
    jobs = tuple(Job.of(0, client, 0, 0.0) for client in range(clients))
    ones = np.ones(clients)
    updates = ClientUpdates(
        jobs, np.ones((clients, dimension), dtype=np.float32), None, ones, ones, np.sum, _mean, moved=1.0
    )
    return protocol.add(result, updates, streams).vector


def _mean(vectors: NDArray[Any], weights: NDArray[Any], divisor: float, mask: object = None) -> NDArray[np.float32]:
    return np.asarray(weights @ vectors / divisor, dtype=np.float32)


def _answered(session: Generator[Any, NDArray[np.bool_], Any]) -> Any:
    try:
        ask = next(session)
        while True:
            ask = session.send(np.ones(len(ask.to), dtype=bool))
    except StopIteration as end:
        return end.value


def refuted_masks(protocol: Protocol) -> list[Refuted]:
    """A protocol that says that only sums are seen, and makes it so itself, but draws nothing that could hide an update:
    what a client sends is then known from its update, and the update from what it sends.
    """
    if protocol.shows_updates or protocol.assumes:
        return []
    streams = Watched(0)
    driven(protocol, 6, 3, streams)
    return [] if streams.uses else [Refuted("draws of the protocol, without which nothing is masked", 1, 0)]


def refuted_rows(scenario: Scenario) -> list[Refuted]:
    """Sums that are not of the family that a policy names, and guarantees above the privacy of sums that it made.

    Args:
        scenario: what to play, with clients who are away and fail.
    """
    said = guarantee(scenario)
    if said is None or max(value or 0 for value in said.values()) <= 1:
        return []
    played = play(scenario, np.ones(scenario.clients, dtype=np.int64), np.zeros((scenario.clients, 1)))
    history = played.history
    matrix = next(iter(history.participation.values()))
    if not keeps_to_family(scenario, matrix):
        outside = next(t for t in range(matrix.shape[0]) if not keeps_to_family(scenario, matrix[[t]]))
        names = ", ".join(map(str, matrix[[outside]].indices.tolist()))
        return [Refuted(f"rows of the family that it names: the sum of clients {names} is none", 1, 0)]
    columns = Guarantees().accounts(history)
    found = []
    for notion, column in NOTIONS.items():
        least = min([value for value in columns[column] if value is not None], default=scenario.clients)
        if (value := said.get(notion)) is not None and value > least:
            found.append(Refuted(f"{notion} guarantee for any number of rounds", value, float(least)))
    return found


def refuted_codes(compression: Compression, scenario: Scenario) -> list[Refuted]:
    """Messages that tell what a compression does not say that they tell: which coordinates, or levels of its own."""
    rng, said = np.random.default_rng(0), {part.kind for part in compression.exposes(scenario)}
    vectors = rng.standard_normal((4, 40)).astype(np.float32)
    rounds: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for number in range(3):
        jobs = tuple(Job.of(number, client, number, 0.0) for client in range(len(vectors)))
        public = compression.coordinates(40, number, Streams(0))
        read = compression.client(vectors, jobs, Streams(0))
        rounds.append((read, np.arange(40) if public is None else public))
    read, public = rounds[0]
    chosen, own = read[:, public] != 0, [np.unique(np.abs(row[row != 0])) for row in read]
    found = []
    if not chosen.all() and (chosen != chosen[0]).any() and not said & {"mask", "levels"}:
        found.append(Refuted("sets of coordinates that clients send, by which they can be told", 1, len(chosen)))
    levels = max((len(row), len(row[row != 0])) for row in read)[1]
    if levels > 8 and max(map(len, own)) <= levels / 2 and "levels" not in said:
        found.append(Refuted("values that a coordinate of a client may have", float(levels), max(map(len, own))))
    moving = any((other != 0).tolist() != (read != 0).tolist() for other, _ in rounds[1:])
    if moving and not compression.subsamples and not said:
        found.append(Refuted("sets of coordinates that are sent of an update that stays", 1, 2))
    return found
