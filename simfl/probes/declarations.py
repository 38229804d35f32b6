"""Probes of protocols, selections and compressions by themselves: what each does, against what it says of itself."""

import numpy as np

from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.privacy.multiround.guarantees import Guarantees
from simfl.probes.signal import Refuted
from simfl.probes.simulate import Played, simulate
from simfl.scenario import Scenario
from simfl.selection.theory.expected_cardinality import guarantee, keeps_to_family

NOTIONS = {"strong": "privacy_strong", "semi_strong": "privacy_semi_strong", "weak": "privacy_weak_upper"}
"""The column that a guarantee can never be above."""


def refuted_masks(base: Played) -> list[Refuted]:
    """A protocol that says that only sums are seen, and makes it so itself, but draws nothing that could hide updates:
    what a client sends follows from its update alone.
    """
    protocol = base.parts.protocol
    hides = protocol.shows_updates or protocol.assumes or base.masks or not base.sums
    return [] if hides else [Refuted("draws of the protocol, without which nothing is masked", 1, 0)]


def refuted_rows(scenario: Scenario) -> list[Refuted]:
    """Sums that are not of the family that a policy names, and guarantees above the privacy of the sums of a play."""
    said = {notion: value for notion, value in (guarantee(scenario) or {}).items() if value is not None}
    if max(said.values(), default=0) <= 1:
        return []
    history = simulate(scenario).history
    (matrix,) = history.participation.values()
    rows_outside = [t for t in range(matrix.shape[0]) if not keeps_to_family(scenario, matrix[[t]])]
    if rows_outside:
        names = ", ".join(map(str, matrix[[rows_outside[0]]].indices.tolist()))
        return [Refuted(f"rows of the family that it names: the sum of clients {names} is none", 1, 0)]
    columns, refuted = Guarantees().accounts(history), []
    for notion, value in said.items():
        least = min((each for each in columns[NOTIONS[notion]] if each is not None), default=value)
        if value > least:
            refuted.append(Refuted(f"{notion} guarantee for any number of rounds", value, float(least)))
    return refuted


def refuted_codes(scenario: Scenario) -> list[Refuted]:
    """What messages tell that a compression does not say that they tell: which coordinates, or levels of its own."""
    compression, vectors = scenario.compression, np.random.default_rng(0).standard_normal((4, 40)).astype(np.float32)
    said, reads = {part.kind for part in compression.exposes(scenario)}, []
    for number in range(3):
        jobs = tuple(Job.of(number, client, number, 0.0) for client in range(len(vectors)))
        reads.append(compression.client(vectors, jobs, Streams(0)))
    public, read = compression.coordinates(40, 0, Streams(0)), reads[0]
    chosen, refuted = read[:, slice(None) if public is None else public] != 0, []
    if (chosen != chosen[0]).any() and not said & {"mask", "levels"}:
        refuted.append(Refuted("sets of coordinates that clients send, by which they can be told", 1, len(chosen)))
    values = [(len(row[row != 0]), len(np.unique(np.abs(row[row != 0])))) for row in read]
    if any(many > 8 and 2 * few <= many for many, few in values) and "levels" not in said:
        refuted.append(Refuted("values that a coordinate of a client may have", *map(float, max(values))))
    if any(((other != 0) != (read != 0)).any() for other in reads) and not compression.subsamples and not said:
        refuted.append(Refuted("sets of coordinates that are sent of an update that stays", 1, 2))
    return refuted
