"""Data files that a scenario names: found from its folder, known by their content.

A relative path leads from the folder of the scenario's file or, if there is nothing, from the data folder
(:func:`simfl.core.storage.data_folder.data_root`); an absolute one is left as it is. Reading may reach anywhere,
writing never follows a scenario. When a scenario is written into another folder (``Scenario.to_yaml(folder)``), its
relative paths are rewritten so that they lead to the same files from there. In the digest a file stands by the SHA-256
of its content, and a folder by those of its files: the same data give the same digest wherever they lie, and changed
data never pass for a run that was made before. The folder in which a known data set lies does not count at all.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from simfl.core.storage.data_folder import DATA_FOLDER, DATA_PATH, DATA_TREE, data_root
from simfl.scenario.resolution import replace_plugins, walk
from simfl.scenario.yaml.places import KeyPath


@cache
def path_fields(cls: type) -> dict[str, str]:
    """The fields that name files or folders, each with its mark."""
    marks = {name: _mark(hint) for name, hint in get_type_hints(cls, include_extras=True).items()}
    return {name: mark for name, mark in marks.items() if mark}


def _mark(annotation: Any) -> str:
    for mark in (DATA_PATH, DATA_TREE, DATA_FOLDER):
        if get_origin(annotation) is Annotated and mark in annotation.__metadata__:
            return mark
    return next(
        (mark for part in get_args(annotation) if get_origin(annotation) is not None and (mark := _mark(part))), ""
    )


def names(scenario: object) -> Iterator[tuple[KeyPath, str]]:
    """Every data file (or folder of some) that the scenario names, with the key that names it; no other folders."""
    return ((path, name) for path, name, _ in _fields(scenario))


def absent(scenario: Any) -> Iterator[tuple[KeyPath, str]]:
    """Those of them that are not there."""
    for path, name, mark in _fields(scenario):
        place = scenario.file(name)
        if not (os.path.isfile(place) or (mark == DATA_TREE and os.path.isdir(place))):
            yield path, name


def _fields(scenario: object) -> Iterator[tuple[KeyPath, str, str]]:
    for path, plugin in walk(scenario):
        cls: type = type(plugin)
        for field, mark in path_fields(cls).items():
            if mark != DATA_FOLDER:
                yield from ((*each, mark) for each in _names(getattr(plugin, field), (*path, field)))


def _names(value: object, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _names(item, (*path, index))


def rename_files(scenario: Any, rename: Callable[[str, str], str]) -> Any:
    """The scenario with every data file or folder renamed: ``change(name, mark)``."""

    def each(value: object, mark: str) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(each(item, mark) for item in value)
        return rename(value, mark) if isinstance(value, str) else value

    def plugin(value: Any) -> Any:
        cls: type = type(value)
        marks = path_fields(cls)
        return (
            replace(value, **{name: each(getattr(value, name), mark) for name, mark in marks.items()})
            if marks
            else value
        )

    return replace_plugins(scenario, plugin)


def find(name: str, home: Path) -> Path:
    """Where the file called ``name`` is: beside ``home``'s files, or else in the data folder if it is there."""
    beside = home / name
    if not os.path.isabs(name) and not os.path.exists(beside):
        root = data_root()
        if root is not None and os.path.exists(root / name):
            return root / name
    return beside


def seen_from(name: str, home: Path, folder: Path) -> str:
    """The name, relative to ``folder``, of a file that is called ``name`` relative to ``home``."""
    beside = home / name
    if os.path.isabs(name) or not os.path.exists(beside) or home.resolve() == folder.resolve():
        return name
    return Path(os.path.relpath(beside.resolve(), folder.resolve())).as_posix()


def content(path: Path) -> str:
    """``sha256:`` and the digest of a file; of a folder, that of the names and digests of the files in it.

    Raises:
        OSError: it cannot be read.
    """
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        inside = "\n".join(f"{file.relative_to(path).as_posix()} {content(file)}" for file in files)
        return f"sha256:{sha256(inside.encode('utf-8', 'surrogateescape')).hexdigest()}"
    if not path.is_file():  # a pipe or a device has no end
        raise FileNotFoundError(f"{path} is not a file")
    with open(path, "rb") as file:
        return f"sha256:{file_digest(file, 'sha256').hexdigest()}"
