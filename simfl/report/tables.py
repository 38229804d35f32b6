"""The tables of the page: one row a group, one row a run. Every cell has a text and a value to sort by."""

import math
from dataclasses import dataclass
from typing import Any

from simfl.columns import unknown
from simfl.report.measures import Measure, Scale, with_values
from simfl.report.statistics import Interval
from simfl.report.study import Group, Run, Study, eligible, number

__all__ = ["ROUNDING", "Cell", "Head", "Row", "Table", "csv_of", "group_table", "round_table", "run_table"]

MOST_ROUNDS = 1000

ROUNDING = 1e-9
"""Half-widths below this share of the mean are rounding errors."""


@dataclass(frozen=True)
class Head:
    """A heading.

    Attributes:
        name: in CSV.
        label, unit: as shown.
        about: explanation.
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
class Table:
    """Headings and rows."""

    columns: tuple[Head, ...]
    rows: tuple[Row, ...]


def group_table(study: Study) -> Table:
    """Means with half widths of their confidence intervals, one row a group."""
    known = with_values(study)
    found = {m.name: {group.label: m.over(group) for group in study.groups} for m in known}
    scales = {m.name: m.scale(i.mean for i in found[m.name].values()) for m in known}
    best = {m.name: _best(m, scales[m.name], study, found[m.name]) for m in known}
    columns = (Head("group", "Group", key=True), *(_column(m, scales[m.name]) for m in known))
    rows = []
    for group in study.groups:
        cells = [Cell(group.label, group.label)]
        for m in known:
            interval, scale = found[m.name][group.label], scales[m.name]
            text = scale.text(interval.mean)
            known_half = not math.isnan(interval.half) and interval.half > ROUNDING * abs(interval.mean)
            half = f"±\u202f{scale.text(interval.half)}" if known_half else ""
            if 0 < interval.count < len(group.runs):
                half += f" ({interval.count}/{len(group.runs)})"
            if m.name == "test_accuracy" and (lost := [run for run in group.runs if run.diverged is not None]):
                half += f" {len(lost)} diverged"
            cells.append(Cell(text, _plain(interval.mean), half.strip(), group in best[m.name],
                              0 < interval.count < len(group.runs)))  # fmt: skip
        rows.append(Row(tuple(cells), group))
    return Table(columns, tuple(rows))


def run_table(study: Study) -> Table:
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
        cells = [Cell(member.values[c.name], _sortable(member.values[c.name], c.numeric)) for c in axes]
        lost = None if member.run is None else member.run.diverged
        status = member.status if lost is None else f"diverged at round {lost}"
        cells += [Cell(str(member.seed), member.seed), Cell(status, status)]
        for m in known:
            value = values[m.name].get(member.digest)
            cells.append(Cell(scales[m.name].text(value), value))
        cells.append(Cell(member.digest, member.digest))
        if failed:
            cells.append(Cell(member.error or "", member.error or ""))
        rows.append(Row(tuple(cells), of.get(member.digest), member.status == "failed"))
    return Table(columns, tuple(rows))


def round_table(run: Run) -> Table:
    """The rounds of a run: the columns of ``rounds.csv`` that hold something; of very many rounds, every n-th."""
    every = -(-len(run.rounds) // MOST_ROUNDS)
    shown = run.rounds.dropna(axis=1, how="all").iloc[::every]
    known = [run.columns.get(name) or unknown(name) for name in shown.columns]
    columns = tuple(Head(column.name, column.heading, about=column.sentence, numeric=True) for column in known)
    scales = [Scale(1.0, "", 0 if (shown[name].dropna() % 1 == 0).all() else 4) for name in shown.columns]
    rows = [
        Row(tuple(Cell(scale.text(value), _plain(value)) for scale, value in zip(scales, values, strict=True)), None)
        for values in shown.itertuples(index=False, name=None)
    ]
    return Table(columns, tuple(rows))


def csv_of(table: Table) -> str:
    """The table with all digits."""
    from pandas import DataFrame

    from simfl.report.saving import csv_text

    data = [[cell.value for cell in row.cells] for row in table.rows]
    return csv_text(DataFrame(data, columns=[column.name for column in table.columns]))


def _column(measure: Measure, scale: Scale) -> Head:
    return Head(measure.name, measure.label, scale.unit, measure.column.sentence, True)


def _best(measure: Measure, scale: Scale, study: Study, found: dict[str, Interval]) -> list[Group]:
    """The groups of the best mean, none where no value is better than another as it is written.

    A group that lacks the value for some seeds, has diverged or has never aggregated anything, is not among them.
    """
    known = {
        group.label: found[group.label].mean
        for group in study.groups
        if found[group.label].count == len(group.runs) and eligible(group)
    }
    if not measure.better or not study.ranked or len({scale.text(found[g.label].mean) for g in study.groups}) < 2:
        return []
    best = (max if measure.better > 0 else min)(known.values(), default=math.nan)
    return [
        group for group in study.groups if group.label in known and scale.text(known[group.label]) == scale.text(best)
    ]


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value


def _sortable(text: str, numeric: bool) -> Any:
    return number(text) if numeric else text
