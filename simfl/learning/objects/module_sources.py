"""Modules beside a scenario: each is executed from the bytes that were hashed and may be executed, its helpers too.

The helpers of a module are the files of the same folder, or of a package in it, that its import statements name, and
those that these name. No other file of the folder is imported, no compiled one, and nothing of ``__pycache__``.
Modules of installed packages are Python's, which reads what is installed.
"""

import ast
import os
import site
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import invalidate_caches
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from simfl.core.registration.source_code import LARGEST_BYTES, SourceText, spec_of
from simfl.core.storage.disk import open_regular
from simfl.learning.objects.fingerprint import LIBRARIES

_accepted: set[str] = set()


@dataclass(frozen=True)
class ModuleSource:
    """The file of a module.

    Attributes:
        name: of the module, such as ``nets`` or ``mypackage.nets``.
        path: of its file, links resolved.
        text: its content.
        installed: Python imports it.
    """

    name: str
    path: Path
    text: bytes
    installed: bool = False

    @property
    def digest(self) -> str:
        """SHA-256, hexadecimal, of its content."""
        return sha256(self.text).hexdigest()

    @property
    def mark(self) -> str:
        """SHA-256, hexadecimal, of its path and content."""
        return sha256(os.fsencode(self.path) + b"\0" + self.text).hexdigest()

    @property
    def package(self) -> str:
        """What its relative imports are relative to."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


Sources = Mapping[str, ModuleSource]


def accept(source: ModuleSource) -> None:
    """This process may execute it."""
    _accepted.add(source.mark)


def accepted_marks() -> frozenset[str]:
    """The marks of all modules that this process may execute."""
    return frozenset(_accepted)


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


def module_sources(name: str, folder: Path) -> Sources:
    """The module of ``module:attribute`` and its helpers by their names, as they are now; nothing without one.

    Raises:
        ValueError: a file cannot be read, is longer than 1 MiB, or is no Python source; one line.
    """
    module = name.partition(":")[0]
    if module in sys.builtin_module_names:
        raise ValueError(f"module '{module}' is built into Python; name one that has a file")
    if (file := module_file(name, folder)) is None:
        return {}
    if any(file.is_relative_to(folder) for folder in _installation()):
        return {module: ModuleSource(module, file.resolve(), file.read_bytes(), installed=True)}
    if file.suffix != ".py":
        raise ValueError(f"module '{module}' is compiled code ({file}); its source is needed")
    root = file.parents[module.count(".") + (file.name == "__init__.py")]
    sources: dict[str, ModuleSource] = {}
    wanted = [*_with_packages(module)]
    while wanted:
        each = wanted.pop()
        if each not in sources and (path := _file(root, each)) is not None:
            sources[each] = ModuleSource(each, path.resolve(), _read(path, each))
            wanted += _imports(sources[each])
    return sources


@cache
def _installation() -> tuple[str, ...]:
    return (*site.getsitepackages(), site.getusersitepackages(), os.path.dirname(os.__file__))


def _file(root: Path, name: str) -> Path | None:
    base = root.joinpath(*name.split("."))
    return next((path for path in (base / "__init__.py", base.parent / f"{base.name}.py") if path.is_file()), None)


def _read(path: Path, name: str) -> bytes:
    try:
        with open_regular(path) as file:
            text = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"module '{name}' ({path}) cannot be read: {error.strerror}") from None
    if len(text) > LARGEST_BYTES:
        raise ValueError(f"module '{name}' ({path}) is longer than {LARGEST_BYTES:,} bytes")
    return text


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def _imports(source: ModuleSource) -> list[str]:
    """All that its statements may import, but libraries."""
    try:
        tree = ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # said when it is executed
    named: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = source.package.split(".")[: -(node.level - 1) or None] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            named += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return [each for name in named if name.partition(".")[0] not in LIBRARIES for each in _with_packages(name)]


class _Finder:
    """Finds the files of one module and its helpers; they remain findable, behind all else, for late imports."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        source = self.sources.get(name)
        if source is not None:
            return spec_of(name, source.text, str(source.path), source.path.name == "__init__.py")
        if any(other.startswith(f"{name}.") for other in self.sources):
            return ModuleSpec(name, None, is_package=True)
        return None


@contextmanager
def importable(sources: Sources) -> Iterator[None]:
    """A block in which these files are what their names import.

    Raises:
        ValueError: one of them may not be executed, or its name has been imported already from another file or from
            another content of this one; one line.
    """
    if any(source.installed for source in sources.values()):
        yield
        return
    for source in sources.values():
        _refuse_other(source)
    finder = _Finder(sources)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        if not any(isinstance(each, _Finder) and each.sources == sources for each in sys.meta_path):
            sys.meta_path.append(finder)


def _refuse_other(source: ModuleSource) -> None:
    if source.mark not in _accepted:
        raise ValueError(f"module '{source.name}' ({source.path}) has changed since it was looked at; start again")
    module = sys.modules.get(source.name)
    loaded = vars(module).get("__file__") if module is not None else None
    if loaded and os.path.realpath(loaded) != str(source.path):
        raise ValueError(f"another module '{source.name}' has been imported already, {loaded}; rename one of the two")
    loader = None if module is None else module.__loader__
    if isinstance(loader, SourceText) and loader.text != source.text:
        raise ValueError(f"module '{source.name}' ({source.path}) has changed since it was loaded: start Python anew")
