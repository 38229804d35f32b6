"""What a report is about: runs, grouped where only the seed differs. Read from results folders, lazily."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from simfl.core.certificate_words import OF_ONE_RUN, basis_lines, promises, said_of, unite_columns
from simfl.core.columns import Column
from simfl.experiments.compare.overhead import HIDES
from simfl.report.finished_run import Run
from simfl.results.frames import as_printed, html_table

COLOURED = 14
"""Groups that get a colour and line style of their own; of more, only the most accurate ones do."""

EMPHASISED = 6

CHOICES = {"selection", "training", "compression", "secagg", "privacy"}
"""Top-level keys of a scenario that its server decides."""


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
        target: test accuracy to which time and rounds are told; None = one that every run reaches.
    """

    title: str
    axes: tuple[str, ...]
    groups: tuple[Group, ...]
    members: tuple[PlannedRun, ...] = field(repr=False)
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
    return not all(map(is_untrained, group.runs)) and all(run.diverged_round is None for run in group.runs)


def is_untrained(run: Run) -> bool:
    """Whether a run skipped every round, so that its model is the initial one."""
    return "skipped" in run.finals and run.finals["skipped"] == run.finals.get("rounds")


def number(text: str) -> float | None:
    """The finite number that a text is, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None
