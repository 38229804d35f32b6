"""``extends: other.yaml``: a scenario that says only what differs from another.

The other one is found from the scenario's folder, or is a built-in one; it may extend a third. What the scenario says
is put over it as overrides would be: a mapping key by key, a plugin chosen anew keeps the keys that both have, other
values and lists as a whole; plugin files are added. The name is not inherited. Every key keeps the place where it
stands, and relative files of the other scenario are named as seen from this one.
"""

import os
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from simfl.core.storage.disk import open_regular
from simfl.scenario import data_files, plugin_files
from simfl.scenario.builtin import ScenarioFile, find, folder_instead, no_such
from simfl.scenario.fields import annotation_at, options, owner, registry_of
from simfl.scenario.overrides import Change
from simfl.scenario.plugin_files import NAMED, Trust
from simfl.scenario.yaml.places import InvalidScenario, KeyPath, Place, Problem, shown
from simfl.scenario.yaml.reader import MAX_BYTES, Document, decode, read

EXTENDS = "extends"
LONGEST = 20


def read_scenario_file(base_file: ScenarioFile) -> Document:
    """A scenario file as read.

    Raises:
        InvalidScenario: it cannot be read at all.
    """
    try:
        return read(_text(base_file), base_file.source)
    except ValueError as error:
        raise InvalidScenario([Problem(Place(base_file.source), "", str(error))]) from None


def _text(base_file: ScenarioFile) -> str:
    """The text of a scenario file.

    Raises:
        ValueError: there is none.
    """
    if base_file.path.suffix == ".py":
        raise ValueError("is a Python file, not a scenario; plugins are named by --plugin FILE")
    try:
        with open_regular(base_file.path) as file:
            return decode(file.read(MAX_BYTES + 1))
    except FileNotFoundError:
        raise ValueError(no_such(base_file.path)) from None
    except IsADirectoryError:
        raise ValueError(folder_instead(base_file.path)) from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from None


def merge_extended(
    document: Document, folder: Path, top: object, chain: tuple[Path, ...] = (), trust: Trust = NAMED
) -> Document:
    """The document with what it extends below it; itself where it extends nothing.

    Args:
        document: a scenario as read; its plugin files have been executed.
        folder: what its files are relative to.
        top: the type of the whole, i.e. Scenario.
        chain: the files that led here, each extending the next.
        trust: which plugin files may be executed.

    Raises:
        InvalidScenario: what it extends is not there, or leads back.
    """
    if not isinstance(document.value, dict) or EXTENDS not in document.value:
        return document
    name, place = document.value.pop(EXTENDS), document.places.of((EXTENDS,))

    def wrong(message: str) -> InvalidScenario:
        return InvalidScenario([*document.problems, Problem(place, EXTENDS, message)])

    if not isinstance(name, str) or not name:
        raise wrong(f"the name of a scenario file or of a built-in scenario is needed (got {shown(name)})")
    try:
        base_file = find(name, folder)
    except OSError as error:
        raise wrong(f"{shown(name)}: cannot be read: {error.strerror or error}") from None
    path = Path(os.path.realpath(base_file.path))
    if path in chain:
        raise wrong(f"a circle: {' extends '.join(file.name for file in (*chain[chain.index(path) :], path))}")
    if len(chain) >= LONGEST:
        raise wrong(f"more than {LONGEST} scenarios, each extending the next")
    try:
        base = read(_text(base_file), base_file.source)
    except ValueError as error:
        raise wrong(f"{shown(name)}: {error}") from None
    try:
        plugin_files.load_all(base, base_file.folder, (), trust)
        base = merge_extended(base, base_file.folder, top, (*chain, path), trust)
    except InvalidScenario as error:
        raise InvalidScenario(problem.extended_by(document.places) for problem in error.problems) from None
    base.problems = [problem.extended_by(document.places) for problem in base.problems]
    if () in base.spoiled:
        raise InvalidScenario([*document.problems, *base.problems])
    if not isinstance(base.value, dict):
        raise wrong(f"{shown(name)} is no mapping with the keys of a scenario")
    base.value.pop("name", None)
    base.value = _seen_from(base.value, top, base_file.folder, folder)
    return _over(base, document, top)


def _over(base: Document, document: Document, top: object) -> Document:
    """What ``document`` says, put over ``base``."""
    merged = Document(base.value, base.places.extended_by(document.places))
    merged.problems = [*document.problems, *base.problems]
    merged.spoiled = set(base.spoiled)
    files = merged.value.get("plugins", [])
    merging = _Merging(merged, document, top)
    for key, value in document.value.items():
        merging.put((key,), value)
    if isinstance(files, list) and isinstance(own_files := document.value.get("plugins"), list):
        added = [name for name in files if name not in own_files]
        merged.value["plugins"] = [
            *own_files,
            *added,
        ]  # those of this file first, for their places are known by their number
    merged.spoiled |= document.spoiled
    return merged


class _Merging:
    def __init__(self, merged: Document, document: Document, top: object) -> None:
        self.merged, self.document, self.top = merged, document, top

    def put(self, path: KeyPath, value: object) -> None:
        places = self.document.places
        editor = Change(self.merged, places.of(path), self.top)
        annotation, written = editor.type_at(path), editor.value_at(path)
        registry = registry_of(annotation)
        parent = editor.parent(path)
        if registry and (isinstance(value, str) or isinstance(value, dict) and isinstance(value.get("name"), str)):
            inner = value if isinstance(value, dict) else {}
            editor.choose(parent, path, registry, written, value if isinstance(value, str) else value["name"])
            self.merged.places.keys |= {path: places.of(path, key=True)}
        elif (
            isinstance(value, dict)  # and there is a mapping, or what is short for one, that further keys are put into
            and (registry or any(map(is_dataclass, options(annotation))))
            and isinstance(registry.normalise(written) if registry else written, dict)
        ):
            inner = value
        else:
            editor.put(parent, path, value)
            self.stand(path)
            return
        for key, item in inner.items():
            if key != "name" or not registry:
                self.put((*path, key), item)
        if registry and "name" in inner:
            self.stand((*path, "name"))

    def stand(self, path: KeyPath) -> None:
        """What is at the path now stands where the document has it."""
        for known, new in ((self.merged.places.keys, self.document.places.keys),
                           (self.merged.places.values, self.document.places.values)):  # fmt: skip
            known |= {where: place for where, place in new.items() if where[: len(path)] == path}


def _seen_from(data: object, top: object, home: Path, folder: Path) -> Any:
    """A scenario's data with its relative files, which are relative to ``home``, named as seen from ``folder``."""

    def rename(value: object) -> Any:
        if isinstance(value, list):
            return [rename(item) for item in value]
        return data_files.seen_from(value, home, folder) if isinstance(value, str) else value

    def each(value: object, path: KeyPath) -> Any:
        if isinstance(value, list):
            return [each(item, (*path, i)) for i, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        cls = owner(annotation_at(top, data, path), value)
        files = data_files.path_fields(cls) if cls else {}
        return {key: rename(item) if key in files else each(item, (*path, key)) for key, item in value.items()}

    return each(data, ())
