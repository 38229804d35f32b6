"""Two plugins in one scenario, of eleven families: does it work, is it refused, what does it no longer promise?

    python tests/support/pairs.py > docs/reference/pairs.md

The plugins come from the registries: whoever registers one enters it here. A plugin stands in the first of a few small
scenarios in which it is valid alone; two stand in the first in which both are valid together.
"""

import itertools
import json
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from simfl.core import coverage
from simfl.core.errors import SimflError
from simfl.core.registration.family_index import FAMILIES
from simfl.scenario import Scenario

PLACES = {
    "client": "training.client",
    "personal": "training.personal",
    "stage": "privacy.stages",
    "compression": "compression",
    "secagg": "secagg",
    "aggregate": "training.aggregate",
    "training": "training",
    "selection": "selection",
    "attack": "attacks",
    "partition": "learning.partition",
    "accountant": "privacy.accountants",
}
"""Family -> the key at which its plugin stands."""
FAMILIES_HERE = tuple(PLACES)
NEUTRAL = {
    "client": ("plain",), "personal": ("none",), "compression": ("none",), "secagg": ("plain",),
    "aggregate": ("mean",), "training": ("fedavg",), "partition": ("iid",),
}  # fmt: skip
"""What a scenario has that chooses nothing of the family."""
NEEDS_FILES = {("partition", "natural"), ("partition", "python")}
NEEDS_NORMS = {("personal", "fedbn")}
EXTRA: dict[tuple[str, str], dict[str, Any]] = {
    ("stage", "adaptive_gaussian"): {"bit_std": 4.0},
    ("personal", "fedltn"): {"threshold": 0.0},
    ("personal", "lotteryfl"): {"threshold": 0.0},
    ("personal", "jump_start"): {"threshold": 0.0, "alone_rounds": 1},
    ("client", "privacyfl"): {"tolerance": 1e-3},
    ("attack", "inversion"): {"steps": 4},
    ("partition", "bootstrap"): {"samples": 100},
    ("partition", "quantity"): {"proportions": {"name": "uniform", "low": 1.0, "high": 2.0}},
}
"""What few samples and rounds ask of a plugin, beside its example."""
LISTS = {"stage", "attack", "accountant"}

SMALL: dict[str, Any] = {
    "name": "pair",
    "seed": 5,
    "clients": 8,
    "selection": {"name": "batch_partition", "k": 4, "T": 2},
    "training": {"name": "fedavg", "rounds": 3, "weighting": "equal", "batch_size": 16, "learning_rate": 0.05},
    "learning": {
        "data": "digits",
        "partition": "iid",
        "model": {"name": "mlp", "hidden": [4]},
        "holdout": {"validation": 0.3},
        "evaluate": {"every": 0, "samples": 50},
    },
}
RESNET = {"learning": {"model": {"name": "resnet8", "width": 4}}}
BUFFERED = {"training": {"name": "fedbuff", "concurrency": 4, "buffer": 4, "staleness": "constant"}}
EVERYBODY = {"selection": {"name": "all"}}
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    BUFFERED,
    EVERYBODY,
    {"training": {"weight_decay": 0.01}},
    {**EVERYBODY, "training": {"name": "serverless"}},
    RESNET,
    RESNET | BUFFERED,
    {"training": {"personal": {"compress": False}}},
    {"secagg": {"name": "secagg"}},
    {"secagg": {"name": "secagg"}, "training": {"personal": {"compress": False}}},
    BUFFERED | {"secagg": {"name": "basecagg"}},
    BUFFERED | {"secagg": {"name": "basecagg"}, "training": BUFFERED["training"] | {"personal": {"compress": False}}},
    {"learning": {"holdout": None}},
    RESNET | {"secagg": {"name": "secagg"}},
    RESNET | BUFFERED | {"secagg": {"name": "basecagg"}},
    RESNET | EVERYBODY,
    RESNET | EVERYBODY | {"training": {"name": "serverless"}},
    RESNET | {"learning": RESNET["learning"] | {"holdout": None}},
)
"""Small scenarios, tried in this order."""


class Plugin(NamedTuple):
    """A plugin by family and name."""

    family: str
    name: str

    def __str__(self) -> str:
        return f"{self.family} {self.name}"


class Cell(NamedTuple):
    """Two plugins in one scenario.

    Attributes:
        outcome: ``works``, ``refused`` or ``withdrawn``.
        reason: the line that the user gets, or the parts for which a certificate is withdrawn.
        scenario: the YAML (JSON) of the scenario that works; empty where it is refused.
    """

    outcome: str
    reason: str = ""
    scenario: str = ""


def plugins() -> list[Plugin]:
    """Those of the families here that choose something and need no file."""
    Scenario.parse(json.dumps(SMALL))  # registers simfl's own
    every = [Plugin(family, name) for family in PLACES for name, cls in FAMILIES[family].items()
             if cls.__module__.startswith("simfl.")]  # fmt: skip
    return [it for it in every if it.name not in NEUTRAL.get(it.family, ()) and it not in NEEDS_FILES]


def pairs() -> Iterator[tuple[Plugin, Plugin]]:
    """Two plugins that one scenario can name: of different families, or of one of which it may name several."""
    for one, two in itertools.combinations(plugins(), 2):
        if one.family != two.family or one.family in LISTS:
            yield one, two


def how_many() -> str:
    """How much of what could be combined the pairs are, as pages say it."""
    every = [Plugin(family, name) for family in FAMILIES.modules for name, cls in FAMILIES[family].items()
             if cls.__module__.startswith("simfl.")]  # fmt: skip
    possible = sum(one.family != two.family for one, two in itertools.combinations(every, 2))
    here = sum(one.family != two.family for one, two in pairs())
    left = ", ".join(sorted(FAMILIES.modules.keys() - PLACES.keys()))
    share = f"{100 * here / possible:.0f} %"
    return (f"These are {here:,} of the {possible:,} pairs of plugins of different families ({share}), of "
            f"{len(PLACES)} of the {len(FAMILIES.modules)} families, and pairs within a family of which a scenario may "
            f"name several. Never tried together in this way: {left}.")  # fmt: skip


def sample(share: int) -> list[tuple[Plugin, Plugin]]:
    """One pair in ``share``, the same ones on every machine."""
    return [pair for pair in pairs() if zlib.crc32(" ".join(map(str, pair)).encode()) % share == 0]


def triples(number: int, seed: int = 0) -> tuple[Plugin, ...]:
    """Three plugins drawn at random that one scenario can name."""
    rng, every = np.random.default_rng([seed, number]), plugins()
    while True:
        chosen = tuple(every[i] for i in sorted(rng.choice(len(every), 3, replace=False)))
        families = [it.family for it in chosen if it.family not in LISTS]
        if len(set(families)) == len(families):
            return chosen


def text(chosen: tuple[Plugin, ...], variant: dict[str, Any]) -> str:
    """A scenario with these plugins, as JSON, which is YAML."""
    scenario = json.loads(json.dumps(SMALL))
    _merge(scenario, json.loads(json.dumps(variant)))
    personal = scenario["training"].pop("personal", {})
    for plugin in chosen:
        value = {"name": plugin.name, **FAMILIES[plugin.family][plugin.name].example, **EXTRA.get(plugin, {})}
        if plugin.family == "personal":
            value |= {key: it for key, it in personal.items() if key in _fields(plugin)}
        *way, key = PLACES[plugin.family].split(".")
        place = scenario
        for step in way:
            place = place.setdefault(step, {})
        if plugin.family in LISTS:
            place.setdefault(key, []).append(value)
        elif plugin.family == "training":
            for taken in ("concurrency", "buffer", "staleness"):
                place[key].pop(taken, None)
            place[key] |= value | {"rounds": 3}
        else:
            place[key] = value
    return json.dumps(scenario)


def _fields(plugin: Plugin) -> set[str]:
    return set(FAMILIES[plugin.family][plugin.name].__dataclass_fields__)


def _merge(into: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict) and "name" not in value:
            _merge(into[key], value)
        elif key == "training" and isinstance(value, dict):
            into[key] |= value
        else:
            into[key] = value


@cache
def _tried(chosen: tuple[Plugin, ...], number: int) -> Scenario | str:
    """The scenario, or why there is none."""
    if any(it in NEEDS_NORMS for it in chosen) and "model" not in VARIANTS[number].get("learning", {}):
        return "the model has no norm layers"
    try:
        return Scenario.parse(text(chosen, VARIANTS[number]), "pair")
    except SimflError as error:
        return str(error).replace("\n", "; ")


@cache
def _alone(plugin: Plugin) -> tuple[int, ...]:
    """The small scenarios in which the plugin is valid alone."""
    return tuple(i for i in range(len(VARIANTS)) if isinstance(_tried((plugin,), i), Scenario))


def cell(*chosen: Plugin) -> Cell:
    """What becomes of these plugins in one scenario."""
    order = sorted(range(len(VARIANTS)), key=lambda i: -sum(i in _alone(plugin) for plugin in chosen))
    for number in order:
        scenario = _tried(chosen, number)
        if isinstance(scenario, Scenario):
            lost = [part.name for part in coverage.exposing(scenario)]
            source = text(chosen, VARIANTS[number])
            return Cell("withdrawn", ", ".join(lost), source) if lost else Cell("works", "", source)
    return Cell("refused", _bare(str(_tried(chosen, order[0]))))


def _bare(message: str) -> str:
    """Without file, line and column."""
    return "; ".join(line.split(": ", 1)[-1] if line.startswith("pair:") else line for line in message.split("; "))


# -- the page --------------------------------------------------------------------------------------------

INTRODUCTION = """# Maps, views and pairs

*Generated by `python tests/support/pairs.py > docs/reference/pairs.md`; a test compares the two.*

What a certificate knows of each plugin, and which two go together. A stage says by its *maps* what it does to an
update, and where it adds noise ([proofs](../explanation/proofs/maps.md)); a protocol, what the server sees of a sum; a
compression and a client algorithm, what else they send. From these everything below follows; no table lists what is
allowed.
"""
STAGES_HEAD = """## Stages

| stage | maps of its client's part | noise | protects against |
|---|---|---|---|"""
PROTOCOLS_HEAD = """
## Protocols

Of a sum of eight clients where nobody fails. Where clients can be silent nothing is promised before the run, and in a
run each session says whom it tolerates.

| protocol | the server sees | colluders | assumed |
|---|---|---|---|"""
PAIRS_HEAD = """
## Pairs

Two plugins in one scenario: ✓ works, − is refused when it is read (`simfl validate` says why), 1 works, but the
privacy columns and theory's guarantee say 1, because more leaves each client than updates that are summed
([what leaves a client](../explanation/what-leaves-a-client.md)); a dot, where one scenario cannot name both. Tests run
pairs that work for three rounds under a recorder of the simulated wire, kill them and resume them: one in eighty each
time, and all of them where tests are run that are marked as slow.
"""
SIGNS = {"works": "✓", "refused": "−", "withdrawn": "1"}


def page() -> str:
    """The text of ``docs/reference/pairs.md``."""
    found = {pair: cell(*pair) for pair in pairs()}
    matrix = _matrix({pair: SIGNS[it.outcome] for pair, it in found.items()})
    lines = [INTRODUCTION, STAGES_HEAD, *_stages(), PROTOCOLS_HEAD, *_protocols(), PAIRS_HEAD, f"{how_many()}\n",
             _counts(found), "```", *matrix, "```"]  # fmt: skip
    return "\n".join(lines) + "\n"


def _shipped(family: str) -> Iterator[Any]:
    """A family's own plugins of simfl, with the fields of their examples."""
    registry = FAMILIES[family]
    for name, cls in registry.items():
        if cls.__module__.startswith("simfl."):
            yield registry.of({"name": name, **cls.example, **EXTRA.get(Plugin(family, name), {})})


def _stages() -> Iterator[str]:
    for stage in _shipped("stage"):
        maps = " → ".join(_link(link) for link in stage.links)
        noise = stage.adds_noise
        where = "" if noise is None else f"{'Gaussian, ' if noise.gaussian else ''}{noise.where}"
        against = {"server": "server and others", "outside": "who sees the models", "": "nobody"}[stage.observer]
        yield f"| {stage.name} | {maps} | {where or stage.certificate} | {against} |"


def _link(link: Any) -> str:
    return f"Clip L{link.order}" if type(link).__name__ == "Clip" else type(link).__name__


def _protocols() -> Iterator[str]:
    for protocol in _shipped("secagg"):
        most = protocol.tolerance(8, 8)
        seen = "each update" if protocol.shows_updates else "the sum"
        tolerated = "" if protocol.shows_updates else "any" if protocol.assumes else str(most or 0)
        yield f"| {protocol.name} | {seen} | {tolerated} | {protocol.assumes} |"


def _counts(found: dict[Any, Cell]) -> str:
    count = {outcome: sum(it.outcome == outcome for it in found.values()) for outcome in SIGNS}
    said = f"{count['works']:,} work, {count['refused']:,} are refused, of {count['withdrawn']:,} the guarantees are 1"
    return f"{len(found):,} pairs: {said}. Columns are in the order of the rows.\n"


def _matrix(signs: dict[tuple[Plugin, Plugin], str]) -> Iterator[str]:
    """A row a plugin, a letter a pair."""
    every = plugins()
    width = max(len(str(plugin)) for plugin in every)
    for row in every:
        yield f"{row!s:<{width}}  {''.join(signs.get((row, it)) or signs.get((it, row)) or '·' for it in every)}"


if __name__ == "__main__":
    print(page(), end="")
