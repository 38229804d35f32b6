"""A scenario resolved and checked; where it does not say how updates are added up, that is chosen and said."""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from simfl.scenario import checks, resolution
from simfl.scenario.yaml.places import KeyPath, dotted_key
from simfl.secagg import PROTOCOLS

if TYPE_CHECKING:
    from simfl.scenario.model import Scenario

S = TypeVar("S", bound="Scenario")
Wrong = list[tuple[KeyPath, str]]


def complete(scenario: S) -> tuple[S, Wrong]:
    """The scenario with every automatic field, and what is wrong in it.

    ``secagg: null`` is ``ideal`` where nothing speaks against it, that is where the server needs a weighted sum and
    nothing else, and ``plain`` where something does. The first is the one assumption that a default makes.
    """
    if scenario.secagg is not None:
        return _resolve(scenario)
    assumed, against = _resolve(replace(scenario, secagg=PROTOCOLS.of("ideal")))
    if not against:
        why = f"take for granted that {assumed.secagg.assumes}; a protocol (simfl list secagg) costs time and bytes"
        return _with_note(assumed, f"secagg: not said, so {assumed.secagg.name}: numbers about privacy {why}"), []
    shown, wrong = _resolve(replace(scenario, secagg=PROTOCOLS.of("plain")))
    key, why = next((item for item in against if item not in wrong), against[0])
    said = f"secagg: not said, so {shown.secagg.name}, since the server sees each update: {dotted_key(key)} {why}"
    return _with_note(shown, said), wrong


def _resolve(scenario: S) -> tuple[S, Wrong]:
    scenario, wrong = resolution.resolve(scenario)
    return scenario, wrong or checks.conflicts(scenario)


def _with_note(scenario: S, note: str) -> S:
    return replace(scenario, source=replace(scenario.source, notes=(*scenario.source.notes, note)))
