"""The key ``world``: five ways in which the same absence of devices hangs together in time and between clients.

A world leaves to each client how often it is away, by the scenario's own ``devices.availability``, and replaces the
rest of that key. ``trace`` alone has whatever mean was measured. The resolved scenario says what a world stands for,
and has no key ``world`` any more.

========================  ==============================================================================================
``memoryless``            every round draws anew who is away
``sticky``                who goes stays away for five rounds on average
``groups``                five groups (client i in group i modulo 5), each of which is away as a whole; clients that
                          are away more often than the one that is least so are away for the rest alone
``day_and_night``         clients of three time zones, away mostly in their nights of 24 rounds
``trace``                 intervals of the file availability.csv, beside the scenario or in the data folder
========================  ==============================================================================================
"""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import ScenarioError
from simfl.core.json_data import JsonObject
from simfl.core.rng import Streams
from simfl.core.storage.data_folder import data_places
from simfl.devices import AVAILABILITY
from simfl.devices.base import Availability
from simfl.devices.random_availability import Bernoulli
from simfl.scenario.yaml.places import KeyPath, Problem
from simfl.scenario.yaml.reader import Document

if TYPE_CHECKING:
    from simfl.scenario.model import Scenario

S = TypeVar("S", bound="Scenario")

KEY: KeyPath = ("world",)
PLACE: KeyPath = ("devices", "availability")
KEPT = {"name", "dropout"}
"""Keys of an availability that say how often clients are away, and nothing else."""

OFF_ROUNDS = 5
GROUPS = 5
ZONES, ROUNDS_A_DAY = 3, 24
TRACE_FILE = "availability.csv"
LONGEST_ROUNDS = 1e9
"""How long ``markov`` can stay available: clients that are never away, up to one absence in as many rounds."""


def said_besides(document: Document) -> Problem | None:
    """That a document, or an override, names a world and also says otherwise how absence hangs together.

    What a file says gives way to the world of one that extends it, or of an override; not the other way round.
    """
    value = document.value if isinstance(document.value, dict) else {}
    devices = value.get("devices")
    availability = devices.get("availability") if isinstance(devices, dict) else None
    if value.get("world") is None or not isinstance(availability, dict):
        return None
    places = document.places
    world = places.of(KEY)
    for key in sorted(availability.keys() - KEPT):
        place = places.of((*PLACE, key))
        sources = place.source, world.source
        ranks = [OVERRIDE if it.startswith("override ") else int(it == places.top.source) for it in sources]
        if ranks[0] > ranks[1] or (ranks[0] == ranks[1] and (ranks[0] == OVERRIDE or place.source == world.source)):
            why = f"{value['world']} replaces devices.availability, of which {key} is given, too ({place})"
            return Problem(world, "world", f"{why}; leave one of the two out")
    return None


OVERRIDE = 2
"""Its rank: before the file that was named, and this before those that it extends."""


def in_its_world(scenario: S) -> tuple[S, list[tuple[KeyPath, str]]]:
    """The scenario with the devices of its world, and what is wrong with that."""
    world, devices = scenario.world, scenario.devices
    if world is None or devices.availability.check(scenario):  # what is wrong is said with all else
        return replace(scenario, world=None), []
    try:
        availability = _availability(scenario, world)
    except ScenarioError as error:
        return scenario, [(KEY, f"{world}: {error.message}")]
    of = "as measured" if world == "trace" else "as often away as devices.availability says"
    source = scenario.source
    source = replace(source, notes=(*source.notes, f"world: {world}, devices are {availability.name}, {of}"))
    return replace(scenario, world=None, devices=replace(devices, availability=availability), source=source), []


def _availability(scenario: "Scenario", world: str) -> Availability:
    """What a world stands for.

    Raises:
        ScenarioError: it cannot be had in this scenario.
    """
    if world == "trace":
        if not scenario.file(TRACE_FILE).is_file():
            raise ScenarioError("", f"needs the file {TRACE_FILE} (columns client,start_s,end_s, when each client is "
                                f"there) beside the scenario or in {data_places()}; docs/how-to/devices.md makes one "
                                "of FedScale's published trace")  # fmt: skip
        return AVAILABILITY.of({"name": "trace", "path": TRACE_FILE})
    base: Availability = scenario.devices.availability
    rates = base.build(scenario, Streams(scenario.seed)).dropout
    if rates is None:
        raise ScenarioError("", "how often clients are unavailable does not follow from devices.availability")
    if not rates.any():
        raise ScenarioError("", "no client is ever unavailable; give devices.availability.dropout, e.g. "
                            "devices.availability=bernoulli:dropout=0.2")  # fmt: skip
    if world == "memoryless" and isinstance(base, Bernoulli):
        return base
    return AVAILABILITY.of(_keeping(rates, world))


def _keeping(rates: NDArray[np.float64], world: str) -> JsonObject:
    """The availability of a world in which clients are away so often, (clients,).

    Raises:
        ScenarioError: nobody can be away so often in this world.
    """
    if world == "memoryless":
        return {"name": "bernoulli", "dropout": _short(rates)}
    if world == "groups":
        shared = float(rates.min())
        if not 0 < shared < 1:
            raise ScenarioError("", "groups are away as a whole as often as the client that is least away, and one is "
                                f"{'never' if shared == 0 else 'always'} away")  # fmt: skip
        alone = _short(1 - (1 - rates) / (1 - shared))
        return {"name": "correlated", "groups": min(GROUPS, len(rates)), "group_dropout": shared, "dropout": alone}
    if world == "sticky":
        return {"name": "markov", "mean_on_rounds": _short(_stay(rates)), "mean_off_rounds": float(OFF_ROUNDS)}
    return {"name": "daily", "dropout": _short(rates), "zones": ZONES, "rounds_a_day": ROUNDS_A_DAY}


def _stay(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean rounds for which clients stay that are away so often, (clients,).

    Raises:
        ScenarioError: one would be there for less than a round.
    """
    most = OFF_ROUNDS / (OFF_ROUNDS + 1)
    if rates.max() > most:
        raise ScenarioError("", f"a client that is away {100 * rates.max():g} % of the rounds, for {OFF_ROUNDS} on "
                            f"average, would be there for less than one; dropouts up to {most:.4g} fit")  # fmt: skip
    with np.errstate(divide="ignore"):
        return np.clip(OFF_ROUNDS * (1 - rates) / rates, 1.0, LONGEST_ROUNDS)


def _short(values: NDArray[np.float64]) -> float | list[float]:
    """One number where all are equal."""
    return float(values[0]) if (values == values[0]).all() else values.tolist()
