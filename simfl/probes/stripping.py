"""A plugin without what it declares: no certificate may get better by saying less."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from inspect import getattr_static, isfunction
from math import inf
from typing import Any

from simfl.core.errors import SimflError
from simfl.core.registration.family_index import FAMILIES
from simfl.probes.signal import Refuted
from simfl.probes.simulate import simulate
from simfl.runs.accounting import accounts
from simfl.scenario import Scenario
from simfl.selection.theory.expected_cardinality import guarantee

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
