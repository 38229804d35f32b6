"""Small scenarios in which plugins are probed, and every number that they promise of privacy."""

import json
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import SimflError
from simfl.probes.play import Played, play
from simfl.runs.accounting import accounts, of_clients
from simfl.scenario import Scenario
from simfl.selection.theory.expected_cardinality import guarantee

CLIENTS = 4
DIMENSION = 3
ACCOUNTANT = {"name": "zero_out", "delta": 1e-5}
FEDAVG: dict[str, Any] = {"name": "fedavg", "rounds": 2, "weighting": "equal"}
FEDBUFF = {"name": "fedbuff", "rounds": 2, "concurrency": 4, "buffer": 2, "weighting": "equal", "staleness": "constant"}
CENTRAL, LOCAL = {"name": "central_gaussian", "noise_multiplier": 3.0}, {"name": "local_gaussian"}
AWAY = {"availability": {"name": "bernoulli", "dropout": 0.2}}
FAILING = AWAY | {"failure": {"name": "bernoulli", "probability": 0.1}}


def scene(**changes: Any) -> dict[str, Any]:
    """Four clients, two rounds of all of them, and what is changed of it."""
    stages = changes.pop("stages", [])
    learning = {"name": "none", "parameters": DIMENSION}
    privacy = {"stages": stages, "accountants": [ACCOUNTANT]}
    base = {"clients": CLIENTS, "seed": 1, "selection": "all", "training": FEDAVG, "learning": learning}
    return base | {"secagg": "ideal", "privacy": privacy} | changes


def scenes(family: str, plugin: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Where a plugin of a family is probed: as many of these as are valid."""
    if family == "stage":
        for stages in ([plugin], [CENTRAL, plugin], [plugin, CENTRAL], [LOCAL, plugin]):
            for secagg in ("ideal", "plain", "secagg") if len(stages) == 1 else ("ideal",):
                yield scene(stages=stages, secagg=secagg)
    elif family == "training":
        for stage in ([CENTRAL], [CENTRAL | {"max_weight": 4.0}], [LOCAL], []):
            for more in ({"weighting": "equal"}, {}):
                for secagg in ("ideal", "plain"):
                    yield scene(training={**plugin, **more}, stages=stage, secagg=secagg)
    elif family == "secagg":
        for training in (FEDAVG, FEDBUFF):
            for stage in ([], [CENTRAL], [LOCAL]):
                yield scene(secagg=plugin, training=training, stages=stage)
    elif family == "compression":
        for secagg in ("ideal", "plain"):
            for stage in ([], [CENTRAL], [LOCAL]):
                yield scene(compression=plugin, stages=stage, secagg=secagg)
    elif family == "aggregate":
        for secagg in ("ideal", "plain"):
            for stage in ([CENTRAL], []):
                yield scene(training=FEDAVG | {"aggregate": plugin}, stages=stage, secagg=secagg)
    elif family == "selection":
        for devices in ({}, AWAY, FAILING):
            for clients in (8, 12, 6):
                yield scene(selection=plugin, clients=clients, training=FEDAVG | {"rounds": 30}, devices=devices)
    elif family == "staleness":
        yield scene(training=FEDBUFF | {"staleness": plugin}, stages=[CENTRAL | {"max_weight": 4.0}])


def parsed(data: Mapping[str, Any], name: str) -> Scenario | None:
    """The scenario; None where it is refused."""
    try:
        return Scenario.parse(json.dumps(data), name)
    except SimflError:
        return None


def samples(scenario: Scenario) -> NDArray[np.int64]:
    """Of each client: other ones where they may weigh updates, (clients,)."""
    return np.arange(1, scenario.clients + 1) % 4 + 1


def certificates(scenario: Scenario, played: Played | None = None) -> dict[str, float]:
    """Every number that it promises of privacy, by name; larger = better."""
    played = played or play(scenario, samples(scenario), np.zeros((scenario.clients, DIMENSION)))
    promised = {f"guarantee {notion}": float(value or 0) for notion, value in (guarantee(scenario) or {}).items()}
    for name, values in accounts(scenario, played.history).items():
        least = inf
        for value in values:
            if name.startswith("epsilon"):
                least = min(least, -inf if value is None else -float(value))
            elif name.startswith("privacy"):
                least = min(least, 1.0 if value is None else float(value))
        if least < inf:
            promised[name] = least
    epsilon = of_clients(scenario, played.history).get("epsilon")
    return promised | ({} if epsilon is None else {"epsilon of a client": -float(epsilon.max(initial=0))})
