"""The table of a comparison when all runs had spent the same, budget by budget."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from simfl.core.certificate_words import about
from simfl.core.columns import ROUND_COLUMNS, SUMMARY_COLUMNS, Column, order_columns, unknown
from simfl.experiments.compare.budgets import BUDGETS, Course, affordable
from simfl.experiments.compare.run_numbers import without_infinite
from simfl.report.measures import StudyMeasure, UnitScale
from simfl.report.page_tables import Cell, Head, PageTable, Row, best_groups
from simfl.report.seed_intervals import interval, paired_difference
from simfl.report.study import COLOURED, Study

COLUMNS = ("test_accuracy", "privacy_semi_strong", "fairness_gap", *BUDGETS.values())
"""What the table shows of simfl's own columns, where runs have them; plugins' columns are shown, too."""

Values = dict[str, dict[int, float]]
"""Of one column at one budget: by group, by seed."""


@dataclass(frozen=True)
class _Shown:
    """A column of the table."""

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
    shown = [
        _shown(column, {budget: {label: {s: n[column.name] for s, n in runs.items() if column.name in n}
                                 for label, runs in groups.items()} for budget, groups in numbers.items()})
        for column in columns
    ]  # fmt: skip
    shown = [each for each in shown if any(runs for values in each.values.values() for runs in values.values())]
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


def _shown(column: Column, values: dict[str, Values]) -> _Shown:
    every = [number for groups in values.values() for runs in groups.values() for number in runs.values()]
    return _Shown(column, StudyMeasure(column, lambda run: None).scale(every), values)


def _spent(budget: str, value: float, shown: list[_Shown]) -> str:
    scale = next((each.scale for each in shown if each.column.name == BUDGETS[budget]), None)
    return f"{value:g}" if scale is None else scale.quantity(value)


def _cells(study: Study, budget: str, shown: _Shown) -> Iterator[Cell]:
    """A cell a group: its mean, and the difference to the baseline, paired by seed, with its interval."""
    values, scale = shown.values[budget], shown.scale
    better = shown.column.better if shown.column.name != BUDGETS[budget] else 0
    means = {label: interval(runs.values()) for label, runs in values.items()}
    best = best_groups(study, better, scale.text, means)
    for group in study.groups:
        mine, runs, notes = means[group.label], values[group.label], []
        if better and group.label != study.baseline and runs.keys() & values[study.baseline].keys():
            difference = paired_difference(runs, values[study.baseline])
            sign, half = "+" if difference.estimate > 0 else "", scale.half(difference.estimate, difference.half_width)
            notes.append(f"{sign}{scale.text(difference.estimate)} {half}".rstrip())
        some = 0 < mine.count < len(group.runs)
        if some:
            notes.append(f"({mine.count}/{len(group.runs)})")
        value = None if math.isnan(mine.estimate) else mine.estimate
        yield Cell(scale.text(mine.estimate), value, " ".join(notes), group in best, some)
