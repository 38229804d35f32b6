"""The tables of the page: one row a group, one row a run. Every cell has a text and a value to sort by."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simfl.core.certificate_words import about
from simfl.core.columns import unknown
from simfl.experiments.compare.intervals import Interval
from simfl.report.finished_run import Run
from simfl.report.measures import StudyMeasure, UnitScale, with_values
from simfl.report.study import Group, Study, eligible, number

MOST_ROUNDS = 1000


@dataclass(frozen=True)
class Head:
    """A heading.

    Attributes:
        name: in CSV.
        numeric: right-aligned, sorted by number.
        key: says which row it is; the filter looks there.
    """

    name: str
    label: str
    unit: str = ""
    about: str = ""
    numeric: bool = False
    key: bool = False


@dataclass(frozen=True)
class Cell:
    """A value: as shown, as sorted and exported; whether it is the best of its column; whether some seeds lack it."""

    text: str
    value: Any = None
    half: str = ""
    best: bool = False
    censored: bool = False


@dataclass(frozen=True)
class Row:
    """Cells, and the group they belong to."""

    cells: tuple[Cell, ...]
    group: Group | None
    failed: bool = False


@dataclass(frozen=True)
class PageTable:
    """Headings and rows."""

    columns: tuple[Head, ...]
    rows: tuple[Row, ...]


def group_table(study: Study) -> PageTable:
    """Means with half widths of their confidence intervals, one row a group."""
    known = with_values(study)
    means = {m.name: {group.label: m.over(group) for group in study.groups} for m in known}
    scales = {m.name: m.scale(i.estimate for i in means[m.name].values()) for m in known}
    best = {m.name: best_groups(study, m.better, scales[m.name].text, means[m.name]) for m in known}
    columns = (Head("group", "Configuration", key=True), *(_column(m, scales[m.name]) for m in known))
    rows = []
    for group in study.groups:
        cells = [Cell(group.label, group.label)]
        for m in known:
            interval, scale = means[m.name][group.label], scales[m.name]
            mean, some = interval.estimate, 0 < interval.count < len(group.runs)
            notes = [scale.half(mean, interval.half_width)]
            if some:
                notes.append(f"({interval.count}/{len(group.runs)})")
            diverged = sum(run.diverged_round is not None for run in group.runs)
            if m.name == "test_accuracy" and diverged:
                notes.append(f"{diverged} diverged")
            cells.append(
                Cell(scale.text(mean), _plain(mean), " ".join(filter(None, notes)), group in best[m.name], some)
            )
        rows.append(Row(tuple(cells), group))
    return PageTable(columns, tuple(rows))


def run_table(study: Study) -> PageTable:
    """Every planned run, failed and unfinished ones too."""
    known = with_values(study)
    values = {m.name: {run.digest: m.of(run) for run in study.runs} for m in known}
    scales = {m.name: m.scale(values[m.name].values()) for m in known}
    failed = any(member.error for member in study.members)
    axes = [Head(axis, axis.split(".")[-1].replace("_", " "), about=axis, numeric=axis in study.numeric_axes,
                 key=True)
            for axis in study.axes]  # fmt: skip
    columns = (*axes, Head("seed", "Seed", numeric=True, key=True), Head("status", "Status", key=True),
               *(_column(m, scales[m.name]) for m in known), Head("digest", "Folder", key=True),
               *([Head("error", "Error", key=True)] if failed else []))  # fmt: skip
    of = {run.digest: group for group in study.groups for run in group.runs}
    rows = []
    for member in study.members:
        texts = {axis: member.values[axis.name] for axis in axes}
        cells = [Cell(text, number(text) if axis.numeric else text) for axis, text in texts.items()]
        diverged_round = None if member.run is None else member.run.diverged_round
        status = member.status if diverged_round is None else f"diverged at round {diverged_round}"
        cells += [Cell(str(member.seed), member.seed), Cell(status, status)]
        for m in known:
            value = values[m.name].get(member.digest)
            cells.append(Cell(scales[m.name].text(value), value))
        cells.append(Cell(member.digest, member.digest))
        if failed:
            cells.append(Cell(member.error or "", member.error or ""))
        rows.append(Row(tuple(cells), of.get(member.digest), member.status == "failed"))
    return PageTable(columns, tuple(rows))


def round_table(run: Run) -> PageTable:
    """The rounds of a run: the columns of ``rounds.csv`` that hold something; of very many rounds, every n-th."""
    every = -(-len(run.rounds) // MOST_ROUNDS)
    shown = run.rounds.dropna(axis=1, how="all").iloc[::every]
    known = [run.columns.get(name) or unknown(name) for name in shown.columns]
    columns = tuple(Head(column.name, column.heading, about=about(column), numeric=True) for column in known)
    scales = [UnitScale(1.0, "", 0 if (shown[name].dropna() % 1 == 0).all() else 4) for name in shown.columns]
    rows = [
        Row(tuple(Cell(scale.text(value), _plain(value)) for scale, value in zip(scales, values, strict=True)), None)
        for values in shown.itertuples(index=False, name=None)
    ]
    return PageTable(columns, tuple(rows))


def csv_of(table: PageTable) -> str:
    """The table with all digits."""
    from pandas import DataFrame

    from simfl.report.saving import csv_text

    data = [[cell.value for cell in row.cells] for row in table.rows]
    return csv_text(DataFrame(data, columns=[column.name for column in table.columns]))


def _column(measure: StudyMeasure, scale: UnitScale) -> Head:
    return Head(measure.name, measure.label, scale.unit, about(measure.column), True)


def best_groups(study: Study, better: int, write: Callable[[float], str], means: dict[str, Interval]) -> list[Group]:
    """The groups of the best mean, none where no value is better than another as ``write`` writes it.

    A group that lacks the value for some seeds, has diverged or has never aggregated anything, is not among them.
    """
    left = [group for group in study.groups if eligible(group) and means[group.label].count == len(group.runs)]
    written = {label: write(interval.estimate) for label, interval in means.items()}
    if not better or not left or not study.comparable or len(set(written.values())) < 2:
        return []
    best = (max if better > 0 else min)(left, key=lambda group: means[group.label].estimate)
    return [group for group in left if written[group.label] == written[best.label]]


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value
