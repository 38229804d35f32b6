"""From YAML to scenario: read strictly, overridden, validated, completed, frozen, with a digest."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simfl.scenario.model import Scenario, Source
    from simfl.scenario.yaml.places import InvalidScenario, Place, Problem

__all__ = ["InvalidScenario", "Place", "Problem", "Scenario", "Source"]

_HOMES = {"Scenario": "model", "Source": "model"} | dict.fromkeys(
    ("InvalidScenario", "Place", "Problem"), "yaml.places"
)
"""Imported when they are asked for: who only reads a file (completion does) needs no plugins."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'simfl.scenario' has no attribute {name!r}")
    return getattr(import_module(f"simfl.scenario.{_HOMES[name]}"), name)
