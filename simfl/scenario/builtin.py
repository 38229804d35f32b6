"""Which file a scenario's name means: one that is there, or one that comes with simfl.

They are the checkout's ``scenarios/``; where simfl is installed, a folder of the package holds them (``setup.py``).
"""

import re
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from simfl.core.errors import nearest

INSTALLED = Path(__file__).parent / "builtin_files"
FOLDER = INSTALLED if INSTALLED.is_dir() else Path(__file__).parents[2] / "scenarios"
SUFFIXES = (".yaml", ".yml")

KEYS = {
    **{family: family for family in ("selection", "training", "secagg", "network")},
    **{family: f"learning.{family}" for family in ("data", "model", "partition")},
    "client": "training.client", "personal": "training.personal", "availability": "devices.availability",
}  # fmt: skip
"""Families whose plugins may be taken for scenarios, and their keys."""


@dataclass(frozen=True)
class ScenarioFile:
    """The file that a name means.

    Attributes:
        path: of the file.
        source: how messages call it.
        folder: what its relative files are relative to; the working directory for a built-in scenario.
    """

    path: Path
    source: str
    folder: Path


def builtins() -> list[str]:
    """The names of the scenarios that come with simfl, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def about(name: str) -> str:
    """What a built-in scenario shows: the first sentence of the comment at its top, without commands."""
    lines = find(name).path.read_text(encoding="utf-8").splitlines()
    comment = takewhile(lambda line: line.startswith("#"), lines)
    text = " ".join(line.lstrip("# ") for line in comment if not line.startswith("#   "))
    return re.split(r"(?<=\.) (?=[A-Z0-9])", text)[0]


def find(name: Path | str, folder: Path = Path()) -> ScenarioFile:
    """The scenario file that is meant by a name; what is there as a file wins over what is built in.

    Args:
        name: of a file, with or without its suffix, or of a built-in scenario.
        folder: what a relative name is relative to.
    """
    path = folder / name
    if Path(name).name == str(name) and not path.suffix and (path.is_dir() or not path.exists()):
        for suffix in SUFFIXES:
            if (file := path.with_suffix(suffix)).is_file():
                return ScenarioFile(file, str(file), file.parent)
        if path.name in builtins():
            return ScenarioFile(FOLDER / f"{path.name}.yaml", f"built-in {path.name}", Path())
    return ScenarioFile(path, str(path), path.parent)


def folder_instead(path: Path) -> str:
    """Says that a folder is no scenario, and which file of it is one."""
    inside = path / "scenario.yaml"
    return "is a folder, not a scenario file" + (f"; did you mean {str(inside)!r}?" if inside.is_file() else "")


def no_such(path: Path) -> str:
    """Says that there is no such scenario, and which one may have been meant."""
    if "=" in path.name:
        return "no such file; the scenario stands first, before key=value: simfl run FILE key=value"
    if not path.suffix and (key := _key_of(path.name)):
        return f"no such file; {path.name!r} is a value of {key}, e.g. quickstart {key}={path.name}"
    near = None
    if path.stem not in builtins():  # away from the checkout, scenarios/quickstart.yaml is quickstart
        folder = path.parent
        files = folder.iterdir() if folder.is_dir() else ()
        others = [item.name for item in files if item.suffix in SUFFIXES and item.is_file()]  # no link to nowhere
        known = others if path.suffix else [Path(name).stem for name in others]
        near = nearest(path.name, sorted(known))
        if near == path.name and not path.suffix:  # only a bare name is looked for with a suffix
            near = next(name for name in sorted(others) if Path(name).stem == near)
        near = near and str(folder / near)
    near = near or nearest(path.stem, builtins())
    listed = "" if path.suffix else f"; built in are {', '.join(builtins())}"
    return "no such file" + (f"; did you mean {near!r}?" if near else listed)


def _key_of(word: str) -> str | None:
    """The key of a scenario whose value a word is, e.g. of a data set or a policy."""
    from simfl.core.registration.family_index import FAMILIES  # names of scenarios are completed without it

    return next((key for family, key in KEYS.items() if family in FAMILIES and word in FAMILIES[family]), None)
