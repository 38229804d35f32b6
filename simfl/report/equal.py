"""The table of a comparison when all runs had spent the same, budget by budget."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from simfl.columns import ROUND_COLUMNS, SUMMARY_COLUMNS, Column, telling, unknown
from simfl.compare.budgets import BUDGETS, Course, affordable
from simfl.report.measures import Measure, Scale
from simfl.report.statistics import Interval, interval, paired
from simfl.report.study import COLOURED, Group, Study, eligible
from simfl.report.tables import ROUNDING, Cell, Head, Row, Table

__all__ = ["equal_table"]

TOLD = ("test_accuracy", "privacy_semi_strong", "fairness_gap", *BUDGETS.values())
"""What the table shows of simfl's own columns, where runs have them; plugins' columns are shown, too."""

Values = dict[str, dict[int, float]]
"""Of one column at one budget: by group, by seed."""


@dataclass(frozen=True)
class _Shown:
    """A column of the table.

    Attributes:
        column: what it holds.
        scale: how.
        values: by budget.
    """

    column: Column
    scale: Scale
    values: dict[str, Values]


def equal_table(study: Study) -> Table | None:
    """A row a budget and group; None where there are no groups to compare, or too many."""
    if study.single or len(study.groups) > COLOURED:
        return None
    courses = {
        group.label: {run.seed: Course.read(run.stored.file("rounds.csv"), run.columns.values()) for run in group.runs}
        for group in study.groups
    }
    budgets = affordable(course for runs in courses.values() for course in runs.values())
    if not budgets:
        return None
    at = {label: {seed: course.at(budgets) for seed, course in runs.items()} for label, runs in courses.items()}
    shown = [
        _shown(column, {budget: {label: {s: n[budget][column.name] for s, n in runs.items() if column.name in n[budget]}
                                 for label, runs in at.items()} for budget in budgets})
        for column in _columns(study)
    ]  # fmt: skip
    shown = [each for each in shown if any(runs for values in each.values.values() for runs in values.values())]
    heads = (
        Head("budget", "At equal", key=True),
        Head("group", "Group", key=True),
        *(Head(s.column.name, s.column.heading, s.scale.unit, s.column.sentence, True) for s in shown),
    )
    rows = []
    for budget, value in budgets.items():
        spent = f"{budget}: {_spent(budget, value, shown)}"
        cells = [list(_cells(study, budget, each)) for each in shown]
        rows += [
            Row((Cell(spent, spent), Cell(group.label, group.label), *(column[i] for column in cells)), group)
            for i, group in enumerate(study.groups)
        ]
    return Table(heads, tuple(rows))


def _columns(study: Study) -> list[Column]:
    own = {column.name for column in (*ROUND_COLUMNS, *SUMMARY_COLUMNS)}
    known = {name: column for run in study.runs for name, column in run.columns.items()}
    theirs = [name for name, column in known.items() if name not in own and column.shown and column.final]
    return telling(known.get(name) or unknown(name) for name in (*TOLD, *theirs))


def _shown(column: Column, values: dict[str, Values]) -> _Shown:
    every = [number for groups in values.values() for runs in groups.values() for number in runs.values()]
    return _Shown(column, Measure(column, lambda run: None).scale(every), values)


def _spent(budget: str, value: float, shown: list[_Shown]) -> str:
    scale = next((each.scale for each in shown if each.column.name == BUDGETS[budget]), None)
    return f"{value:g}" if scale is None else scale.quantity(value)


def _cells(study: Study, budget: str, shown: _Shown) -> Iterator[Cell]:
    """A cell a group: its mean, and the difference to the baseline, paired by seed, with its interval."""
    values, scale = shown.values[budget], shown.scale
    judged = shown.column.better and shown.column.name != BUDGETS[budget]
    means = {label: interval(runs.values()) for label, runs in values.items()}
    best = _best(study, shown, means) if judged else []
    for group in study.groups:
        mine, runs, notes = means[group.label], values[group.label], []
        if judged and group.label != study.baseline and runs.keys() & values[study.baseline].keys():
            notes.append(_difference(scale, paired(runs, values[study.baseline])))
        some = 0 < mine.count < len(group.runs)
        if some:
            notes.append(f"({mine.count}/{len(group.runs)})")
        value = None if math.isnan(mine.mean) else mine.mean
        yield Cell(scale.text(mine.mean), value, " ".join(notes), group in best, some)


def _difference(scale: Scale, found: Interval) -> str:
    known = not math.isnan(found.half) and found.half > ROUNDING * abs(found.mean)
    return ("+" if found.mean > 0 else "") + scale.text(found.mean) + (f" ±\u202f{scale.text(found.half)}" * known)


def _best(study: Study, shown: _Shown, means: dict[str, Interval]) -> list[Group]:
    """The groups of the best mean at this budget, none where no value is better than another as it is written."""
    left = [group for group in study.groups if eligible(group) and means[group.label].count == len(group.runs)]
    if not (study.ranked and left) or len({shown.scale.text(each.mean) for each in means.values()}) < 2:
        return []
    top = (max if shown.column.better > 0 else min)(means[group.label].mean for group in left)
    return [group for group in left if shown.scale.text(means[group.label].mean) == shown.scale.text(top)]
