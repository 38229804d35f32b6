"""The columns of a table before they become features: which are numbers, texts, names of clients, or left out."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field

from simfl.core.json_data import number_of
from simfl.learning.data.base import Dataset
from simfl.learning.data.image_arrays import REGRESSION, broken
from simfl.learning.data.table import encode, is_number

_PEOPLE = "client|hospital|user|site|silo|party|patient|subject|writer|speaker|participant"
_OTHERS = "device|customer|owner|institution|centre|center|person|account|clinic|bank|author|character|worker|node"
_ID = "id|nr|no|num|number|name|code|key|uuid"
OWNER = re.compile(
    rf"({_PEOPLE})|({_PEOPLE}|{_OTHERS})[_ .-]?({_ID})|({_ID})[_ .-]({_PEOPLE}|{_OTHERS})|[cup]id", re.IGNORECASE
)
"""Names of columns that say whose a row is."""

INDEX = re.compile(r"(row|record|sample|case)?[_ .-]?(id|index|idx|no|nr|number)|row|unnamed.*|level_0", re.IGNORECASE)
"""Names of columns that may number the rows."""

DECORATED = re.compile(r"[-+(]?[$€£]?\s*\d[\d,.' \u00a0]*\s*[%€$]?\)?")
"""A number with marks that Python does not read: ``1,234``, ``12 %``, ``$5``."""


@dataclass(frozen=True)
class Missing:
    """What means that a value is missing in a table, and what becomes of such rows."""

    values: Annotated[
        tuple[str | int | float, ...], Field(description="besides empty cells, NA, NaN, N/A, null and None: e.g. '?'")
    ] = ()
    rows: Annotated[
        Literal["drop", "mean", "refuse"],
        Field(description="drop = leave the row out; mean = of the training part, for numbers; refuse"),
    ] = "drop"

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)


MissingField = Annotated[Missing | None, Field(description="values that are missing; null = refuse a row with one")]
Categories = Annotated[
    tuple[str, ...], Field(description="columns whose values are names, also where they are numbers; the label, too")
]


class ColumnRoles(NamedTuple):
    """What the scenario says of a table's columns."""

    label: str
    client: str | None = None
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    missing: Missing | None = None
    regression: bool = False

    def check(self, path: object, names: Sequence[str]) -> None:
        """Compares it with the names of a file's columns.

        Raises:
            ScenarioError: one is not there, or twice, or names clients though nobody says what becomes of it.
        """
        for name in (self.label, *self.categories, *([self.client] if self.client else [])):
            if name not in names:
                raise broken(path, f"has no column '{name}'; it has {', '.join(names)}")
        if absent := [name for name in self.drop if name not in names]:
            raise broken(path, f"has no column '{absent[0]}' to drop; it has {', '.join(names)}")
        known = {self.label, self.client, *self.drop, *self.categories}
        if twice := [name for name in names if name in known and list(names).count(name) > 1]:
            raise broken(path, f"has two columns '{twice[0]}'; rename one")
        owners = [name for name in names if name not in known and OWNER.fullmatch(name)]
        if owners and self.client is None:
            keys = f"client: {owners[0]} (whose each row is), drop: [{owners[0]}] or categories: [{owners[0]}]"
            raise broken(path, f"column '{owners[0]}' seems to name clients; write {keys} (a feature)")


Cut = Callable[[Any, int], tuple[Any, Any]]
"""Positions of the training and the test part, given the clients (or None) and the number of rows."""


def table_data(frames: Sequence[Any], files: Sequence[object], plan: ColumnRoles, cut: Cut) -> Dataset:
    """A data set of one table, of which a part is kept for the test, or of a training and a test table.

    Args:
        frames: pandas data frames; their index counts the rows of the files from 0.
        files: their files, for messages.
        plan: which column is what.
        cut: cuts a single table.

    Raises:
        ScenarioError: a column is not what it should be; the message names its row and the key to write.
    """
    from simfl.learning.data.parquet_samples import with_clients

    notes: list[str] = []
    tables = [_clean(frame, file, plan, notes) for frame, file in zip(frames, files, strict=True)]
    if not plan.regression:
        _check_label(tables, files[0], plan)
    ids: list[Any] = [_owners(t.pop(plan.client), file) if plan.client else None for t, file in zip(tables, files)]
    if len(tables) == 1:
        cuts = cut(ids[0], len(tables[0]))
        tables, ids = [tables[0].iloc[each] for each in cuts], [ids[0] if ids[0] is None else ids[0][c] for c in cuts]
    mean = plan.missing is not None and plan.missing.rows == "mean"
    data = encode(tables[0], tables[1], plan.label, (files[0], files[-1]), mean, plan.regression)
    texts = {name: np.unique(values).size for name, values in data.columns.items()}
    numbers = [str(name) for name in tables[0].columns if name not in texts and name != plan.label]
    shown = [f"numbers: {_list(numbers)}"] if numbers else []
    shown += [f"one-hot: {_list([f'{name} ({count:,} values)' for name, count in texts.items()])}"] if texts else []
    shown += [f"clients: {plan.client} ({np.unique(np.concatenate(ids)).size:,} values)"] if plan.client else []
    shown += [f"left out by drop: {', '.join(plan.drop)}"] if plan.drop else []
    kind = "numbers" if plan.regression else f"{data.classes:,} classes"
    words = "; ".join([f"label: {plan.label} ({kind})", *shown])
    return with_clients(data, ids[0], ids[1], plan.client, (f"columns: {words}", *notes))


def _list(names: Sequence[str]) -> str:
    """Names in words, the first twenty of many."""
    return ", ".join(names[:20]) + (f" and {len(names) - 20:,} more" if len(names) > 20 else "")


def _clean(frame: Any, file: object, plan: ColumnRoles, notes: list[str]) -> Any:
    """The table without what is dropped, numbers as numbers, names as texts, missing values as such."""
    plan.check(file, list(frame.columns))
    frame = frame.drop(columns=list(plan.drop))
    wanted = plan.missing or Missing(rows="refuse")
    for name in frame.columns:
        original = frame[name]
        column = _without(original, wanted.values)
        if name in plan.categories:
            column = column.convert_dtypes().astype("string").astype(object)
        elif name != plan.client and not is_number(column):
            numbers = _as_numbers(column, original, f"{file}: column '{name}'", name)
            column = column if name == plan.label and not plan.regression else numbers
        elif name not in (plan.client, plan.label) and INDEX.fullmatch(name) and counts_up(column):
            why = f"column '{name}' numbers the rows"
            raise broken(file, f"{why}; write drop: [{name}], or rename it if it is a feature")
        if column is not original:  # assigning thousands of columns is slow
            frame[name] = column
    if wanted.rows == "drop" and (gaps := frame.isna()).any(axis=None):
        rows = gaps.any(axis=1)
        where = ", ".join(f"{name} ({count:,})" for name, count in gaps.sum().items() if count)
        notes.append(f"{file}: {int(rows.sum()):,} of {len(frame):,} rows left out: values are missing in {where}")
        frame = frame[~rows]
    elif count := int(frame.isna().sum().sum()):
        mean = "numbers have the mean of the training part, " if wanted.rows == "mean" else ""
        notes.append(f"{file}: {count:,} missing values: {mean}texts have a value '?' of their own")
    return frame


def _without(column: Any, values: Iterable[str | int | float]) -> Any:
    """The column with these values missing."""
    if not (known := {str(value) for value in values}):
        return column
    if is_number(column):
        sought = [number for value in known if (number := number_of(value, None)) is not None]
        return column.mask(column.isin(sought)) if sought else column
    return column.mask(column.astype("string").str.strip().isin(known))


def _as_numbers(column: Any, original: Any, what: str, name: str) -> Any:
    """A column of texts; as numbers where only what is missing was none, or where it holds decimal objects.

    Args:
        column: without what is missing.
        original: with it.
        what: the column, for messages.
        name: of the column.

    Raises:
        ScenarioError: some texts are numbers, or look so, and others are not.
    """
    import pandas

    texts = column.dropna().astype("string").str.strip()
    distinct = pandas.Series(texts.unique(), dtype="string")
    numbers = pandas.to_numeric(distinct, errors="coerce").notna().to_numpy(dtype=bool)
    marked = ~numbers & distinct.str.fullmatch(DECORATED).to_numpy(dtype=bool)
    if not (numbers | marked).any():
        return column
    if numbers.all():
        converts = len(texts) < original.notna().sum() or isinstance(column.dropna().iloc[0], Decimal)
        return pandas.to_numeric(column.astype("string").str.strip()).astype(np.float64) if converts else column
    strange = texts.isin(distinct[~numbers])
    row, text, count = strange.idxmax() + 1, texts[strange].iloc[0][:40], int(strange.sum())
    others = distinct[~numbers & ~marked].str.slice(0, 40).tolist()
    known = f" among numbers such as {distinct[numbers].iloc[0]}" if numbers.any() else ""
    more = f" ({count:,} such rows)" if count > 1 else ""
    keys = f"missing: {{values: {others[:3]}, rows: drop}} (or rows: mean)" if others else "the numbers without marks"
    raise broken(what, f"row {row} holds '{text}'{known}{more}; write {keys}, or categories: [{name}] if all are names")


def _check_label(tables: Sequence[Any], file: object, plan: ColumnRoles) -> None:
    """Refuses labels that are a measurement.

    Raises:
        ScenarioError: they are.
    """
    from simfl.learning.data.limits import check_classes

    if plan.label in plan.categories:
        return
    what = f"{file}: column '{plan.label}'"
    for table in tables:
        labels = table[plan.label]
        if labels.dtype.kind == "f" and (wrong := labels.notna() & (labels != labels.round())).any():
            value, row = labels[wrong].iloc[0], int(wrong.idxmax()) + 1
            raise broken(what, f"row {row} holds {value}; {REGRESSION}, or write categories: [{plan.label}]")
    rows, classes = sum(map(len, tables)), len(set().union(*(table[plan.label].dropna().unique() for table in tables)))
    check_classes(classes, what, rows, f"write categories: [{plan.label}]")


def _owners(column: Any, file: object) -> Any:
    """The clients of rows, int64 or texts (n,).

    Raises:
        ScenarioError: a row has none, or decimals are.
    """
    if column.isna().any():
        raise broken(file, f"column '{column.name}', row {int(column.isna().idxmax()) + 1} names no client")
    if column.dtype.kind == "f" and (column != column.round()).any():
        raise broken(file, f"column '{column.name}' holds {column.dtype}, neither whole numbers nor texts")
    return column.to_numpy(dtype=np.int64) if column.dtype.kind in "iuf" else column.astype(str).to_numpy(dtype=str)


def counts_up(column: Any) -> bool:
    """Whether a column numbers its rows."""
    return bool(column.dtype.kind in "iu" and len(column) > 1 and (np.diff(column.to_numpy()) == 1).all())


def named_columns(frame: Any, nameless: Sequence[int], drop: Sequence[str], path: object) -> tuple[Any, list[str]]:
    """The table without columns that have no name, where they name the rows or are empty, and what was left out.

    Args:
        frame: as pandas has read it.
        nameless: positions of columns without a name.
        drop: names of columns that are left out anyway.
        path: the file, for messages.

    Raises:
        ScenarioError: a column without a name holds something else.
    """
    notes, places = [], [place for place in nameless if frame.columns[place] not in drop]
    for place in places:
        column = frame.iloc[:, place]
        names = counts_up(column) or (place == 0 and column.dtype.kind != "f" and column.is_unique)
        if not (column.isna().all() or names):
            raise broken(path, f"column {place + 1} has no name; name it, or write drop: ['{frame.columns[place]}']")
        why = "names the rows" if names else "is empty"
        notes.append(f"{path}: column {place + 1} has no name and {why}: left out")
    return frame.drop(columns=frame.columns[places]), notes
