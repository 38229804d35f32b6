"""What a report is about: finished runs, grouped where only the seed differs. Read from results folders, lazily."""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfl.core.certificate_words import (
    OF_ONE_RUN,
    ONLY_SUMS,
    assumptions,
    basis_lines,
    promises,
    said_of,
    unite_columns,
)
from simfl.core.columns import Column
from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject, number_of
from simfl.experiments.compare.differences import HIDES
from simfl.experiments.compare.run_numbers import measures_of, to_target
from simfl.experiments.compare.worlds import is_choice, world_name
from simfl.results.file_names import ACCURACIES, CLIENTS, FINDINGS, LATENCY, SCENARIO
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import as_printed, html_table, participation_matrix, read_table

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Run:
    """A finished run; its tables are read, and checked, when first asked for."""

    results: ResultsFolder

    @classmethod
    def open(cls, path: Path) -> "Run":
        """
        Raises:
            SimflError: the folder holds no finished run.
            IntegrityError: its summary is damaged.
        """
        return cls(ResultsFolder.open(path))

    @property
    def path(self) -> Path:
        """The folder."""
        return self.results.path

    @property
    def summary(self) -> JsonObject:
        """The contents of ``summary.json``."""
        return self.results.summary

    @property
    def seed(self) -> int:
        return int(self.summary["seed"])

    @property
    def digest(self) -> str:
        return str(self.summary["digest"])

    @property
    def clients(self) -> int:
        """Number of clients."""
        return int(self.summary["clients"])

    @cached_property
    def finals(self) -> dict[str, float]:
        """The summary's numbers, by name."""
        return measures_of(self.results)

    @property
    def diverged_round(self) -> int | None:
        """The first round with a loss that is no finite number; None where there is none."""
        return self.summary.get("diverged_round")

    @cached_property
    def columns(self) -> dict[str, Column]:
        """What its numbers mean, by name."""
        return self.results.columns()

    @property
    def takes_sums_for_granted(self) -> bool:
        """Whether its certificates hold only if nothing but sums is seen, which no protocol saw to."""
        return any(ONLY_SUMS in assumptions(column) for name, column in self.columns.items() if name in self.finals)

    def to_target(self, target: float) -> dict[str, float]:
        """Time, rounds and bytes to a target accuracy; nothing where it is never reached."""
        if target not in self._to_target:
            self._to_target[target] = to_target(self.results.file("rounds.csv"), target)
        return self._to_target[target]

    @cached_property
    def _to_target(self) -> dict[float, dict[str, float]]:
        return {}

    @cached_property
    def text(self) -> str:
        """The resolved scenario, YAML."""
        return self.results.file(SCENARIO).read_text(encoding="utf-8")

    @cached_property
    def scenario(self) -> JsonObject:
        """The resolved scenario as plain data."""
        from simfl.scenario.yaml.reader import read

        value = read(self.text, str(self.path / SCENARIO)).value
        if not isinstance(value, dict):
            raise SimflError(f"{self.path / SCENARIO}: not a scenario")
        return value

    @cached_property
    def rounds(self) -> "DataFrame":
        """``rounds.csv``."""
        return read_table(self.results.file("rounds.csv"))

    @cached_property
    def participation(self) -> Any:
        """The participation matrix, scipy CSR array of shape (rounds, clients)."""
        return participation_matrix(self.results.file("participation.csv"), len(self.rounds), self.clients)

    @cached_property
    def jobs(self) -> "DataFrame | None":
        """``jobs.csv`` of an asynchronous run, else None."""
        return read_table(self.results.file("jobs.csv")) if "jobs.csv" in self.results else None

    @cached_property
    def phases(self) -> "DataFrame | None":
        """``phases.csv`` of a run with an aggregation protocol that has phases, else None."""
        return read_table(self.results.file("phases.csv")) if "phases.csv" in self.results else None

    @cached_property
    def clients_table(self) -> "DataFrame":
        """``clients.csv``: client, name, samples, latency_s, perhaps links_down and links_up, and a column for each
        label; empty where the run has left it out.

        See :func:`simfl.runs.clients_table.clients_files`.
        """
        import pandas

        if (name := self.results.table(CLIENTS)) not in self.results:
            return pandas.DataFrame()
        return pandas.read_csv(self.results.file(name), dtype={"name": str}, keep_default_na=False)

    @cached_property
    def accuracies(self) -> "DataFrame | None":
        """``accuracies.csv``: client, accuracy, trained, best if asked for; None if not measured."""
        name = self.results.table(ACCURACIES)
        return read_table(self.results.file(name)) if name in self.results else None

    @cached_property
    def latency(self) -> "DataFrame | None":
        """``latency.csv``: from, to, latency_s for every two of few clients and the server (-1), else None."""
        return read_table(self.results.file(LATENCY)) if LATENCY in self.results else None

    @cached_property
    def attack_findings(self) -> list[JsonObject]:
        """What came of the run's attacks: ``findings.json``, empty where there is none."""
        if FINDINGS not in self.results:
            return []
        return json.loads(self.results.read(FINDINGS))

    @cached_property
    def events(self) -> Path | None:
        """``events.jsonl`` where the run recorded it."""
        return self.results.file("events.jsonl") if "events.jsonl" in self.results else None


COLOURED = 14
"""Groups that get a colour and line style of their own; of more, only the most accurate ones do."""

EMPHASISED = 6


@dataclass(frozen=True)
class PlannedRun:
    """A run that was planned, whatever became of it.

    Attributes:
        digest: names its folder.
        values: its value of each of the study's axes.
        status: ``done``, ``failed``, ``open`` (not finished) or ``gone`` (finished, but its folder is missing).
    """

    digest: str
    values: dict[str, str]
    seed: int
    status: str
    error: str | None = None
    run: Run | None = None


@dataclass(frozen=True)
class Group:
    """Finished runs that differ in nothing but their seed.

    Attributes:
        label: a short name, unique in the study.
        values: its value of each of the study's axes, as text.
        runs: ascending by seed, at least one.
        number: of its colour and line style; None = drawn in grey, without a name.
    """

    label: str
    values: dict[str, str]
    runs: tuple[Run, ...]
    number: int | None = None

    @property
    def first(self) -> Run:
        return self.runs[0]

    def promises(self, others: Collection[str] = ()) -> dict[str, list[str]]:
        """What stands beside its certificates, by name; nothing beside ``others`` that are none here."""
        return promises(unite_columns(c for run in self.runs for c in run.columns.values()).values(), others)

    @property
    def hides(self) -> bool:
        """Whether a protocol hides single updates in sums."""
        return any(HIDES in run.finals or run.phases is not None for run in self.runs)


@dataclass(frozen=True)
class Study:
    """One run, several seeds of it, a comparison or a sweep.

    Attributes:
        axes: dotted keys that vary, apart from the seed.
        groups: in the order in which they are shown.
        members: every planned run, failed and unfinished ones too.
        baseline: label of the group that others are compared with.
        target: test accuracy to which time and rounds are told; None = one that the baseline's runs say.
        target_rule: in words, what it is.
        chosen: the axes that are no world, as a comparison was told; None = what a server decides.
    """

    title: str
    axes: tuple[str, ...]
    groups: tuple[Group, ...]
    members: tuple[PlannedRun, ...] = field(repr=False)
    baseline: str
    target: float | None = None
    target_rule: str = ""
    chosen: tuple[str, ...] | None = None

    @property
    def kind(self) -> str:
        """``run``, ``replications``, ``comparison`` or ``sweep``."""
        if len(self.groups) == 1:
            return "run" if len(self.groups[0].runs) == 1 else "replications"
        return "sweep" if self.numeric_axes or len(self.groups) > COLOURED else "comparison"

    @property
    def single(self) -> bool:
        """Whether there is nothing to compare."""
        return len(self.groups) == 1

    @property
    def choosable(self) -> bool:
        """Whether the groups differ in what a server can choose, not in their devices, network or data."""
        return not self.single and not self._met

    @property
    def _met(self) -> list[str]:
        """The axes that are the world."""
        return [axis for axis in self.axes if not (is_choice(axis) if self.chosen is None else axis in self.chosen)]

    def worlds(self) -> "dict[str, Study]":
        """By what nobody chooses, the studies of those groups that meet the same, each called by its choice; none where
        nothing is chosen.
        """
        chosen = tuple(axis for axis in self.axes if axis not in self._met)
        if len(self.by_world) < 2:
            return {}
        return {
            name: replace(
                self, axes=chosen, baseline=self.choice_of(self.rival_baseline(groups[0])),
                groups=tuple(replace(group, label=self.choice_of(group)) for group in groups),
            )
            for name, groups in self.by_world.items()
        }  # fmt: skip

    @cached_property
    def by_world(self) -> dict[str, tuple[Group, ...]]:
        """The groups that meet the same, by what that is; all of them, called "", where there is no choice or one world
        only.
        """
        met = self._met
        if not met or len(met) == len(self.axes):
            return {"": self.groups}
        worlds: dict[str, tuple[Group, ...]] = {}
        for group in self.groups:
            name = world_name({axis: group.values[axis] for axis in met})
            worlds[name] = (*worlds.get(name, ()), group)
        return worlds

    def choice_of(self, group: Group) -> str:
        """What a group has that is chosen, its name within its world; its label where there is one world."""
        if len(self.by_world) < 2:
            return group.label
        return " / ".join(group.values[axis] for axis in self.axes if axis not in self._met)

    def rival_baseline(self, group: Group) -> Group:
        """What a group is compared with: of the groups that meet the same, the one with the baseline's choice."""
        rivals = next(groups for groups in self.by_world.values() if group in groups)
        choice = self.choice_of(self.group(self.baseline))
        return next((each for each in rivals if self.choice_of(each) == choice), rivals[0])

    @property
    def comparable(self) -> bool:
        """Whether one group can be better than another: they learn from the same data, in the same scenario."""
        names = {run.summary.get("name") for run in self.runs}
        return len(names) == 1 and not any((axis + ".").startswith("learning.data.") for axis in self.axes)

    @property
    def seeds(self) -> int:
        """Runs of the group that has most."""
        return max(len(group.runs) for group in self.groups)

    @property
    def numeric_axes(self) -> tuple[str, ...]:
        """Axes all of whose values are numbers, at least two of them."""
        return tuple(
            a for a in self.axes if len(values := self._values(a)) > 1 and all(number(v) is not None for v in values)
        )

    def _values(self, axis: str) -> set[str]:
        return {group.values[axis] for group in self.groups}

    @property
    def runs(self) -> Iterator[Run]:
        """All finished runs."""
        return (run for group in self.groups for run in group.runs)

    def _repr_html_(self) -> str:
        from pandas import DataFrame

        known = {name: column for name, column in self.columns.items() if column.shown}
        rows = [
            {"group": group.label, "seed": run.seed, **{name: v for name, v in run.finals.items() if name in known}}
            for group in self.groups
            for run in group.runs
        ]
        frame = DataFrame(rows).dropna(axis=1, how="all")
        notes = self.certificate_notes(known[name] for name in frame.columns if name in known)
        return html_table(f"{self.title}: {self.kind}", as_printed(frame, known), " ".join(notes))

    def certificate_notes(self, columns: Iterable[Column]) -> list[str]:
        """What stands beside the certificates among some columns, and of which groups only sums count as seen."""
        assumed = [group.label for group in self.groups if any(run.takes_sums_for_granted for run in group.runs)]
        lines = basis_lines(columns)
        several = [OF_ONE_RUN] if len(self.groups) > 1 or len(self.groups[0].runs) > 1 else []
        return [*lines, *several, *said_of(assumed, [group.label for group in self.groups])] if lines else []

    @cached_property
    def columns(self) -> dict[str, Column]:
        """What the runs' numbers mean, by name; no certificate is better than one that says another thing."""
        return unite_columns(column for run in self.runs for column in run.columns.values())

    def group(self, label: str) -> Group:
        """The group of a label."""
        return next(group for group in self.groups if group.label == label)


def most_clients(study: Study) -> int:
    """Clients of the largest of a study's federations."""
    return max(run.clients for run in study.runs)


def eligible(group: Group) -> bool:
    """Whether a group may be the best of some: it has aggregated something, and none of its runs has diverged."""
    untrained = ("skipped" in run.finals and run.finals["skipped"] == run.finals.get("rounds") for run in group.runs)
    return not all(untrained) and all(run.diverged_round is None for run in group.runs)


def number(text: str) -> float | None:
    """The finite number that a text is, or None."""
    value = number_of(text, nan)
    return value if isfinite(value) else None
