"""What a report is about: runs, grouped where only the seed differs. Read from results folders, lazily."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfl.columns import Column
from simfl.compare.beside_plain import HIDES
from simfl.compare.measures import measures, to_target
from simfl.errors import SimflError
from simfl.results import participation_matrix, read_table
from simfl.stored import ACCURACIES, CLIENTS, FINDINGS, LATENCY, SCENARIO, Stored
from simfl.tidy import html_table

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Group", "Member", "Run", "Study", "eligible", "number", "untrained"]

COLOURED = 14
"""Groups that get a colour and line style of their own; of more, only the most accurate ones do."""

EMPHASISED = 6

CHOICES = {"selection", "training", "secagg", "privacy"}
"""Top-level keys of a scenario that its server decides."""


@dataclass(frozen=True)
class Run:
    """A finished run; its tables are read, and checked, when first asked for.

    Attributes:
        stored: its folder.
    """

    stored: Stored

    @classmethod
    def open(cls, path: Path) -> "Run":
        """
        Raises:
            SimflError: the folder holds no finished run.
            IntegrityError: its summary is damaged.
        """
        return cls(Stored.open(path))

    @property
    def path(self) -> Path:
        """The folder."""
        return self.stored.path

    @property
    def summary(self) -> dict[str, Any]:
        """The contents of ``summary.json``."""
        return self.stored.summary

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
        return measures(self.summary)

    @property
    def diverged(self) -> int | None:
        """The first round with a loss that is no finite number; None where there is none."""
        found: int | None = self.summary.get("diverged_round")
        return found

    @cached_property
    def columns(self) -> dict[str, Column]:
        """What its numbers mean, by name."""
        return self.stored.columns()

    def reached(self, target: float) -> dict[str, float]:
        """Time, rounds and bytes to a target accuracy; nothing where it is never reached."""
        if target not in self._reached:
            self._reached[target] = to_target(self.stored.file("rounds.csv"), target)
        return self._reached[target]

    @cached_property
    def _reached(self) -> dict[float, dict[str, float]]:
        return {}

    @cached_property
    def text(self) -> str:
        """The resolved scenario, YAML."""
        return self.stored.file(SCENARIO).read_text(encoding="utf-8")

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """The resolved scenario as plain data."""
        from simfl.scenario.reader import read

        value = read(self.text, str(self.path / SCENARIO)).value
        if not isinstance(value, dict):
            raise SimflError(f"{self.path / SCENARIO}: not a scenario")
        return value

    @cached_property
    def rounds(self) -> "DataFrame":
        """``rounds.csv``."""
        return read_table(self.stored.file("rounds.csv"))

    @cached_property
    def participation(self) -> Any:
        """The participation matrix, scipy CSR array of shape (rounds, clients)."""
        return participation_matrix(self.stored.file("participation.csv"), len(self.rounds), self.clients)

    @cached_property
    def jobs(self) -> "DataFrame | None":
        """``jobs.csv`` of an asynchronous run, else None."""
        return read_table(self.stored.file("jobs.csv")) if "jobs.csv" in self.stored else None

    @cached_property
    def phases(self) -> "DataFrame | None":
        """``phases.csv`` of a run with an aggregation protocol that has phases, else None."""
        return read_table(self.stored.file("phases.csv")) if "phases.csv" in self.stored else None

    @cached_property
    def clients_table(self) -> "DataFrame":
        """``clients.csv``: client, name, samples, latency_s and a column for each label; empty for very many clients.

        See :func:`simfl.clients.write_clients`.
        """
        import pandas

        if CLIENTS not in self.stored:
            return pandas.DataFrame()
        return pandas.read_csv(self.stored.file(CLIENTS), dtype={"name": str}, keep_default_na=False)

    @cached_property
    def accuracies(self) -> "DataFrame | None":
        """``accuracies.csv``: client, accuracy, trained; None where clients were not measured."""
        return read_table(self.stored.file(ACCURACIES)) if ACCURACIES in self.stored else None

    @cached_property
    def latency(self) -> "DataFrame | None":
        """``latency.csv``: from, to, latency_s for every two of few clients and the server (-1), else None."""
        return read_table(self.stored.file(LATENCY)) if LATENCY in self.stored else None

    @cached_property
    def findings(self) -> list[dict[str, Any]]:
        """What came of the run's attacks: ``findings.json``, empty where there is none."""
        found: list[dict[str, Any]] = (
            json.loads(self.stored.file(FINDINGS).read_bytes()) if FINDINGS in self.stored else []
        )
        return found

    @cached_property
    def events(self) -> Path | None:
        """``events.jsonl`` where the run recorded it."""
        return self.stored.file("events.jsonl") if "events.jsonl" in self.stored else None


@dataclass(frozen=True)
class Member:
    """A run that was planned, whatever became of it.

    Attributes:
        digest: names its folder.
        values: its value of each of the study's axes.
        seed: its seed.
        status: ``done``, ``failed``, ``open`` (not finished) or ``gone`` (finished, but its folder is missing).
        error: why it failed.
        run: its results, if it is done.
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

    @property
    def hides(self) -> bool:
        """Whether a protocol hides single updates in sums."""
        return any(HIDES in run.finals or run.phases is not None for run in self.runs)


@dataclass(frozen=True)
class Study:
    """One run, several seeds of it, a comparison or a sweep.

    Attributes:
        title: the scenario's name.
        axes: dotted keys that vary, apart from the seed.
        groups: in the order in which they are shown.
        members: every planned run, failed and unfinished ones too.
        baseline: label of the group that others are compared with.
        target: test accuracy to which time and rounds are told; None = one that every run reaches.
    """

    title: str
    axes: tuple[str, ...]
    groups: tuple[Group, ...]
    members: tuple[Member, ...] = field(repr=False)
    baseline: str
    target: float | None = None

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
        return not self.single and all(axis.split(".")[0] in CHOICES for axis in self.axes)

    @property
    def ranked(self) -> bool:
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
            a for a in self.axes if len(found := self._values(a)) > 1 and all(number(v) is not None for v in found)
        )

    def _values(self, axis: str) -> set[str]:
        return {group.values[axis] for group in self.groups}

    @property
    def runs(self) -> Iterator[Run]:
        """All finished runs."""
        return (run for group in self.groups for run in group.runs)

    def _repr_html_(self) -> str:
        from pandas import DataFrame

        runs = [(group.label, run) for group in self.groups for run in group.runs]
        rows = [
            {
                "group": label,
                "seed": run.seed,
                **{n: v for n, v in run.finals.items() if (c := run.columns.get(n)) and c.shown},
            }
            for label, run in runs
        ]
        return html_table(f"{self.title}: {self.kind}", DataFrame(rows).dropna(axis=1, how="all"))

    def group(self, label: str) -> Group:
        """The group of a label."""
        return next(group for group in self.groups if group.label == label)


def eligible(group: Group) -> bool:
    """Whether a group may be the best of some: it has aggregated something, and none of its runs has diverged."""
    return not all(map(untrained, group.runs)) and all(run.diverged is None for run in group.runs)


def untrained(run: Run) -> bool:
    """Whether a run skipped every round, so that its model is the initial one."""
    return "skipped" in run.finals and run.finals["skipped"] == run.finals.get("rounds")


def number(text: str) -> float | None:
    """The finite number that a text is, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None
