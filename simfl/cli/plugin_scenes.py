"""The small scenarios in which ``simfl validate`` probes plugins, by family."""

from collections.abc import Iterator, Mapping
from typing import Any

from simfl.probes.simulate import DIMENSION
from simfl.probes.stripping import Data

ACCOUNTANTS = [{"name": "zero_out", "delta": 1e-5}]
FEDAVG: Data = {"name": "fedavg", "rounds": 2, "weighting": "equal"}
FEDBUFF = FEDAVG | {"name": "fedbuff", "concurrency": 4, "buffer": 2, "staleness": "constant"}
CENTRAL, LOCAL = {"name": "central_gaussian", "noise_multiplier": 3.0}, {"name": "local_gaussian"}
HEAVY = CENTRAL | {"max_weight": 4.0}
AWAY: Data = {"availability": {"name": "bernoulli", "dropout": 0.2}}
FAILING = AWAY | {"failure": {"name": "bernoulli", "probability": 0.1}}


def scene(**changes: Any) -> Data:
    """Four clients, two rounds of all of them, and what is changed of it."""
    privacy = {"stages": changes.pop("stages", []), "accountants": ACCOUNTANTS}
    learning = {"name": "none", "parameters": DIMENSION}
    base = {"clients": 4, "seed": 1, "selection": "all", "training": FEDAVG, "learning": learning}
    return base | {"secagg": "ideal", "privacy": privacy} | changes


def scenes(family: str, plugin: Mapping[str, Any]) -> Iterator[Data]:
    """Where a plugin of a family is probed: as many of these as are valid."""
    worlds: list[tuple[Any, Any]]
    if family == "stage":
        yield from (scene(stages=[plugin], secagg=secagg) for secagg in ("ideal", "plain", "secagg"))
        yield from (scene(stages=stages) for stages in ([CENTRAL, plugin], [plugin, CENTRAL], [LOCAL, plugin]))
    elif family == "training":
        rules = ({**plugin, "weighting": "equal"}, plugin)
        worlds = [(stages, secagg) for stages in ([CENTRAL], [HEAVY], [LOCAL], []) for secagg in ("ideal", "plain")]
        yield from (scene(training=rule, stages=stages, secagg=secagg) for rule in rules for stages, secagg in worlds)
    elif family == "secagg":
        worlds = [(training, stages) for training in (FEDAVG, FEDBUFF) for stages in ([], [CENTRAL], [LOCAL])]
        yield from (scene(secagg=plugin, training=training, stages=stages) for training, stages in worlds)
    elif family in ("compression", "aggregate", "staleness"):
        rule = {"aggregate": FEDAVG | {"aggregate": plugin}, "staleness": FEDBUFF | {"staleness": plugin}}
        changed = {"compression": plugin} if family == "compression" else {"training": rule[family]}
        worlds = [(stages, secagg) for secagg in ("ideal", "plain") for stages in ([], [HEAVY], [LOCAL])]
        yield from (scene(stages=stages, secagg=secagg, **changed) for stages, secagg in worlds)
    elif family == "selection":
        worlds = [(devices, clients) for devices in ({}, AWAY, FAILING) for clients in (8, 12, 6)]
        long = FEDAVG | {"rounds": 30}
        yield from (scene(selection=plugin, clients=n, training=long, devices=devices) for devices, n in worlds)
