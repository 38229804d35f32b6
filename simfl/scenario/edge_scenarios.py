"""Scenarios with edges: what each edge does is a scenario of its own clients."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simfl.core.registration.protocol import plain
from simfl.core.rng import Streams
from simfl.selection import POLICIES
from simfl.topology.base import StarTopology

if TYPE_CHECKING:
    from simfl.scenario.model import Scenario

OF_EDGES = ("selection", "training", "compression", "secagg", "privacy")
"""Keys that may say what an edge does with its own clients, the selection first."""


def edge_groups(scenario: "Scenario") -> tuple[NDArray[np.int32], ...]:
    """The clients of each edge; none in a star."""
    return scenario.topology.groups(scenario.clients, Streams(scenario.seed))


def edge_scenario(scenario: "Scenario", clients: int) -> "Scenario":
    """The scenario of an edge of so many clients, as a star; where the cloud selects, of all that it has selected."""
    edge = replace(scenario, clients=clients, topology=StarTopology())
    return replace(edge, selection=POLICIES.of("all").resolve(edge)) if scenario.topology.selects == "cloud" else edge


def keys_of_edges(scenario: "Scenario") -> tuple[str, ...]:
    """Keys that say what an edge does with its own clients."""
    return OF_EDGES[scenario.topology.selects == "cloud" :]


def first_difference(keys: tuple[str, ...], one: "Scenario", other: "Scenario") -> tuple[tuple[str, ...], str] | None:
    """A key that two edges' sizes have filled in with different values, and these; None where they have not."""
    for key in keys:
        mine, others = plain(getattr(one, key)), plain(getattr(other, key))
        for name in mine if isinstance(mine, dict) else ():
            if mine[name] != others.get(name):
                said = f"{mine[name]} in an edge of {one.clients} clients, {others.get(name)} in one of {other.clients}"
                return (key, name), f"is not said, and would be {said}; say it"
    return None
