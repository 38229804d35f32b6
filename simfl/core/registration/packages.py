"""What installed packages add: entry points of the groups ``simfl.<family>``, ``simfl.command`` and ``simfl.python``.

A package that raises, or ends the interpreter, when it is imported hurts nobody but those who choose its plugin.
"""

import sys
import tokenize
from ast import literal_eval
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, distribution, distributions
from importlib.util import find_spec
from traceback import extract_tb
from typing import Any

DEPLOYMENT = "simfl.deployment"
"""The package of simfl that the rest of it knows by name only, to say where it is missing what that is of."""

loaded: dict[str, str] = {}
"""Modules that entry points have named, each with ``package version``."""


@dataclass(frozen=True)
class Broken:
    """A plugin of a package that does not load: the entry point, and why."""

    group: str
    name: str
    package: str
    why: str

    def __str__(self) -> str:
        return f"'{self.name}' of the package {self.package} does not load: {self.why}"


def packages(group: str) -> Iterator[EntryPoint]:
    """The entry points of a group, sorted, so that a name given twice always means the same; not those of packages of
    simfl itself that are not there, though its metadata name them.
    """
    entries = sorted(_entry_points().get(group, ()), key=lambda entry: (entry.name, entry.value))
    yield from (entry for entry in entries if not is_rim(entry) or _is_there(home_of(entry)))


def is_rim(entry: EntryPoint) -> bool:
    """Whether it is of simfl itself: of a package that the rest of simfl imports by its entry points only."""
    return entry.value.startswith("simfl.")


def home_of(entry: EntryPoint) -> str:
    """The package that it is of: ``simfl.deployment``, or somebody's top package."""
    return ".".join(entry.value.partition(":")[0].split(".")[: 1 + is_rim(entry)])


@cache
def _is_there(package: str) -> bool:
    return find_spec(package) is not None


def all_packages() -> Iterator[EntryPoint]:
    """The entry points of all families, also of those that no module has defined yet."""
    for group in _entry_points():
        yield from packages(group)


def load_package(entry: EntryPoint, registered: Callable[[str], bool]) -> Broken | None:
    """Imports what an entry point names; of a module that raises, nothing stays.

    Args:
        entry: its name is that of the plugin.
        registered: whether the family has a plugin of this name.

    Returns:
        What is wrong, None if the plugin is there.
    """
    about = origin_of(entry)
    imported_before = entry.module in sys.modules
    try:
        entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # somebody else's package may do anything, also end the interpreter
        if not imported_before:
            sys.modules.pop(entry.module, None)
        return Broken(entry.group, entry.name, about, raised_at(error))
    if not registered(entry.name):
        return Broken(entry.group, entry.name, about, f"{entry.value} registers nothing of this name")
    loaded[entry.module] = about
    return None


def origin_of(entry: EntryPoint) -> str:
    """``package version`` of an entry point."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value


def python_names() -> set[str]:
    """What packages add to simfl from Python: entry points of the group ``simfl.python``."""
    return {entry.name for entry in packages("simfl.python")}


def python_object(name: str) -> Any:
    """What is called ``simfl.<name>`` by a package; None = by none."""
    entry = next((entry for entry in packages("simfl.python") if entry.name == name), None)
    return None if entry is None else entry.load()


def lacking(what: str) -> str:
    """A line about what the deployment package has where it is not there."""
    return f"{what} is of {DEPLOYMENT}, which no installed package offers; in a checkout: pip install -e ."


def docstring_of(module: str) -> str:
    """The docstring of a module, which is not imported, nor is what it lies in; empty if it has none."""
    path, file = None, None
    try:
        for depth in range(len(module.split("."))):
            name = ".".join(module.split(".")[: depth + 1])
            spec = next(filter(None, (finder.find_spec(name, path) for finder in sys.meta_path)), None)
            path, file = (None, None) if spec is None else (spec.submodule_search_locations, spec.origin)
        with open(str(file), "rb") as source:
            for token in tokenize.tokenize(source.readline):
                if token.type == tokenize.STRING:
                    return str(literal_eval(token.string))
                if token.type not in (tokenize.ENCODING, tokenize.COMMENT, tokenize.NL):
                    break
    except (ImportError, OSError, SyntaxError, ValueError, tokenize.TokenError):
        pass  # its help is in the command itself
    return ""


def raised_at(error: BaseException, file: str | None = None) -> str:
    """``file:line: Type: message`` of what was raised while somebody else's code ran.

    Args:
        error: what was raised.
        file: the innermost line of this file is named; None = the innermost of all.
    """
    frames = [
        f for f in extract_tb(error.__traceback__) if f.filename == file or (file is None and f.filename[0] != "<")
    ]
    place = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}: "
        return f"{place}{type(error).__name__}: {error.msg}"
    words = " ".join(str(error).split())
    return f"{place}{type(error).__name__}{f': {words}' if words else ''}"


@cache
def _entry_points() -> dict[str, list[EntryPoint]]:
    """The entry points of all families by their groups."""
    named = {package.name for package in distributions() if "[simfl." in (package.read_text("entry_points.txt") or "")}
    groups: dict[str, list[EntryPoint]] = {}
    for name in named:  # only their entry points are parsed; of a package that is there twice, the first on the path
        for entry in distribution(name).entry_points:
            if entry.group.startswith("simfl."):
                groups.setdefault(entry.group, []).append(entry)
    return groups
