"""Plugins of installed packages: entry points in the group ``simfl.<family>``, loaded whatever they do.

A package that raises, or ends the interpreter, when it is imported hurts nobody but those who choose its plugin.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, distribution, distributions
from traceback import extract_tb

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
    """The entry points of a group, sorted, so that a name given twice always means the same."""
    yield from sorted(_entry_points().get(group, ()), key=lambda entry: (entry.name, entry.value))


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
    about = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
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
