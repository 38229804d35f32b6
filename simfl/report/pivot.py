"""One number of a study as a table of two kinds of keys, for instance policies down and dropouts across."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simfl.core.columns import FORMS, heading
from simfl.core.errors import SimflError, suggestion
from simfl.report.latex import cell_text, chosen_measures, table_of
from simfl.report.measures import StudyMeasure
from simfl.report.study import Group, Study

if TYPE_CHECKING:
    from pandas import DataFrame

BESIDE = ", "
"""Between the values of several keys."""


def pivot(
    study: Study, rows: Sequence[str], columns: Sequence[str], cell: str, where: Mapping[str, str] | None = None,
    percent: bool = False,
) -> "DataFrame":  # fmt: skip
    """Means with the longer sides of their 95 % intervals, as text; a row and a column for each combination of values.

    Args:
        study: what ``simfl.report.read_study`` returned.
        rows, columns: keys that vary, dotted, or the last parts of them that no other ends with.
        cell: name of a measure.
        where: values of all other keys that vary.
        percent: whether shares are written in per cent, with one digit behind the point.

    Raises:
        SimflError: a key does not vary, or another one does; no run has such a measure or value.
    """
    from pandas import DataFrame

    (measure,) = chosen_measures(study, [cell])
    down, across = ([axis_called(study, key) for key in keys] for keys in (rows, columns))
    groups = those(study, {axis_called(study, key): value for key, value in (where or {}).items()})
    refuse_others(study, groups, (*down, *across), "make it rows or columns")
    names = {place: list(dict.fromkeys(name_of(group, axes) for group in groups))
             for place, axes in (("down", down), ("across", across))}  # fmt: skip
    form = _percent if percent and _is_share(measure) else FORMS[measure.column.unit][1]
    cells = {(name_of(group, down), name_of(group, across)): cell_text(study, measure, group, form) for group in groups}
    table = [[cells.get((row, column), "") for column in names["across"]] for row in names["down"]]
    return DataFrame(table, index=names["down"], columns=names["across"])


def _is_share(measure: StudyMeasure) -> bool:
    return measure.column.unit == "share"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def latex_pivot(study: Study, table: "DataFrame", cell: str) -> str:
    """A :func:`pivot` in per cent for LaTeX (booktabs), with what its numbers are, and take for granted, as caption; a
    line of headings for each key across.
    """
    from pandas import MultiIndex

    (measure,) = chosen_measures(study, [cell])
    written = table.reset_index(names="")
    across = [tuple(name.split(BESIDE)) for name in table.columns]
    if (levels := max(map(len, across))) > 1:
        written.columns = MultiIndex.from_tuples([("",) * levels, *across])
    unit = " in per cent" if _is_share(measure) else ""
    return table_of(study, written, [measure], f"{heading(measure.column)}{unit}, ")


def axis_called(study: Study, key: str) -> str:
    """The key that varies and is called so."""
    matches = [axis for axis in study.axes if axis == key or axis.endswith(f".{key}")]
    if len(matches) != 1:
        hint = suggestion(key, study.axes) or f"; there are {', '.join(study.axes)}"
        raise SimflError(f"{key}: {'is the end of several keys' if matches else 'does not vary'}{hint}")
    return matches[0]


def refuse_others(study: Study, groups: Sequence[Group], named: Sequence[str], remedy: str) -> None:
    """
    Raises:
        SimflError: another key than those named varies among the groups.
    """
    for axis in study.axes:
        values = dict.fromkeys(group.values[axis] for group in groups)
        if axis not in named and len(values) > 1:
            raise SimflError(f"{axis} varies, too: {remedy}, or give where {axis}=VALUE, one of {', '.join(values)}")


def those(study: Study, where: Mapping[str, str]) -> list[Group]:
    """The groups with these values of keys."""
    groups = list(study.groups)
    for axis, value in where.items():
        values = list(dict.fromkeys(group.values[axis] for group in study.groups))
        if value not in values:
            hint = suggestion(value, values) or f"; there are {', '.join(values)}"
            raise SimflError(f"{axis} has no value {value!r}{hint}")
        groups = [group for group in groups if group.values[axis] == value]
    return groups


def name_of(group: Group, axes: Sequence[str]) -> str:
    """Its values of some keys."""
    return BESIDE.join(group.values[axis] for axis in axes)
