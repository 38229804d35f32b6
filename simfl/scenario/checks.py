"""What cannot work in a scenario although every key of it is valid by itself."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from simfl.core import coverage
from simfl.core.compression_coverage import compression_problems
from simfl.core.registration.protocol import is_plugin
from simfl.core.storage.data_folder import data_places
from simfl.scenario import column_owners, data_files, plugin_files, resolution
from simfl.scenario.digest import content_of
from simfl.scenario.yaml.places import KeyPath, shown
from simfl.selection.asking import unreadable

if TYPE_CHECKING:
    from simfl.scenario.model import Scenario


def conflicts(scenario: "Scenario") -> list[tuple[KeyPath, str]]:
    """What is wrong, each with the key where it is."""
    return [
        *resolution.check_all(scenario),
        *_missing_files(scenario),
        *_plugins_not_named(scenario),
        *column_owners.problems(scenario),
        *_uncovered_parts(scenario),
        *_compression(scenario),
        *((("selection",), f"{scenario.selection.name} {message}") for message in _selection(scenario)),
    ]


def algorithm_key(scenario: "Scenario") -> KeyPath:
    """Where the client algorithm stands."""
    algorithm = scenario.training.algorithm
    return next((path for path, plugin in resolution.walk(scenario) if plugin is algorithm), ("training",))


def _missing_files(scenario: "Scenario") -> Iterator[tuple[KeyPath, str]]:
    for path, name in data_files.names(scenario):
        if not os.path.isfile(scenario.file(name)):
            yield path, f"{shown(name)} is no file beside the scenario or in {data_places()}"


def _plugins_not_named(scenario: "Scenario") -> Iterator[tuple[KeyPath, str]]:
    """Plugins of files that another scenario of this process has named."""
    named = {content_of(scenario, ("plugins", i), name) for i, name in enumerate(scenario.plugins)}
    for path, plugin in resolution.walk(scenario):
        cls = type(plugin)
        if is_plugin(plugin) and plugin_files.is_plugin_file(cls) and plugin_files.file_of(cls) not in named:
            yield path, f"'{cls.name}' is of a plugin file that this scenario does not name under plugins"


def _selection(scenario: "Scenario") -> list[str]:
    """What the policy reads that nobody can tell it, or that a certificate does not cover."""
    return unreadable(scenario) or coverage.selection_problems(scenario)


def _uncovered_parts(scenario: "Scenario") -> Iterator[tuple[KeyPath, str]]:
    """What the client algorithm sends although a certificate does not cover it."""
    name = scenario.training.algorithm.name
    yield from ((algorithm_key(scenario), f"{name} {message}") for message in coverage.coverage_problems(scenario))


def _compression(scenario: "Scenario") -> Iterator[tuple[KeyPath, str]]:
    """What compression cannot code, or tells although a certificate does not cover it."""
    name = scenario.compression.name
    yield from ((("compression",), f"{name} {message}") for message in compression_problems(scenario))
