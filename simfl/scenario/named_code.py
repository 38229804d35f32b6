"""Modules that a scenario names as ``module:attribute``: code, for which the rules of plugin files hold.

A module is known by its path and the content of its file: what it imports from its own folder belongs to it.
"""

import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from simfl.learning.objects.choice import python_objects
from simfl.scenario.plugin_files import Trust, note_executed
from simfl.scenario.resolution import walk
from simfl.scenario.yaml.places import KeyPath

if TYPE_CHECKING:
    from simfl.scenario.model import Scenario

_accepted: set[str] = set()


def refuse_untrusted(scenario: "Scenario", trust: Trust) -> list[tuple[KeyPath, str]]:
    """What may not be executed, found before anything is.

    What may be is noted as executed, where the user has named the scenario.
    """
    named = [part for part in python_objects(scenario.learning) if not part.handed_in and ":" in part.object]
    if not named:
        return []
    from simfl.learning.objects.named import module_file

    problems: list[tuple[KeyPath, str]] = []
    for part in named:
        if (file := module_file(part.object, part.place(scenario))) is None:
            continue  # there is nothing to execute, which is said when it is imported
        path, mark = file.resolve(), module_mark(file)
        try:
            trust.check(path, sha256(path.read_bytes()).hexdigest(), mark)
        except ValueError as error:
            where = next(path for path, plugin in walk(scenario) if plugin is part)
            said = str(error).replace("is a plugin file", "is of a module")
            problems.append(((*where, "object"), f"{part.object} {said}"))
            continue
        _accepted.add(mark)
        if trust.named:
            note_executed(mark)
    return problems


def module_mark(file: Path) -> str:
    """SHA-256, hexadecimal, of a module's path and content."""
    path = file.resolve()
    return sha256(os.fsencode(path) + b"\0" + path.read_bytes()).hexdigest()


def accepted_marks() -> frozenset[str]:
    """The marks of all modules that this process was allowed to execute."""
    return frozenset(_accepted)
