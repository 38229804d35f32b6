"""Objects that a scenario names: ``mypackage.nets:Net`` is ``Net`` of the module ``mypackage.nets``.

Modules are found as Python finds them for a script in the scenario file's folder: there, then on ``sys.path``.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module, invalidate_caches
from importlib.machinery import PathFinder
from pathlib import Path

from simfl.core.errors import SimflError
from simfl.core.registration.packages import raised_at
from simfl.learning.objects.fingerprint import fingerprint
from simfl.learning.objects.handles import READERS, Handle, snapshot


def module_file(name: str, folder: Path) -> Path | None:
    """The file of the module of ``module:attribute``, found without importing anything; None where there is none.

    Args:
        name: as in the scenario.
        folder: searched before ``sys.path``.
    """
    path: list[str] = [os.path.realpath(folder), *sys.path]
    invalidate_caches()
    known = ""
    for part in name.partition(":")[0].split("."):
        known = f"{known}.{part}" if known else part
        spec = PathFinder.find_spec(known, path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
    return Path(spec.origin) if spec is not None and spec.origin and os.path.isfile(spec.origin) else None


def load(key: str, name: str, folder: Path) -> Handle:
    """The object that a scenario names at a key of :data:`simfl.learning.objects.handles.READERS`.

    Raises:
        ValueError: there is no such module or attribute, it fails, or it is no such object; one line.
    """
    return _load(key, name, os.path.realpath(folder))


@lru_cache(maxsize=8)
def _load(key: str, name: str, folder: str) -> Handle:
    module_name, _, attribute = name.partition(":")
    with _search_path(folder):
        value = _attribute(_module(module_name, name, folder), module_name, attribute)
        try:
            read = READERS[key](value)
        except (ValueError, SimflError) as error:
            raise ValueError(f"{name}: {error}") from None
    return Handle(name, fingerprint(read), snapshot(read))


def _module(module_name: str, name: str, folder: str) -> object:
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ValueError(f"no module '{error.name}' in {folder} or on sys.path") from None
        raise ValueError(f"module '{module_name}' does not load: {error}") from error
    except Exception as error:  # somebody else's file may raise anything
        raise ValueError(f"module '{module_name}' does not load: {raised_at(error)}") from error
    file, loaded = module_file(name, Path(folder)), vars(module).get("__file__")
    if file is not None and loaded and os.path.realpath(file) != os.path.realpath(loaded):
        raise ValueError(f"another module '{module_name}' has been imported already, {loaded}; rename one of the two")
    return module


def _attribute(value: object, module_name: str, attribute: str) -> object:
    done = module_name
    for part in attribute.split("."):
        known = _attributes(value)
        if part not in known:
            near = get_close_matches(part, [each for each in known if not each.startswith("__")], 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise ValueError(f"module '{module_name}' has no '{attribute}'{hint}")
        value = known[part]
        done = f"{done}.{part}"
    return value


def _attributes(value: object) -> dict[str, object]:
    try:
        return {**vars(type(value)), **vars(value)}
    except TypeError:  # a value without attributes of its own
        return {**vars(type(value))}


@contextmanager
def _search_path(folder: str) -> Iterator[None]:
    """A block in which modules are looked for in a folder first."""
    sys.path.insert(0, folder)
    invalidate_caches()
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
