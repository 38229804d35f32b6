"""What a scenario's digest is computed of: its resolved keys, and the contents of what they name."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property, partialmethod
from hashlib import sha256
from inspect import getsourcefile
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING

from simfl.core.errors import ScenarioError
from simfl.core.registration.protocol import is_plugin
from simfl.core.registration.said_types import as_written
from simfl.core.storage.data_folder import DATA_FOLDER
from simfl.core.version import RESULTS
from simfl.scenario import data_files, resolution
from simfl.scenario.plugin_files import is_plugin_file
from simfl.scenario.yaml.places import KeyPath, dotted_key

if TYPE_CHECKING:
    from simfl.scenario.model import Scenario

DIGEST_DIGITS = 12

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

PLAIN = (type(None), bool, int, float, complex, str, bytes)


def digest_of(scenario: "Scenario") -> str:
    """The digest of a scenario, see :attr:`simfl.scenario.model.Scenario.digest`."""
    known = {name: scenario.origins[dotted_key(path)] for path, name in data_files.names(scenario)}
    named = data_files.rename_files(scenario, lambda name, mark: "" if mark == DATA_FOLDER else known[name])
    data = named.plain()
    data["code"] = codes(foreign_plugins(scenario))
    data["results"] = RESULTS
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


def origins_of(scenario: "Scenario") -> dict[str, str]:
    """What the digest holds of things outside the scenario, see :attr:`simfl.scenario.model.Scenario.origins`."""
    files = {dotted_key(path): content_of(scenario, path, name) for path, name in data_files.names(scenario)}
    return files | codes(foreign_plugins(scenario)) | {"simfl": f"results version {RESULTS}"}


def foreign_plugins(scenario: "Scenario") -> list[type]:
    """The plugins that it uses, the innermost first, that are neither simfl's own nor of its plugin files."""
    used = dict.fromkeys(type(plugin) for _, plugin in resolution.walk(scenario) if is_plugin(plugin))
    return [cls for cls in used if is_foreign(cls)]


def content_of(scenario: "Scenario", path: KeyPath, name: str) -> str:
    """A data or plugin file by its content.

    Args:
        scenario: names the file.
        path: the key that does.
        name: how it is named there.

    Raises:
        ScenarioError: it cannot be read.
    """
    try:
        return data_files.content(scenario.file(name))
    except OSError as error:
        raise ScenarioError(dotted_key(path), f"cannot be read: {error.strerror or error}") from None


def is_foreign(cls: type) -> bool:
    """Whether a plugin is neither simfl's own nor one of a plugin file."""
    return cls.__module__.partition(".")[0] != "simfl" and not is_plugin_file(cls)


def codes(classes: Iterable[type]) -> dict[str, str]:
    """:func:`code_of` some foreign plugins, by their full names: results of other code are other results.

    simfl's own plugins count by :data:`simfl.core.version.RESULTS`, those of plugin files by the files' content. Those
    of an installed package (or of any importable module) count by the content of the module that defines them. Those
    of a notebook, an interactive session or a script count by their bytecode, with the functions, classes and plain
    values of the same module that they use; other versions of Python have other bytecode.
    """
    return {f"{cls.__module__}.{cls.__qualname__}": code_of(cls) for cls in classes}


def code_of(cls: type) -> str:
    """``sha256:`` and the digest of a foreign plugin's code."""
    if cls.__module__ != "__main__":
        try:
            return _sha256(Path(getsourcefile(cls) or "").read_bytes())
        except (OSError, TypeError):
            pass  # it has no file
    return _sha256("\n".join(_of(cls, set())).encode())


def _sha256(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


def _of(value: object, seen: set[int]) -> Iterator[str]:
    """A value in texts that do not depend on where and when it was made."""
    if isinstance(value, PLAIN):
        yield repr(value)
    elif id(value) in seen:
        yield "again"
    elif isinstance(value, CodeType):
        yield from (value.co_code.hex(), repr(value.co_names), repr(value.co_varnames), repr(value.co_freevars))
        for constant in value.co_consts:
            yield from _of(constant, seen)
    elif isinstance(value, FunctionType):
        seen.add(id(value))
        yield from _of_function(value, seen)
    elif isinstance(value, type):
        seen.add(id(value))
        yield from _of_class(value, seen)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _of(item, seen)
    elif isinstance(value, (set, frozenset)):
        yield from sorted(" ".join(_of(item, seen)) for item in value)
    elif isinstance(value, dict):
        for key in sorted(value, key=repr):
            yield from (repr(key), *_of(value[key], seen))
    elif isinstance(value, (staticmethod, classmethod)):
        yield from _of(value.__func__, seen)
    elif isinstance(value, property):
        yield from _of((value.fget, value.fset), seen)
    elif isinstance(value, cached_property):
        yield from _of(value.func, seen)
    elif isinstance(value, partialmethod):
        yield from _of((value.func, value.args, value.keywords), seen)
    elif isinstance(value, ModuleType):
        yield value.__name__
    elif is_dataclass(value):
        yield from _of({f.name: getattr(value, f.name) for f in fields(value)}, seen)
    else:
        yield type(value).__qualname__


def _of_function(function: FunctionType, seen: set[int]) -> Iterator[str]:
    function = as_written(function)
    if function.__module__ != "__main__":
        yield f"{function.__module__}.{function.__qualname__}"
        return
    yield from _of(function.__code__, seen)
    yield from _of((function.__defaults__, function.__kwdefaults__), seen)
    for cell in function.__closure__ or ():
        yield from _of(cell.cell_contents, seen)
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield from (name, *_of(function.__globals__[name], seen))


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _of_class(cls: type, seen: set[int]) -> Iterator[str]:
    yield cls.__qualname__
    if cls.__module__ != "__main__":  # somebody else's: its name is enough
        yield cls.__module__
        return
    yield from _of(cls.__bases__, seen)
    if is_dataclass(cls):
        for f in fields(cls):
            yield from (f.name, _ADDRESS.sub("", repr(f.type)), *_of((f.default, f.default_factory), seen))
    for name, item in sorted(vars(cls).items()):
        generated = isinstance(item, FunctionType) and item.__code__.co_qualname.startswith("__create_fn__.")
        if not generated and (not name.startswith("__") or isinstance(item, FunctionType)):
            yield from (name, *_of(item, seen))
