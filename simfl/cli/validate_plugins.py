"""What ``simfl validate`` says of a plugin file: what certificates count its plugins as, and what probes refute."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from simfl.core.errors import ScenarioError
from simfl.core.registration.family_index import FAMILIES, plugin_failure
from simfl.core.rng import Streams
from simfl.privacy.certify.chain import is_known
from simfl.privacy.certify.maps import BY
from simfl.probes.declarations import (
    Data,
    better_unsaid,
    certificates,
    claims,
    parse,
    refuted_codes,
    refuted_masks,
    refuted_rows,
)
from simfl.probes.signal import refutations
from simfl.probes.simulate import DIMENSION, simulate
from simfl.scenario import Scenario
from simfl.scenario.plugin_files import load
from simfl.scenario.yaml.places import dotted_key
from simfl.selection.theory.expected_cardinality import guarantee

ACCOUNTANTS = [{"name": "zero_out", "delta": 1e-5}]
FEDAVG: Data = {"name": "fedavg", "rounds": 2, "weighting": "equal"}
FEDBUFF = FEDAVG | {"name": "fedbuff", "concurrency": 4, "buffer": 2, "staleness": "constant"}
CENTRAL, LOCAL = {"name": "central_gaussian", "noise_multiplier": 3.0}, {"name": "local_gaussian"}
HEAVY = CENTRAL | {"max_weight": 4.0}
UNITS = {"name": "batch_partition", "k": 4, "T": 2}
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
        worlds = [(FEDAVG, []), (FEDAVG | {"aggregate": "median"}, []), (FEDAVG, [CENTRAL])]
        for secagg in (plugin, {"name": "unit_sums", "protocol": plugin}):
            yield from (
                scene(secagg=secagg, training=training, stages=stages, selection=UNITS) for training, stages in worlds
            )
    elif family in ("compression", "aggregate", "staleness"):
        rule = {"aggregate": FEDAVG | {"aggregate": plugin}, "staleness": FEDBUFF | {"staleness": plugin}}
        changed: Data = {"compression": plugin} if family == "compression" else {"training": rule[family]}
        changed |= {"clients": 8} if family == "aggregate" else {}  # some withstand few of many
        worlds = [(stages, secagg) for secagg in ("ideal", "plain") for stages in ([], [HEAVY], [LOCAL])]
        yield from (scene(stages=stages, secagg=secagg, **changed) for stages, secagg in worlds)
    elif family == "selection":
        worlds = [(devices, clients) for devices in ({}, AWAY, FAILING) for clients in (8, 12, 6)]
        long = FEDAVG | {"rounds": 30}
        yield from (scene(selection=plugin, clients=n, training=long, devices=devices) for devices, n in worlds)


ROUNDS = 12
"""In which an availability model is asked who is there."""

DRAWS = 120
"""Of the noise, before anything is suspected."""


@dataclass(frozen=True)
class Verdict:
    """What is said of one plugin.

    Attributes:
        family, name: of the plugin.
        counts_as: what certificates count it as, in words.
        refuted: what it says and is not so, in words with numbers.
        played: in how many scenarios it was probed.
    """

    family: str
    name: str
    counts_as: Sequence[str]
    refuted: Sequence[str]
    played: int = 0


def judged_file(file: Path, needed: Sequence[Path] = ()) -> list[Verdict]:
    """A verdict on each plugin that a file registers, which may need those of other files.

    Raises:
        ValueError: it does not load, or registers none; in words.
    """
    for other in needed:
        load(other)
    module, names = load(file), [str(each.resolve()) for each in {file, *needed}]
    plugins = [
        (family, cls) for family, registry in FAMILIES.items()
        for _, cls in registry.imported_plugins() if cls.__module__ == module
    ]  # fmt: skip
    if not plugins:
        raise ValueError("registers no plugin that a scenario can choose; figures: simfl plot ... --plugin FILE")
    return [verdict_on(family, cls, sorted(names)) for family, cls in plugins]


def verdict_on(family: str, cls: type[Any], files: Sequence[str] = ()) -> Verdict:
    """Probes a plugin wherever its family is probed.

    Args:
        family: whose plugin it is.
        cls: the plugin.
        files: the plugin files that it needs, its own among them.
    """
    counts_as, refuted, played = list[str](), dict[str, None](), 0
    if cls.unsaid:
        why = "counts as not said, since it changes something of the class that says it"
        counts_as.append(f"{', '.join(cls.unsaid)} {why}; repeat what still holds")
    if family == "availability":
        refuted |= dict.fromkeys(_unkept_draws(cls, files))
    if family not in WORDS:
        said = ", ".join(claims(cls, family))
        words = f"certificates read what it says, which no probe measures: {said}"
        counts_as.append(words if said else "says nothing that a certificate reads")
        return Verdict(family, cls.name, counts_as, list(refuted))
    try:
        plugin = FAMILIES[family].of({"name": cls.name, **cls.example})
        for scene in scenes(family, {"name": cls.name, **cls.example}):
            data = scene | {"plugins": list(files)}
            if (scenario := parse(data)) is None:
                continue
            played += 1
            with np.errstate(all="ignore"):
                counts_as += WORDS[family](plugin, scenario) if played == 1 else ()
                refuted |= dict.fromkeys(_refutations(family, cls, scenario, data))
    except Exception as error:  # somebody else's plugin may do anything
        lines = str(error).strip().splitlines() or [type(error).__name__]
        if isinstance(error, ValidationError):  # of its example, before anything is played
            lines = [f"its `example` does not fit: {dotted_key(each['loc'])}: {each['msg']}" for each in error.errors()]
        refuted[plugin_failure(error) or f"cannot be played: {lines[0]}"] = None
    if not played and not refuted:
        counts_as.append("its example fits none of the scenarios in which its family is probed: not measured")
    return Verdict(family, cls.name, counts_as, list(refuted), played)


def _unkept_draws(cls: type[Any], files: Sequence[str]) -> Iterator[str]:
    """Whether a run that is interrupted in the middle goes on with other clients than the whole run."""
    device = {"availability": {"name": cls.name, **cls.example}}
    if (scenario := parse(scene(clients=8, devices=device) | {"plugins": list(files)})) is None:
        return
    try:
        whole, before, after = (scenario.devices.availability.build(scenario, Streams(1), None) for _ in range(3))
        draws = [whole.draw(t, 3600.0 * t).copy() for t in range(ROUNDS)]
        for t in range(ROUNDS // 2):
            before.draw(t, 3600.0 * t)
        after.restore(before.state())
        if any((after.draw(t, 3600.0 * t) != draws[t]).any() for t in range(ROUNDS // 2, ROUNDS)):
            yield "draw depends on earlier rounds by what state() does not hold: a resumed run has other clients"
    except ScenarioError:  # its example needs what this scenario has not, such as names of clients
        return
    except Exception as error:  # somebody else's plugin may do anything
        yield plugin_failure(error) or f"cannot be played: {error}"


def _refutations(family: str, cls: type[Any], scenario: Scenario, data: Data) -> Iterator[str]:
    """What is not so in one scenario."""
    yield from map(str, refuted_rows(scenario) if family == "selection" else refutations(scenario, DRAWS))
    if family == "secagg":
        yield from map(str, refuted_masks(simulate(scenario)))
    if family == "compression":
        yield from map(str, refuted_codes(scenario))
    yield from map(str, better_unsaid(cls, family, data))


def _stage(stage: Any, scenario: Scenario) -> Iterator[str]:
    links = ", ".join(type(link).__name__ for link in stage.links)
    if not is_known(stage):
        yield ("says nothing of what it does to updates (no maps): no noise in the sum beside it has an epsilon, "
               "epsilon is infinite")  # fmt: skip
    else:
        yield f"what it does to updates is counted ({links})" if links else "is taken not to change updates"
    if not all(link.stays for link in stage.links):
        yield "is taken to change updates that stay from sum to sum: the guarantees beside it are 1"
    noise = stage.adds_noise
    if noise is None:
        yield "adds no noise: it has no epsilon of its own"
        return
    who = "also against the server" if stage.observer == "server" else "only against those who see the models"
    epsilon = -certificates(scenario)["epsilon_max"]
    yield f"noise by {BY[noise.where]}, {who}: epsilon {epsilon:.4g} of two rounds at delta 1e-05, by its example"


def _rule(rule: Any, scenario: Scenario) -> Iterator[str]:
    yield "weights are counted as they are used"
    if not rule.aggregate.sum_only:
        yield f"aggregate '{rule.aggregate.name}' needs single updates: the guarantees are 1"
    if not rule.keeps_units:
        yield "may take units apart: no guarantee in advance"
    if not rule.keeps_changes:
        yield "does not say that changes are summed (sends_changes): the guarantees are 1, and no noise has an epsilon"


def _protocol(protocol: Any, scenario: Scenario) -> Iterator[str]:
    if protocol.shows_updates:
        yield "the server sees each update: the guarantees against it are 1"
        return
    if protocol.assumes:
        yield f"is taken at its word: {protocol.assumes}"
    else:
        yield "hides all but the sum of what it covers: " + (", ".join(sorted(protocol.covers)) or "nothing")
    tolerated = protocol.tolerance(8, 8)
    yield f"of eight clients in a sum, {tolerated or 0} may collude with the server"


def _policy(policy: Any, scenario: Scenario) -> Iterator[str]:
    said = {name: value for name, value in (guarantee(scenario) or {}).items() if value is not None}
    if not said:
        yield "names no family of rows that can be asked: no guarantee in advance, privacy is measured as a run goes"
    else:
        numbers = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in said.items())
        yield f"guarantee for any number of rounds, {scenario.clients} clients: {numbers}"
    if policy.reads or policy.asks:
        yield "reads of clients: " + ", ".join(sorted(policy.reads | ({policy.asks} - {""})))


def _compression(compression: Any, scenario: Scenario) -> Iterator[str]:
    exposed = [part.name for part in compression.exposes(scenario)]
    yield (
        f"tells beside the sum: {'; '.join(exposed)}: the guarantees are 1"
        if exposed
        else "tells nothing beside the sum"
    )
    if compression.subsamples:
        yield "is taken to drop other coordinates each round: what clips after it changes updates that stay"


def _aggregate(aggregate: Any, scenario: Scenario) -> Iterator[str]:
    needs = "the sum of updates only" if aggregate.sum_only else "single updates: the guarantees are 1"
    yield f"needs {needs}"


WORDS: dict[str, Callable[[Any, Scenario], Iterator[str]]] = {
    "stage": _stage, "training": _rule, "secagg": _protocol, "selection": _policy, "compression": _compression,
    "aggregate": _aggregate, "staleness": lambda *_: iter(["weights are counted as they are used"]),
}  # fmt: skip
"""The families that are probed, and what certificates count their plugins as."""
