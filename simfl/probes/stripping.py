"""A plugin without what it declares: no certificate may get better by saying less."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from inspect import getattr_static, isfunction
from typing import Any

from simfl.core.errors import SimflError
from simfl.core.registration.family_index import FAMILIES
from simfl.probes.scenes import certificates, parsed
from simfl.probes.signal import Refuted

CLAIMED_BY_METHODS = frozenset({"exposes", "family", "guarantee", "known", "tolerance", "largest_row"})
"""Methods that say something of a plugin; all others do something."""
REQUESTS = frozenset({
    "columns", "seeds", "deadline_s", "error_feedback", "asks", "asked_batch", "mode", "shuffle", "k", "unit_size",
    "example", "name", "algorithm", "most_rounds", "phases", "server", "asynchronous", "aggregate", "reads_history",
    "many_aggregators", "own_models", "losses", "fixed_denominator", "joint", "certificate", "fixed_size", "unit_sizes",
})  # fmt: skip
"""What a plugin asks for, or what it does: without it another thing happens, which is certified as it is."""


def claims(cls: type, family: str) -> list[str]:
    """What a class, or one that it inherits from before the protocol of its family, says of what has a default there."""
    base = FAMILIES[family].protocol
    mine = {name for each in cls.__mro__ if each not in base.__mro__ for name in vars(each)}
    defaults = {
        name for each in base.__mro__ for name, item in vars(each).items()
        if not name.startswith("_") and (not isfunction(item) or name in CLAIMED_BY_METHODS)
    }  # fmt: skip
    names = (mine & defaults) - REQUESTS - {field.name for field in fields(cls)}  # type: ignore[arg-type]  # plugins are dataclasses
    return sorted(name for name in names if getattr_static(cls, name) is not _default(base, name))


def _default(base: type, name: str) -> Any:
    return next(vars(each)[name] for each in base.__mro__ if name in vars(each))


@contextmanager
def without(cls: type, family: str, names: tuple[str, ...]) -> Iterator[None]:
    """While it lasts, the class says nothing of these."""
    own = {name: vars(cls)[name] for name in names if name in vars(cls)}
    for name in names:
        setattr(cls, name, _default(FAMILIES[family].protocol, name))
    try:
        yield
    finally:
        for name in names:
            if name in own:
                setattr(cls, name, own[name])
            else:
                delattr(cls, name)


def better_unsaid(cls: type, family: str, data: dict[str, Any]) -> list[Refuted]:
    """Certificates of a scenario that are better where the class says less, one by one and all together.

    Args:
        cls: a plugin that the scenario chooses.
        family: of which it is.
        data: the scenario.
    """
    said, found = _promised(data), list[Refuted]()
    other_noise = len(data["privacy"]["stages"]) > 1  # whose epsilon holds whatever this one adds
    names = [name for name in claims(cls, family) if not (other_noise and name == "adds_noise")]
    for lacking in [*((name,) for name in names), tuple(names)] if names else []:
        with without(cls, family, lacking):
            unsaid = _promised(data)
        for name, value in unsaid.items():
            worst = float("-inf") if name.startswith("epsilon") else 1.0
            if value > max(said.get(name, worst), worst) + 1e-9:
                what = f"{name} in the end, where it does not say {', '.join(lacking)}"
                found.append(Refuted(what, abs(value), abs(said.get(name, worst))))
    return found


def _promised(data: dict[str, Any]) -> dict[str, float]:
    scenario = parsed(data, "stripped")
    if scenario is None:
        return {}
    try:
        return certificates(scenario)
    except SimflError:
        return {}
