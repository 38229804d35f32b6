"""Plugin files: Python files that a scenario names under ``plugins`` and that register what it chooses.

A file is executed once a process, whatever path leads to it: it is known by the SHA-256 of its content, which is also
what counts in the scenario's digest. It should hold all that it needs besides installed packages: neighbouring files
are not imported, for they would belong to no digest. :mod:`simfl.scenario.trust` says which files may be executed.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

from simfl.core.errors import PLUGIN_FILE as PREFIX
from simfl.core.registration.family_index import broken, undone
from simfl.core.registration.packages import raised_at
from simfl.core.storage.disk import open_regular
from simfl.scenario import data_files
from simfl.scenario.trust import NAMED, Trust, note_executed
from simfl.scenario.yaml.places import InvalidScenario, Problem, shown
from simfl.scenario.yaml.reader import Document

LARGEST = 2**20


class _Source:
    """Executes a text as a module."""

    def __init__(self, text: bytes, path: str) -> None:
        self.text, self.path = text, path

    def create_module(self, spec: object) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.text, self.path, "exec", dont_inherit=True), module.__dict__)


def load(path: Path, trust: Trust = NAMED) -> str:
    """Executes a plugin file, unless one of the same content has been executed; the name of its module.

    Raises:
        ValueError: it cannot be read, may not be executed, fails, or registers a name that somebody else has; one line
            that says where.
    """
    try:
        with open_regular(path) as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from None
    if len(text) > LARGEST:
        raise ValueError(f"is longer than {LARGEST:,} bytes")
    digest = sha256(text).hexdigest()
    if PREFIX + digest not in sys.modules:
        trust.check(path, digest)
        _execute(text, PREFIX + digest, path)
    if trust.named:
        note_executed(digest)
    return PREFIX + digest


def _execute(text: bytes, name: str, path: Path) -> None:
    where = os.path.realpath(path)
    spec = spec_from_loader(name, _Source(text, where), origin=where)  # type: ignore[arg-type]  # it has what is used of a loader
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    module.__file__ = where
    sys.modules[name] = module
    broken()  # installed packages are loaded before, so that a file that fails takes none of their plugins with it
    with undone() as keep:
        try:
            spec.loader.exec_module(module)
            keep()
        except KeyboardInterrupt:
            sys.modules.pop(name)
            raise
        except BaseException as error:  # somebody else's file may do anything, also end the interpreter
            sys.modules.pop(name)
            raise ValueError(_failure(error, where, path)) from error


def load_all(document: Document, folder: Path, further: Iterable[Path], trust: Trust = NAMED) -> None:
    """Executes the plugin files that a scenario's data name under ``plugins``.

    Args:
        document: the scenario as read; ``further`` files are added to its ``plugins``.
        folder: what they are relative to.
        further: as seen from the working directory.
        trust: which of them may be executed.

    Raises:
        InvalidScenario: a file cannot be read, may not be executed, or fails; nothing else can be said while names are
            missing.
    """
    data = document.value
    if not isinstance(data, dict):
        return
    named = data.get("plugins")
    if named is None or isinstance(named, list):
        known = {os.path.realpath(data_files.find(name, folder)) for name in named or () if isinstance(name, str)}
        new = dict.fromkeys(path for each in further if (path := os.path.realpath(each)) not in known)
        added = [os.path.relpath(path, os.path.realpath(folder)) for path in new]
        data |= {"plugins": [*(named or ()), *added]} if named or added else {}
        named = data.get("plugins")
    problems = []
    for i, name in enumerate(named if isinstance(named, list) else ()):
        if isinstance(name, str) and name.endswith(".py"):  # the others are refused when the scenario is validated
            try:
                load(data_files.find(name, folder), trust)
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


def executed_digests() -> frozenset[str]:
    """SHA-256, hexadecimal, of the contents of all plugin files that this process has executed."""
    return frozenset(name.removeprefix(PREFIX) for name in list(sys.modules) if name.startswith(PREFIX))


def is_plugin_file(cls: type) -> bool:
    """Whether a class was registered by a plugin file."""
    return cls.__module__.startswith(PREFIX)


def file_of(cls: type) -> str:
    """``sha256:`` and the digest of the plugin file that registered a class."""
    return "sha256:" + cls.__module__.removeprefix(PREFIX)
