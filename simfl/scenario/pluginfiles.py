"""Plugin files: Python files that a scenario names under ``plugins`` and that register what it chooses.

A file is executed once a process, whatever path leads to it: it is known by the SHA-256 of its content, which is also
what counts in the scenario's digest. It should hold all that it needs besides installed packages: neighbouring files
are not imported, for they would belong to no digest.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

from simfl.packages import raised_at
from simfl.registry import undone
from simfl.scenario import datafiles
from simfl.scenario.places import InvalidScenario, Problem, shown
from simfl.scenario.reader import Document

__all__ = ["file_of", "is_plugin_file", "load", "load_all"]

PREFIX = "simfl_plugin_"
LARGEST = 2**20


class _Source:
    """Executes a text as a module."""

    def __init__(self, text: bytes, path: str) -> None:
        self.text, self.path = text, path

    def create_module(self, spec: object) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.text, self.path, "exec", dont_inherit=True), module.__dict__)


def load(path: Path) -> None:
    """Executes a plugin file, unless one of the same content has been executed.

    Raises:
        ValueError: it cannot be read, fails, or registers a name that somebody else has; one line that says where.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from None
    if len(text) > LARGEST:
        raise ValueError(f"is longer than {LARGEST:,} bytes")
    name = PREFIX + sha256(text).hexdigest()
    if name in sys.modules:
        return
    where = str(path.resolve())
    spec = spec_from_loader(name, _Source(text, where), origin=where)  # type: ignore[arg-type]
    module = module_from_spec(spec)  # type: ignore[arg-type]
    module.__file__ = where
    sys.modules[name] = module
    with undone() as keep:
        try:
            spec.loader.exec_module(module)  # type: ignore[union-attr]
            keep()
        except KeyboardInterrupt:
            sys.modules.pop(name)
            raise
        except BaseException as error:  # somebody else's file may do anything, also end the interpreter
            sys.modules.pop(name)
            raise ValueError(_failure(error, where, path)) from error


def load_all(document: Document, folder: Path, further: Iterable[Path]) -> None:
    """Executes the plugin files that a scenario's data name under ``plugins``.

    Args:
        document: the scenario as read; ``further`` files are added to its ``plugins``.
        folder: what they are relative to.
        further: as seen from the working directory.

    Raises:
        InvalidScenario: a file cannot be read or fails; nothing else can be said while names are missing.
    """
    data = document.value
    if not isinstance(data, dict):
        return
    named = data.get("plugins")
    if named is None or isinstance(named, list):
        known = {datafiles.find(name, folder).resolve() for name in named or () if isinstance(name, str)}
        new = dict.fromkeys(path.resolve() for path in further if path.resolve() not in known)
        added = [os.path.relpath(path, folder.resolve()) for path in new]
        data |= {"plugins": [*(named or ()), *added]} if named or added else {}
        named = data.get("plugins")
    problems = []
    for i, name in enumerate(named if isinstance(named, list) else ()):
        if isinstance(name, str) and name.endswith(".py"):  # the others are refused when the scenario is validated
            try:
                load(datafiles.find(name, folder))
            except ValueError as error:
                place = document.places.of(("plugins", i))
                problems.append(Problem(place, f"plugins.{i}", f"{shown(name)} {error}"))
    if problems:
        raise InvalidScenario([*document.problems, *problems])


def _failure(error: BaseException, where: str, path: Path) -> str:
    said = raised_at(error, where).replace(where, str(path))
    older = [file for file in _files() if Path(file) == Path(where)]
    if older and "is registered already" in said:
        said += "; the file has changed since it was loaded: start Python anew"
    return f"does not load: {said}"


def _files() -> Iterator[str]:
    for name, module in list(sys.modules.items()):
        if name.startswith(PREFIX):
            yield str(module.__file__)


def is_plugin_file(cls: type) -> bool:
    """Whether a class was registered by a plugin file."""
    return cls.__module__.startswith(PREFIX)


def file_of(cls: type) -> str:
    """``sha256:`` and the digest of the plugin file that registered a class."""
    return "sha256:" + cls.__module__.removeprefix(PREFIX)
