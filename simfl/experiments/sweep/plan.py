"""A sweep before it runs: every member with its scenario, validated, in a fixed order."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfl.core.errors import ScenarioError, SimflError
from simfl.core.json_data import JsonObject, number_of
from simfl.experiments.sweep.grid import CASE, Axis, combinations, count
from simfl.experiments.sweep.plugin_pickling import pack
from simfl.learning.objects.choice import handed_in
from simfl.scenario import InvalidScenario, Scenario
from simfl.scenario.digest import foreign_plugins
from simfl.scenario.yaml.writer import as_data, dump

if TYPE_CHECKING:
    from simfl.learning.objects.handles import Handle

Given = Path | str | Mapping[str, Any] | Scenario
"""A scenario file, a mapping with the keys of one, or a scenario."""

Load = Callable[[Sequence[str]], Scenario]
"""The scenario with some ``key=value`` overrides applied."""

SHOWN = 20
DIGEST_DIGITS = 12


@dataclass(frozen=True)
class Member:
    """One run of a sweep.

    Attributes:
        values: its value of each axis, as text.
        seed: its seed.
        digest: of its scenario.
        scenario: the resolved scenario as YAML.
    """

    values: tuple[str, ...]
    seed: int
    digest: str
    scenario: str


@dataclass(frozen=True)
class Plan:
    """All runs of a sweep.

    Attributes:
        name: the scenarios' common name.
        file: where they were read, as the user named it.
        folder: what their data files are relative to, absolute.
        axes: what varies.
        replications: seeds for each combination of values.
        members: sorted by their values (numbers before words), then by seed.
        plugins: what their workers must be given, see :mod:`simfl.experiments.sweep.plugin_pickling`.
        base: how ``sweep.yaml`` names the scenario and further plugin files.
        objects: handles of the Python objects that were handed in, as far as they are here.
    """

    name: str
    file: str
    folder: Path
    axes: tuple[Axis, ...]
    replications: int
    members: tuple[Member, ...]
    plugins: str = ""
    base: JsonObject = field(default_factory=dict)
    objects: "tuple[Handle, ...]" = ()

    @cached_property
    def digest(self) -> str:
        """12 hex digits that depend on the keys, their values and every member's scenario."""
        runs = [(member.digest, member.seed, member.values) for member in self.members]
        content = [self.name, [(axis.key, axis.values) for axis in self.axes], self.replications, runs]
        text = json.dumps(content, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]

    def to_yaml(self) -> str:
        """The sweep's definition, the content of ``sweep.yaml``, which runs it again."""
        parts: JsonObject = {
            "keys": {axis.key: list(axis.values) for axis in self.axes if axis.key != CASE},
            "zip": [group.split(",") for group in dict.fromkeys(axis.group for axis in self.axes) if group],
            "cases": {name: dict(text.split("=", 1) for text in overrides)
                      for axis in self.axes for name, overrides in zip(axis.values, axis.overrides)},
        }  # fmt: skip
        content = {"name": self.name, **self.base, **{key: value for key, value in parts.items() if value},
                   "replications": self.replications, "runs": len(self.members), "digest": self.digest}  # fmt: skip
        return dump(content)

    def label(self, member: Member) -> str:
        """A member in words, as overrides."""
        return _label(self.axes, member.values, member.seed)


def source(scenario: Given, plugins: Sequence[Path] = ()) -> tuple[str, Load]:
    """How messages call a scenario, and how to read it with overrides.

    Args:
        scenario: a YAML file, a mapping with the keys of one, or a scenario that was read already.
        plugins: further plugin files, as seen from the working directory.

    Raises:
        SimflError: it is none of these.
    """
    if isinstance(scenario, Mapping):
        return "scenario", lambda overrides: Scenario.of(scenario, overrides=overrides, plugins=plugins)
    if not isinstance(scenario, (Scenario, str, Path)):
        kind = type(scenario).__name__
        raise SimflError(f"a scenario is the path of a file, a built-in name or a mapping (got {kind}); models and "
                         "data are overrides: simfl.run('quickstart', {'learning.model': net})")  # fmt: skip
    if not isinstance(scenario, Scenario):
        return str(scenario), lambda overrides: Scenario.load(scenario, overrides, plugins)
    text, name, folder = scenario.to_yaml(), scenario.name, scenario.source.folder
    return name, lambda overrides: Scenario.parse(text, name, overrides, folder, plugins)


def plan_sweep(scenario: Given, axes: tuple[Axis, ...], replications: int = 1, plugins: Sequence[Path] = ()) -> Plan:
    """Expands a grid and validates every member.

    Args:
        scenario: what is swept.
        axes: keys and their values; the members are their product.
        replications: with the seeds ``seed``, ``seed + 1``, ... of each member.
        plugins: further plugin files, as seen from the working directory.

    Raises:
        SimflError: members are invalid (all problems, with the members they are in), or are the same run.
    """
    if replications < 1:
        raise SimflError(f"replications: at least 1 (got {replications})")
    runs = replications * count(axes)
    if runs > MOST:
        raise SimflError(f"a sweep of {runs} runs; at most {MOST} fit into one: give fewer values or replications")
    file, load = source(scenario, plugins)
    read = _Reading(axes, load)
    for values in combinations(axes):
        read.members(values, replications)
    members = read.sorted_members(file)
    base = _base(scenario, file, plugins)
    return Plan(
        read.name, file, read.folder.resolve(), axes, replications, members, pack(read.foreign), base, read.handles()
    )


def _base(scenario: Given, file: str, plugins: Sequence[Path]) -> JsonObject:
    """How a sweep file names the scenario and the plugin files."""
    named = {"plugins": list(map(str, plugins))} if plugins else {}
    if isinstance(scenario, Scenario):
        return {"scenario": scenario.plain(Path()), **named}
    if isinstance(scenario, Mapping):
        return {"scenario": as_data(scenario), **named}
    return {"file": file, **named}


MOST = 100_000
"""Runs of a sweep; each is read and checked before the first one begins, at a few hundred a second."""


_NUMBER = re.compile(r"\d[\d.,]*")
"""Problems that differ in their numbers only are told once, for the first member that has them."""


class _Reading:
    """Reads members and collects what is wrong with them."""

    def __init__(self, axes: tuple[Axis, ...], load: Load) -> None:
        self.axes, self.load = axes, load
        self.by_digest: dict[str, Member] = {}
        self.wrong: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        self.tried = 0
        self.name, self.folder = "", Path()
        self.foreign: set[type] = set()
        self.marks: dict[str, None] = {}

    def members(self, values: tuple[str, ...], replications: int) -> None:
        overrides = [text for axis, value in zip(self.axes, values, strict=True) for text in axis.overrides_of(value)]
        first = self.member(values, overrides)
        if first is not None:
            for seed in range(first.seed + 1, first.seed + replications):
                self.member(values, [*overrides, f"seed={seed}"])

    def member(self, values: tuple[str, ...], overrides: list[str]) -> Member | None:
        self.tried += 1
        try:
            scenario = self.load(overrides)
            member = Member(values, scenario.seed, scenario.digest, scenario.to_yaml())
        except InvalidScenario as error:
            for problem in error.problems:
                self.wrong[problem.key, _NUMBER.sub("N", problem.message)].append((" ".join(overrides), str(problem)))
            return None
        except ScenarioError as error:
            self.wrong[error.key, _NUMBER.sub("N", error.message)].append(
                (" ".join(overrides), str(scenario.locate(error)))
            )
            return None
        if member.digest in self.by_digest:
            same = _label(self.axes, self.by_digest[member.digest].values, self.by_digest[member.digest].seed)
            raise SimflError(f"two members are the same run: {same} and {_label(self.axes, values, member.seed)}")
        if self.name not in ("", scenario.name):
            raise SimflError("name: all runs of a sweep have one name, for they share a folder")
        self.name, self.folder = scenario.name, scenario.source.folder
        self.foreign.update(foreign_plugins(scenario))
        self.marks |= dict.fromkeys(part.fingerprint or "" for part in handed_in(scenario.learning))
        self.by_digest[member.digest] = member
        return member

    def handles(self) -> "tuple[Handle, ...]":
        """Of the objects that were handed in for the members."""
        if not self.marks:
            return ()
        from simfl.learning.objects.handles import find

        return tuple(handle for mark in self.marks if (handle := find(mark)) is not None)

    def sorted_members(self, file: str) -> tuple[Member, ...]:
        if not self.wrong:
            return tuple(sorted(self.by_digest.values(), key=lambda member: (*map(order, member.values), member.seed)))
        lines = []
        for members in list(self.wrong.values())[:SHOWN]:
            overrides, problem = members[0]
            others = f" and {len(members) - 1} more" if len(members) > 1 else ""
            lines.append(problem if len(members) == self.tried else f"member {overrides}{others}: {problem}")
        more = len(self.wrong) - SHOWN
        raise SimflError("\n".join([*lines, f"... and {more} more problems"] if more > 0 else lines))


def _label(axes: Sequence[Axis], values: Sequence[str], seed: int) -> str:
    shown = [f"{axis.key}={value}" for axis, value in zip(axes, values, strict=True) if axis.key != "seed"]
    return " ".join([*shown, f"seed={seed}"])


def order(value: str) -> Any:
    """Sort key of values: numbers by size, then words."""
    number = number_of(value, math.inf)
    return (0, number, value) if math.isfinite(number) else (1, 0.0, value)
