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

from simfl.disk import open_regular
from simfl.registry import Registry
from simfl.scenario import datafiles, pluginfiles
from simfl.scenario.builtin import Found, find, no_such
from simfl.scenario.fields import annotation_at, options, owner, registry_of
from simfl.scenario.overrides import Change
from simfl.scenario.places import InvalidScenario, KeyPath, Place, Places, Problem, shown
from simfl.scenario.reader import Document, read
from simfl.scenario.text import MAX_BYTES, decode
from simfl.scenario.trust import NAMED, Trust

__all__ = ["EXTENDS", "extended", "opened"]

EXTENDS = "extends"
LONGEST = 20


def opened(found: Found) -> Document:
    """A scenario file as read.

    Raises:
        InvalidScenario: it cannot be read at all.
    """
    try:
        with open_regular(found.path) as file:
            return read(decode(file.read(MAX_BYTES + 1)), found.source)
    except FileNotFoundError:
        why = no_such(found.path)
    except OSError as error:
        why = f"cannot be read: {error.strerror or error}"
    except ValueError as error:
        why = str(error)
    raise InvalidScenario([Problem(Place(found.source), "", why)])


def extended(
    document: Document, folder: Path, top: Any, chain: tuple[Path, ...] = (), trust: Trust = NAMED
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
    found = find(name, folder)
    path = Path(os.path.realpath(found.path))
    if path in chain:
        raise wrong(f"a circle: {' extends '.join(file.name for file in (*chain[chain.index(path) :], path))}")
    if len(chain) >= LONGEST:
        raise wrong(f"more than {LONGEST} scenarios, each extending the next")
    if not path.exists():
        raise wrong(f"{shown(name)}: {no_such(found.path)}")
    base = opened(found)
    pluginfiles.load_all(base, found.folder, (), trust)
    base = extended(base, found.folder, top, (*chain, path), trust)
    if () in base.spoiled:
        raise InvalidScenario([*document.problems, *base.problems])
    if not isinstance(base.value, dict):
        raise wrong(f"{shown(name)} is no mapping with the keys of a scenario")
    base.value.pop("name", None)
    base.value = _seen_from(base.value, top, found.folder, folder)
    return _over(base, document, top)


def _over(base: Document, document: Document, top: Any) -> Document:
    """What ``document`` says, put over ``base``."""
    made = Document(base.value, Places(document.places.top, base.places.keys, base.places.values))
    made.problems = [*document.problems, *base.problems]
    made.spoiled = set(base.spoiled)
    files = made.value.get("plugins", [])
    merging = _Merging(made, document, top)
    for key, value in document.value.items():
        merging.put((key,), value)
    if isinstance(files, list) and isinstance(own := document.value.get("plugins"), list):
        added = [name for name in files if name not in own]
        made.value["plugins"] = [*own, *added]  # those of this file first, for their places are known by their number
    made.spoiled |= document.spoiled
    return made


class _Merging:
    def __init__(self, made: Document, document: Document, top: Any) -> None:
        self.made, self.document, self.top = made, document, top

    def put(self, path: KeyPath, value: Any) -> None:
        places = self.document.places
        change = Change(self.made, places.of(path), self.top)
        annotation, given = change.type_at(path), change.value_at(path)
        registry = registry_of(annotation)
        parent = change.parent(path)
        if registry and (isinstance(value, str) or isinstance(value, dict) and isinstance(value.get("name"), str)):
            inner = value if isinstance(value, dict) else {}
            change.choose(parent, path, registry, given, value if isinstance(value, str) else value["name"])
            self.made.places.keys |= {path: places.of(path, key=True)}
        elif isinstance(value, dict) and (registry or _keyed(annotation)) and _opens(registry, given):
            inner = value
        else:
            change.put(parent, path, value)
            self.stand(path)
            return
        for key, item in inner.items():
            if key != "name" or not registry:
                self.put((*path, key), item)
        if registry and "name" in inner:
            self.stand((*path, "name"))

    def stand(self, path: KeyPath) -> None:
        """What is at the path now stands where the document has it."""
        for known, new in ((self.made.places.keys, self.document.places.keys),
                           (self.made.places.values, self.document.places.values)):  # fmt: skip
            known |= {where: place for where, place in new.items() if where[: len(path)] == path}


def _opens(registry: Registry | None, given: Any) -> bool:
    """Whether there is a mapping, or what is short for one, that further keys can be put into."""
    return isinstance(registry.normalise(given) if registry else given, dict)


def _keyed(annotation: Any) -> bool:
    return any(is_dataclass(option) for option in options(annotation))


def _seen_from(data: Any, top: Any, home: Path, folder: Path) -> Any:
    """A scenario's data with its relative files, which are relative to ``home``, named as seen from ``folder``."""

    def renamed(value: Any) -> Any:
        if isinstance(value, list):
            return [renamed(item) for item in value]
        return datafiles.seen_from(value, home, folder) if isinstance(value, str) else value

    def each(value: Any, path: KeyPath) -> Any:
        if isinstance(value, list):
            return [each(item, (*path, i)) for i, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        cls = owner(annotation_at(top, data, path), value)
        files = datafiles.path_fields(cls) if cls else {}
        return {key: renamed(item) if key in files else each(item, (*path, key)) for key, item in value.items()}

    return each(data, ())
