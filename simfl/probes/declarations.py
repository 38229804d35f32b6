"""Probes of protocols, selections and compressions by themselves: what each does, against what it says of itself.

And of any plugin without what it declares: no certificate may get better by saying less.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from inspect import getattr_static, isfunction
from math import inf
from typing import Any

import numpy as np

from simfl.core.errors import SimflError
from simfl.core.registration.family_index import FAMILIES
from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.privacy.multiround.guarantees import Guarantees
from simfl.probes.signal import Refuted
from simfl.probes.simulate import Played, simulate
from simfl.runs.accounting import accounts
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


Data = dict[str, Any]
"""A scenario."""
SAID_BY_METHODS = frozenset({"exposes", "family", "guarantee", "known", "tolerance", "largest_row"})
"""Methods that say something of a plugin; all others do something."""
REQUESTS = frozenset(
    "columns seeds deadline_s error_feedback asks asked_batch mode shuffle k unit_size example name algorithm phases "
    "most_rounds server asynchronous aggregate reads_history many_aggregators own_models losses fixed_denominator "
    "joint certificate fixed_size unit_sizes".split()
)
"""What a plugin asks for, or what it does: without it another thing happens, which is certified as it is."""


def parse(data: Data) -> Scenario | None:
    """The scenario; None where it is refused."""
    try:
        return Scenario.parse(json.dumps(data), "probe")
    except SimflError:
        return None


def certificates(scenario: Scenario) -> dict[str, float]:
    """Every number that it promises of privacy, the worst of all rounds by name; larger = better."""
    promised = {f"guarantee {notion}": float(value or 0) for notion, value in (guarantee(scenario) or {}).items()}
    for name, values in accounts(scenario, simulate(scenario).history).items():
        if name.startswith("epsilon"):
            promised[name] = min(-inf if value is None else -float(value) for value in values)
        elif name.startswith("privacy"):
            promised[name] = min(1.0 if value is None else float(value) for value in values)
    return promised


def claims(cls: type, family: str) -> list[str]:
    """What a class, or one that it inherits from before its family's protocol, says of what has a default there."""
    base = FAMILIES[family].protocol
    mine = {name for each in cls.__mro__ if each not in base.__mro__ for name in vars(each)}
    optional = {
        name for each in base.__mro__ for name, item in vars(each).items()
        if not name.startswith("_") and (not isfunction(item) or name in SAID_BY_METHODS)
    }  # fmt: skip
    names = (mine & optional) - REQUESTS - {each.name for each in fields(cls)}
    return sorted(name for name in names if getattr_static(cls, name) is not getattr_static(base, name))


@contextmanager
def _without(cls: type, family: str, names: tuple[str, ...]) -> Iterator[None]:
    """While it lasts, the class says nothing of these."""
    overridden = {name: vars(cls)[name] for name in names if name in vars(cls)}
    for name in names:
        setattr(cls, name, getattr_static(FAMILIES[family].protocol, name))
    try:
        yield
    finally:
        for name in names:
            delattr(cls, name)
            if name in overridden:
                setattr(cls, name, overridden[name])


def better_unsaid(cls: type, family: str, data: Data) -> list[Refuted]:
    """Certificates of a scenario that chooses a class which are better where that says less, one by one and all."""
    said, refuted = _promises(data), list[Refuted]()
    other_noise = len(data["privacy"]["stages"]) > 1  # whose epsilon holds whatever this one adds
    names = [name for name in claims(cls, family) if not (other_noise and name == "adds_noise")]
    for lacking in [*((name,) for name in names), tuple(names)] if names else []:
        with _without(cls, family, lacking):
            unsaid = _promises(data)
        for name, value in unsaid.items():
            worst = -inf if name.startswith("epsilon") else 1.0
            if value > max(said.get(name, worst), worst) + 1e-9:
                what = f"{name} in the end, where it does not say {', '.join(lacking)}"
                refuted.append(Refuted(what, abs(value), abs(said.get(name, worst))))
    return refuted


def _promises(data: Data) -> dict[str, float]:
    try:
        return {} if (scenario := parse(data)) is None else certificates(scenario)
    except SimflError:
        return {}
