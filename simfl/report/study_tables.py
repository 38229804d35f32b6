"""Tables of a study: its means in LaTeX (booktabs), as the terminal writes them; one number by two kinds of keys."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from simfl.core.columns import FORMS, TARGET_COLUMNS, Form, heading, mean_text
from simfl.core.errors import SimflError, printable, suggestion
from simfl.experiments.compare.intervals import CONFIDENCE
from simfl.experiments.compare.shapes import FEWEST_RUNS, far_sentence
from simfl.experiments.compare.table_choice import in_order
from simfl.report.measures import PROMISED, StudyMeasure, with_values
from simfl.report.page_tables import best_groups
from simfl.report.study import Group, Study

if TYPE_CHECKING:
    from pandas import DataFrame

TARGETS = {column.name for column in TARGET_COLUMNS}
PACKAGES = "% needs \\usepackage{booktabs}\n"

SIGNS = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "±": r"$\pm$ ", "–": "--", "−": "$-$", "…": r"\dots{}",
})  # fmt: skip
"""What LaTeX would not print as it stands."""


def latex(study: Study, columns: Sequence[str] = (), sort: str | None = None) -> str:
    """A ``table`` with a row a configuration: means with the longer side of their 95 % interval; in bold what is
    significantly the best of its column, and the best known guarantees.

    Args:
        study: what ``simfl.report.read_study`` returned.
        columns: names of measures, in this order; default: all that are shown and differ between configurations.
        sort: the measure by which the rows are ordered, the best first; with a minus before it, the other way round.

    Raises:
        SimflError: no run has such a measure.
    """
    chosen = chosen_measures(study, columns)
    if sort:
        (by,) = chosen_measures(study, [sort.removeprefix("-")])
        means = {group.label: by.over(group).estimate for group in study.groups}
        labels = in_order(means, by.better, reverse=sort.startswith("-"))
        study = replace(study, groups=tuple(map(study.group, labels)))
    cells, bold = _cells(study, chosen)
    return table_of(study, cells, chosen, bold=bold)


def table_of(
    study: Study, cells: "DataFrame", measures: Sequence[StudyMeasure], of: str = "", bold: "DataFrame | None" = None
) -> str:
    """Texts as a ``table``, the first column with the names of the rows; its caption says what the numbers are."""
    styler = cells.style.hide(axis="index").format(_cell).format_index(escape, axis=1)
    if bold is not None:
        best = bold.map(lambda is_best: "textbf:--rwrap;" if is_best else "")
        styler = styler.apply(lambda _: best, axis=None)
    seeds = f"mean over {study.seeds} seeds ± the longer side of the 95 % interval" if study.seeds > 1 else "one seed"
    notes = [f"{far_sentence(m.label, m.collapses, study.seeds < FEWEST_RUNS)}." for m in measures if m.collapses]
    notes += study.certificate_notes(measure.column for measure in measures)
    text = styler.to_latex(
        column_format="l" + "r" * (len(cells.columns) - 1), hrules=True, position="tb", position_float="centering",
        multicol_align="c",
        caption=escape(" ".join([f"{study.title}: {of}{seeds}.", *notes])),
    )  # fmt: skip
    return PACKAGES + str(text)


def chosen_measures(study: Study, columns: Sequence[str] = ()) -> list[StudyMeasure]:
    """The columns of the table, as :func:`latex` says.

    Raises:
        SimflError: no run has such a measure.
    """
    known = {measure.name: measure for measure in with_values(study, hidden=bool(columns))}
    if missing := [name for name in columns if name not in known]:
        hint = suggestion(missing[0], known)
        raise SimflError(f"no column '{missing[0]}'{hint} (one of {', '.join(known)})")
    if columns:
        return [known[name] for name in columns]
    texts = {name: {cell_text(study, measure, group) for group in study.groups} for name, measure in known.items()}
    return [known[name] for name, written in texts.items() if len(written) > 1] or list(known.values())


def _cells(study: Study, chosen: Sequence[StudyMeasure]) -> "tuple[DataFrame, DataFrame]":
    """The texts, a row a configuration, and which of them are the best of their column."""
    from pandas import DataFrame

    labels = [group.label for group in study.groups]
    texts, best = {"": labels}, {"": [False] * len(labels)}
    for measure in chosen:
        name = heading(measure.column)
        while name in texts:  # plugins may call their columns as they like
            name += " "
        texts[name] = [cell_text(study, measure, group) for group in study.groups]
        means = {group.label: measure.over(group) for group in study.groups}
        winners = best_groups(study, measure.better, FORMS[measure.column.unit][1], means)
        best[name] = [group in winners and _is_clear(study, measure, group, winners) for group in study.groups]
    return DataFrame(texts), DataFrame(best)


def _is_clear(study: Study, measure: StudyMeasure, best: Group, winners: Sequence[Group]) -> bool:
    """Whether the best differs from all others: known guarantees by value, all else significantly (Bonferroni)."""
    rivals = next(groups for groups in study.by_world.values() if best in groups)
    others = [group for group in rivals if group is not best]
    winners = [group for group in winners if group in rivals]
    if measure.name in PROMISED:
        return True
    level = (1 - CONFIDENCE) / max(1, len(others))
    return len(winners) == 1 and all(measure.against(best, other)[1] <= level for other in others)


def cell_text(study: Study, measure: StudyMeasure, group: Group, form: Form | None = None) -> str:
    """A mean of the group's runs with the longer side of its interval, as the terminal writes it or in another form."""
    mean = measure.over(group)
    if not mean.count:
        return "never" if measure.name in TARGETS else "–"
    half = None if mean.lower is None else mean.half_width
    return mean_text(form or FORMS[measure.column.unit][1], mean.estimate, half, mean.count, study.seeds)


def escape(text: str) -> str:
    """A text as LaTeX prints it: in one line, its own signs escaped, a minus before a number as one."""
    minus = re.sub(r"(?<![\w.-])-(?=\d)", "−", " ".join(text.split()))
    return printable(minus).translate(SIGNS)


def _cell(text: str) -> str:
    """A cell: at the beginning of a row LaTeX would take "[" and "*" for arguments of the row before."""
    escaped = escape(text)
    return "{}" * escaped.startswith(("[", "*")) + escaped


# -- One number by two kinds of keys, for instance policies down and dropouts across --------------------------------

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
    form = (lambda share: f"{100 * share:.1f}") if percent and _is_share(measure) else FORMS[measure.column.unit][1]
    cells = {(name_of(group, down), name_of(group, across)): cell_text(study, measure, group, form) for group in groups}
    table = [[cells.get((row, column), "") for column in names["across"]] for row in names["down"]]
    return DataFrame(table, index=names["down"], columns=names["across"])


def _is_share(measure: StudyMeasure) -> bool:
    return measure.column.unit == "share"


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
