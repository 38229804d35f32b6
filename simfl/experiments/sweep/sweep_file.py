"""A sweep as a file: ``simfl sweep sweep.yaml``. Every sweep writes one into its folder, which runs it again.

::

    file: quickstart                     # a scenario file or built-in scenario; or its keys under ``scenario:``
    keys:
      selection: [random, batch_partition:T=4]
      training.rounds: 10:30:10
    zip: [[selection.k, training.deadline_s]]
    cases:
      slow: {devices.computation: 3.0}
      fast: {}
    replications: 5
    plugins: [mine.py]

``name``, ``runs`` and ``digest`` are written for readers; ``digest`` tells whether it is still the same sweep.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simfl.core.errors import IntegrityError, SimflError, suggestion
from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import open_regular
from simfl.experiments.sweep.grid import (
    CASE,
    Axis,
    case_axis,
    cases_of,
    check_axes,
    group_axes,
    parse_mapping,
    refuse_overlap,
    several,
)
from simfl.experiments.sweep.plan import Given, Plan
from simfl.results.file_names import CONTENTS
from simfl.results.folder import ResultsFolder
from simfl.scenario.builtin import FOLDER, SUFFIXES, find
from simfl.scenario.yaml.places import InvalidScenario, Problem, dotted_key
from simfl.scenario.yaml.reader import MAX_BYTES, Document, decode, read

KEYS = ("name", "file", "scenario", "keys", "zip", "cases", "replications", "plugins", "runs", "digest")
ONLY_SWEEPS = {"keys", "cases", "zip", "file", "scenario"}
"""Keys that no scenario file has."""


@dataclass(frozen=True)
class SweepRequest:
    """What is asked of a sweep, before a plan is made of it.

    Attributes:
        scenario: what is swept.
        axes: what varies, not yet checked to fit together.
        replications: None = not said.
        plugins: further plugin files.
        digest: of the sweep that wrote the file.
        file: the sweep file, where there is one.
    """

    scenario: Given
    axes: tuple[Axis, ...]
    replications: int | None = None
    plugins: tuple[Path, ...] = ()
    digest: str = ""
    file: str = ""

    def change_note(self, plan: Plan) -> str:
        """In words, that the file was written by another sweep than the plan; nothing where it was not."""
        if self.digest in ("", plan.digest):
            return ""
        return f"{self.file} was written by sweep-{self.digest}; scenario or simfl have changed since"


def request(
    scenario: Given,
    new_axes: Sequence[Axis],
    groups: Iterable[Sequence[str]] = (),
    cases: Mapping[str, Sequence[str]] | None = None,
    replications: int | None = None,
    plugins: Sequence[Path] = (),
) -> SweepRequest:
    """What is asked for: of a scenario, or of a sweep file, in which what is given besides replaces what it says.

    Args:
        scenario: what is swept, or a sweep file.
        new_axes: not yet checked.
        groups: keys that move together.
        cases: named cases with their overrides.
        replications: None = what the file says.
        plugins: further plugin files.

    Raises:
        SimflError: the axes do not fit together.
        InvalidScenario: the sweep file is wrong.
    """
    base = read_sweep_file(scenario) if isinstance(scenario, (str, Path)) else None
    base = base or SweepRequest(scenario, ())
    new = [case_axis(cases)] if cases else []
    by_key = {axis.key: axis for axis in (*new, *base.axes)} | {axis.key: axis for axis in new}
    for axis in new_axes:
        if axis.key == CASE:
            raise SimflError("case: named cases are given with --case, or cases= in Python")
        by_key[axis.key] = replace(axis, group=by_key[axis.key].group if axis.key in by_key else "")
    axes = check_axes(group_axes([*by_key.values()], groups))
    refuse_overlap(axes)
    wanted = base.replications if replications is None else replications
    same = axes == base.axes and wanted == base.replications
    return replace(base, axes=axes, replications=wanted, plugins=(*base.plugins, *plugins),
                   digest=base.digest if same else "")  # fmt: skip


def read_sweep_file(path: Path | str) -> SweepRequest | None:
    """The sweep that a file describes; None where it is no sweep file.

    Raises:
        InvalidScenario: something is wrong with it.
        IntegrityError: a sweep's folder holds another file under this name than the sweep wrote.
    """
    file = Path(path)
    if file.suffix not in SUFFIXES or not file.is_file():
        return None
    if (file.parent / CONTENTS).exists() and file.name in (results := ResultsFolder.open_sweep(file.parent)):
        try:
            results.file(file.name)
        except IntegrityError as error:
            raise IntegrityError(f"{error}; for another sweep, change a copy outside {file.parent}") from None
    try:
        with open_regular(file) as opened:
            document = read(decode(opened.read(MAX_BYTES + 1)), str(path))
    except (OSError, ValueError):
        return None  # who reads it as a scenario says what is wrong
    if not isinstance(document.value, dict) or not ONLY_SWEEPS & document.value.keys():
        return None
    if document.problems:
        raise InvalidScenario(document.problems)
    return _SweepFile(document, file).request()


class _SweepFile:
    """Reads the parts of a sweep file; what is wrong is said with its place."""

    def __init__(self, document: Document, file: Path) -> None:
        self.document, self.file = document, file
        self.data: JsonObject = document.value

    def request(self) -> SweepRequest:
        if "search" in self.data:
            raise self.problem(
                ("search",), "this file describes a search; the same simfl search continues it", key=True
            )
        for key in self.data:
            if key not in KEYS:
                known = suggestion(key, KEYS) or f"; a sweep file has {', '.join(KEYS)}"
                raise self.problem((key,), f"unknown key {key!r}{known}", key=True)
        keys = self.part("keys", dict, {})
        axes: tuple[Axis, ...] = ()
        for key, values in keys.items():
            try:
                axes += parse_mapping({key: values})
            except SimflError as error:
                raise self.problem(("keys", key), str(error).removeprefix(f"{key}: ")) from None
        try:
            cases = cases_of(self.part("cases", dict, {}))
            axes = ((case_axis(cases),) if cases else ()) + axes
        except SimflError as error:
            raise self.problem(("cases",), str(error)) from None
        groups = self.part("zip", list, [])
        if not all(isinstance(group, list) and all(isinstance(key, str) for key in group) for group in groups):
            raise self.problem(("zip",), "a list of lists of keys that move together, e.g. [[selection.k, seed]]")
        try:
            axes = group_axes(axes, groups)
        except SimflError as error:
            raise self.problem(("zip",), str(error).removeprefix("zip: ")) from None
        plugins = [self.path(("plugins",), name) for name in several(self.part("plugins", list, []))]
        replications, digest = self.part("replications", int, None), str(self.data.get("digest", ""))
        return SweepRequest(self.scenario(), axes, replications, tuple(plugins), digest, str(self.file))

    def scenario(self) -> Given:
        if ("file" in self.data) == ("scenario" in self.data):
            raise self.problem((), "a sweep file names a scenario: 'file: NAME', or its keys under 'scenario:'")
        if "scenario" in self.data:
            return self.part("scenario", dict, {})
        return self.path(("file",), self.part("file", str, ""))

    def path(self, at: tuple[str, ...], name: object) -> Path:
        """A file beside this one or, if there is none, as seen from the working directory."""
        if not isinstance(name, str):
            raise self.problem(at, f"the name of a file (got {name!r})")
        for folder in (self.file.parent, Path()):
            if (path := find(name, folder).path).is_file():
                return Path(name) if path.parent == FOLDER else path  # built in: a file of that name comes first
        raise self.problem(at, f"{name}: no such file, neither beside this one nor in the working directory")

    def part(self, key: str, kind: type, default: Any) -> Any:
        value = self.data.get(key, default)
        if key in self.data and (not isinstance(value, kind) or isinstance(value, bool)):
            words = {dict: "a mapping", list: "a list", int: "a whole number", str: "a text"}[kind]
            raise self.problem((key,), f"Input should be {words} (got {value!r})")
        return value

    def problem(self, path: tuple[str, ...], message: str, key: bool = False) -> InvalidScenario:
        return InvalidScenario([Problem(self.document.places.of(path, key), dotted_key(path), message)])
