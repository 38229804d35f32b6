"""Data files that a scenario names: found from its folder, known by their content.

A path in a scenario is relative to the folder of the scenario's file, or else to the data folder; an absolute one is
left as it is. Reading
may reach anywhere, writing never follows a scenario. When a scenario is written into another folder
(``Scenario.to_yaml(folder)``), its relative paths are rewritten so that they lead to the same files from there.
In the digest a file stands by the SHA-256 of its content: the same data give the same digest wherever they lie,
and changed data never pass for a run that was made before.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from simfl.files import DATA_PATH
from simfl.scenario.places import KeyPath
from simfl.scenario.plugins import mapped, walk

__all__ = ["content", "named", "renamed", "seen_from"]


@cache
def _path_fields(cls: type) -> tuple[str, ...]:
    return tuple(name for name, hint in get_type_hints(cls, include_extras=True).items() if _marked(hint))


def _marked(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated and DATA_PATH in annotation.__metadata__:
        return True
    return any(_marked(part) for part in get_args(annotation) if get_origin(annotation) is not None)


def named(scenario: Any) -> Iterator[tuple[KeyPath, str]]:
    """Every data file that the scenario names, with the key that names it."""
    for path, plugin in walk(scenario):
        for field in _path_fields(type(plugin)):
            value = getattr(plugin, field)
            if isinstance(value, str):
                yield (*path, field), value
            elif isinstance(value, (tuple, list)):
                yield from (((*path, field, index), item) for index, item in enumerate(value) if isinstance(item, str))


def renamed(scenario: Any, change: Callable[[str], str]) -> Any:
    """The scenario with every data file's name changed."""

    def each(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(each(item) for item in value)
        return change(value) if isinstance(value, str) else value

    def plugin(value: Any) -> Any:
        names = _path_fields(type(value))
        return replace(value, **{name: each(getattr(value, name)) for name in names}) if names else value

    return mapped(scenario, plugin)


def seen_from(name: str, home: Path, folder: Path) -> str:
    """The name, relative to ``folder``, of a file called ``name`` relative to ``home``; of no other file it is kept."""
    if os.path.isabs(name) or home.resolve() == folder.resolve() or not (home / name).exists():
        return name
    return Path(os.path.relpath((home / name).resolve(), folder.resolve())).as_posix()


def content(path: Path) -> str:
    """``sha256:`` and the digest of a file, or of the names and contents of all files in a folder.

    Raises:
        OSError: it cannot be read; ``FileNotFoundError`` also where it is neither file nor folder.
    """
    if path.is_file():
        return f"sha256:{_digest(path)}"
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no such file or folder")
    files = sorted(Path(base) / name for base, _, names in os.walk(path) for name in names)
    inside = [f"{file.relative_to(path).as_posix()}\0{_digest(file)}" for file in files if file.is_file()]
    return "sha256:" + sha256("\n".join(inside).encode(errors="surrogateescape")).hexdigest()


def _digest(path: Path) -> str:
    total = sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()
