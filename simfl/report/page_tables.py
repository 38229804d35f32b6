"""The tables of the page: one row a group, one row a run. Every cell has a text and a value to sort by."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from simfl.core.certificate_words import about
from simfl.core.columns import ROUND_COLUMNS, SUMMARY_COLUMNS, Column, order_columns, unknown
from simfl.core.json_data import JsonObject
from simfl.experiments.compare.differences import TOLD, difference_rows, overhead_rows
from simfl.experiments.compare.intervals import Interval
from simfl.experiments.compare.run_numbers import BUDGETS, Course, affordable, without_infinite
from simfl.experiments.compare.shapes import find_collapses
from simfl.report.measures import StudyMeasure, UnitScale, group_intervals, with_values
from simfl.report.study import COLOURED, Group, Run, Study, eligible, number

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
    """Means with the longer sides of their confidence intervals, one row a group."""
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
    """The groups of the best mean of their world, none where no value is better than another as ``write`` writes it.

    A group that lacks the value for some seeds, has diverged or has never aggregated anything, is not among them.
    """
    if not better or not study.comparable:
        return []
    return [best for groups in study.by_world.values() for best in _best_of(groups, better, write, means)]


def _best_of(
    groups: Sequence[Group], better: int, write: Callable[[float], str], means: dict[str, Interval]
) -> list[Group]:
    left = [group for group in groups if eligible(group) and means[group.label].count == len(group.runs)]
    written = {group.label: write(means[group.label].estimate) for group in groups}
    if not left or len(set(written.values())) < 2:
        return []
    best = (max if better > 0 else min)(left, key=lambda group: means[group.label].estimate)
    return [group for group in left if written[group.label] == written[best.label]]


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value


COLUMNS = ("test_accuracy", "privacy_semi_strong", "fairness_gap", *BUDGETS.values())
"""What the table shows of simfl's own columns, where runs have them; plugins' columns are shown, too."""

Values = dict[str, dict[int, float]]
"""Of one column at one budget: by group, by seed."""


class _Shown(NamedTuple):
    """A column of the table at equal budgets, by budget."""

    column: Column
    scale: UnitScale
    values: dict[str, Values]


def equal_table(study: Study) -> PageTable | None:
    """A row a budget and group; None where there are no groups to compare, or too many."""
    if study.single or len(study.groups) > COLOURED:
        return None
    progress_of = {
        group.label: {run.seed: Course.read(run.results.file("rounds.csv"), run.columns.values()) for run in group.runs}
        for group in study.groups
    }
    budgets = affordable(progress for runs in progress_of.values() for progress in runs.values())
    if not budgets:
        return None
    at = {label: {seed: progress.at(budgets) for seed, progress in runs.items()} for label, runs in progress_of.items()}
    columns = _columns(study)
    known = {column.name: column for column in columns}
    numbers = {budget: {label: without_infinite({seed: values[budget] for seed, values in runs.items()}, known)
                        for label, runs in at.items()} for budget in budgets}  # fmt: skip
    shown = []
    for column in columns:
        values = {budget: {label: {s: n[column.name] for s, n in runs.items() if column.name in n}
                           for label, runs in groups.items()} for budget, groups in numbers.items()}  # fmt: skip
        every = [number for groups in values.values() for runs in groups.values() for number in runs.values()]
        if every:
            shown.append(_Shown(column, StudyMeasure(column, lambda run: None).scale(every), values))
    heads = (
        Head("budget", "At equal", key=True),
        Head("group", "Configuration", key=True),
        *(Head(s.column.name, s.column.heading, s.scale.unit, about(s.column), True) for s in shown),
    )
    rows = []
    for budget, value in budgets.items():
        spent = f"{budget}: {_spent(budget, value, shown)}"
        cells = [list(_cells(study, budget, each)) for each in shown]
        rows += [
            Row((Cell(spent, spent), Cell(group.label, group.label), *(column[i] for column in cells)), group)
            for i, group in enumerate(study.groups)
        ]
    return PageTable(heads, tuple(rows))


def _columns(study: Study) -> list[Column]:
    built_in = {column.name for column in (*ROUND_COLUMNS, *SUMMARY_COLUMNS)}
    known = study.columns
    from_plugins = [name for name, column in known.items() if name not in built_in and column.shown and column.final]
    return order_columns(known.get(name) or unknown(name) for name in (*COLUMNS, *from_plugins))


def _spent(budget: str, value: float, shown: list[_Shown]) -> str:
    scale = next((each.scale for each in shown if each.column.name == BUDGETS[budget]), None)
    return f"{value:g}" if scale is None else scale.quantity(value)


def _cells(study: Study, budget: str, shown: _Shown) -> Iterator[Cell]:
    """A cell a group: its mean, and the difference to the baseline, paired by seed, with its interval."""
    values, scale = shown.values[budget], shown.scale
    better = shown.column.better if shown.column.name != BUDGETS[budget] else 0
    means = {label: Interval(math.nan) for label in values} | group_intervals(values)
    bases = {study.rival_baseline(group).label for group in study.groups}
    beside = {base: dict(difference_rows(values, values[base], bool(find_collapses(values)))) for base in bases}
    best = best_groups(study, better, scale.text, means)
    for group in study.groups:
        mine, notes = means[group.label], []
        base = study.rival_baseline(group).label
        if better and group.label != base and (row := beside[base].get(group.label)):
            difference = Interval(row["difference"], row["lower"], row["upper"], row["pairs"])
            sign, half = "+" if difference.estimate > 0 else "", scale.half(difference.estimate, difference.half_width)
            notes.append(f"{sign}{scale.text(difference.estimate)} {half}".rstrip())
        some = 0 < mine.count < len(group.runs)
        if some:
            notes.append(f"({mine.count}/{len(group.runs)})")
        yield Cell(scale.text(mine.estimate), _plain(mine.estimate), " ".join(notes), group in best, some)


def beside_table(study: Study) -> PageTable | None:
    """A row a group with secure aggregation that another group differs from in nothing but that it has none."""
    rows = overhead_rows({g.label: (g.values, {run.seed: run.finals for run in g.runs}) for g in study.groups})
    if not rows:
        return None
    rows_of = {(row["choice"], row["metric"]): row for row in rows}
    columns = {column.name: column for run in study.runs for column in run.columns.values()}
    known = [StudyMeasure(columns.get(name) or unknown(name), lambda run: None) for name in TOLD]
    known = [measure for measure in known if any(name == measure.name for _, name in rows_of)]
    heads = [Head("group", "Configuration", key=True), Head("plain", "Beside", key=True)]
    scales = {m.name: m.scale(row["difference"] for (_, name), row in rows_of.items() if name == m.name) for m in known}
    for measure in known:
        unit = {"%": "points"}.get(scales[measure.name].unit, scales[measure.name].unit)
        heads.append(Head(measure.name, measure.label, unit, about(measure.column), True))
        if measure.column.unit in ("bytes", "seconds"):
            heads.append(Head(f"{measure.name}_ratio", f"{measure.label}, times", "", about(measure.column), True))
    table_rows = []
    for label in dict.fromkeys(choice for choice, _ in rows_of):
        mine = {name: row for (choice, name), row in rows_of.items() if choice == label}
        cells = [Cell(label, label), *[Cell(plain, plain) for plain in {row["plain"] for row in mine.values()}]]
        for measure in known:
            cells += _beside_cells(measure, scales[measure.name], mine.get(measure.name))
        table_rows.append(Row(tuple(cells), study.group(label)))
    return PageTable(tuple(heads), tuple(table_rows))


def _beside_cells(measure: StudyMeasure, scale: UnitScale, row: JsonObject | None) -> Iterator[Cell]:
    """The difference and, where it means something, how many times plain's value that is."""
    timed = measure.column.unit in ("bytes", "seconds")
    if row is None:
        yield from [Cell("–")] * (1 + timed)
        return
    sign = "+" if row["difference"] > 0 else ""
    yield Cell(sign + scale.text(row["difference"]), row["difference"], _half(scale, row, "difference", "lower"))
    if timed:
        plain = UnitScale(1.0, "", 2)
        half = _half(plain, row, "ratio", "ratio_lower") if row["ratio"] is not None else ""
        yield Cell(plain.text(row["ratio"]), row["ratio"], half)


def _half(scale: UnitScale, row: JsonObject, middle: str, lower: str) -> str:
    return "" if row[lower] is None else scale.half(row[middle], row[middle] - row[lower])
