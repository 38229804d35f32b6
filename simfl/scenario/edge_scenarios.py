"""Scenarios with edges: what each edge does is a scenario of its own clients."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import PluginError, ScenarioError, amount
from simfl.core.registration.protocol import is_foreign, plain
from simfl.core.rng import Streams
from simfl.core.validation import checked_groups
from simfl.selection.base import POLICIES
from simfl.topology.base import StarTopology
from simfl.training.fedavg import FedAvg

if TYPE_CHECKING:
    from simfl.scenario.model import Scenario

OF_EDGES = ("selection", "training", "compression", "secagg", "privacy")
"""Keys that may say what an edge does with its own clients."""


def edge_groups(scenario: "Scenario") -> tuple[NDArray[np.int32], ...]:
    """The clients of each edge; none in a star.

    Raises:
        PluginError: a topology gives something else.
    """
    named, n = f"topology '{scenario.topology.name}'", scenario.clients
    groups = scenario.topology.groups(n, Streams(scenario.seed))
    if not is_foreign(scenario.topology):
        return groups  # its keys are checked with the scenario
    groups = checked_groups(groups, n, named, "groups")
    counts = np.bincount(np.concatenate(groups), minlength=n) if groups else np.ones(n)
    if (counts != 1).any():
        client = int((counts != 1).argmax())
        edges = amount(int(counts[client]), "edge")
        raise PluginError(named, f"groups must give each of the {n} clients to one edge; client {client} has {edges}")
    if empty := [edge for edge, group in enumerate(groups) if not group.size]:
        raise PluginError(named, f"groups gives edge {empty[0]} no clients")
    return groups


def edge_scenario(scenario: "Scenario", clients: int) -> "Scenario":
    """The scenario of an edge of so many clients, as a star; where the cloud selects, of all that it has selected."""
    edge, topology = replace(scenario, clients=clients, topology=StarTopology()), scenario.topology
    if topology.noise == "cloud" and not cloud_noise_problem(scenario):
        from simfl.privacy.dp.stages.central_gaussian import Clipping

        stage: Any = next(iter(scenario.privacy.stages))
        clips = (Clipping(norm=stage.clip_norm),)
        edge = replace(edge, privacy=replace(scenario.privacy, stages=clips, accountants=()))
    return replace(edge, selection=POLICIES.of("all").resolve(edge)) if topology.selects == "cloud" else edge


def cloud_noise_problem(scenario: "Scenario") -> str:
    """Why the cloud cannot add the noise; empty where it can."""
    from simfl.privacy.dp.stages.central_gaussian import CentralGaussian

    stages: tuple[Any, ...] = scenario.privacy.stages or ()
    rule = scenario.training
    if len(stages) != 1 or type(stages[0]) is not CentralGaussian:
        return "the noise of one stage central_gaussian, and of no other, can be the cloud's"
    if type(rule) is FedAvg and rule.server_learning_rate == 1 and not rule.server_optimiser.start(1):
        return ""
    return "the cloud noises an average of updates; use training: fedavg with a plain step"


def sampling_problem(scenario: "Scenario") -> str:
    """Why no accountant may claim that edges' clients are samples; empty where that is the accountants' own matter."""
    claims = {each.amplification for each in scenario.privacy.accountants or ()} - {"none"}
    topology = scenario.topology
    if not claims:
        return ""
    said = f"an accountant's amplification is {min(claims)}, but"
    if topology.own_edges:
        return f"{said} who takes part may decide how often an edge of its own aggregates; use amplification: none"
    if topology.cloud_buffer is not None:
        return f"{said} who takes part may decide whose models fill the cloud's buffer; use amplification: none"
    if topology.noise == "cloud" and topology.selects != "cloud":
        return f"{said} each edge draws from its own clients, and the cloud noises all; use amplification: none"
    rule, divides = scenario.training, "the cloud divides by the weights of those who came"
    if topology.noise == "cloud" and ("poisson" in claims or (type(rule) is FedAvg and rule.denominator != "weights")):
        return f"{said} {divides}, which tells about them; use amplification: none"
    return ""


def require_one_server(scenario: "Scenario", what: str) -> None:
    """
    Raises:
        ScenarioError: there are edges, several servers, or clients that exchange models; ``what`` speaks of none.
    """
    topology = scenario.topology
    if topology.server is not None or topology.own_models:
        raise ScenarioError("topology", f"is {topology.name}, and {what} speaks of one server; use star")


def keys_of_edges(scenario: "Scenario") -> tuple[str, ...]:
    """Keys that say what an edge does with its own clients."""
    others = {"selection": scenario.topology.selects, "privacy": scenario.topology.noise}
    return tuple(key for key in OF_EDGES if others.get(key) != "cloud")


def first_difference(keys: tuple[str, ...], one: "Scenario", other: "Scenario") -> tuple[tuple[str, ...], str] | None:
    """A key that two edges' sizes have filled in with different values, and these; None where they have not."""
    for key in keys:
        mine, others = plain(getattr(one, key)), plain(getattr(other, key))
        for name in mine if isinstance(mine, dict) else ():
            if mine[name] != others.get(name):
                said = f"{mine[name]} in an edge of {one.clients} clients, {others.get(name)} in one of {other.clients}"
                return (key, name), f"is not set, and would be {said}; set it"
    return None
