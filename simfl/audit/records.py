"""Logs of databases and services: JSON lines and Parquet, one record for every client in every round."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from simfl.audit.entries import NO_WEIGHT, Columns, column_roles, entries
from simfl.audit.log import COLUMNS, Limits, Log, label_word
from simfl.core.errors import MissingError, SimflError
from simfl.core.json_data import JsonObject

CHUNK = 10**6

ONE_A_LINE = 'JSON lines are read: one object a line, {"round": 0, "client": "ann"}'


class Written(str):
    """A number with a point or an exponent, with all the digits that it has in the file."""


DECODER = json.JSONDecoder(parse_float=Written)


def json_lines(path: Path, columns: Columns | None = None) -> Log:
    """Reads one JSON object a line; its columns are the keys of all of them.

    Raises:
        SimflError: a line is no object with the columns.
    """
    first = next(_records(path), None)
    if first is None:
        raise SimflError(f"{path}: the log is empty")
    keys = _Keys(path, *first, columns)
    return entries(path, _lines(path, keys), keys.roles, keys.header)


class _Keys:
    """The keys of all records so far, in order of appearance.

    Attributes:
        roles: the key that is the round, the client and perhaps the weight.
    """

    def __init__(self, path: Path, number: int, record: JsonObject, chosen: Columns | None) -> None:
        self.header = list(record)
        self.roles = column_roles(path, self.header, chosen, number)
        if not self.roles:
            raise SimflError(f"{path}:{number}: no round and client; name them with --columns round=NAME,client=NAME")
        self._path, self._first, self._chosen, self._known = path, number, chosen, set(record)

    def add(self, number: int, record: JsonObject) -> None:
        """Takes in the keys of a later record.

        Raises:
            SimflError: one of them is the round, client or weight, which then is missing in the first record; or they
                are too many.
        """
        if record.keys() <= self._known:
            return
        new = [key for key in record if key not in self._known]
        roles = column_roles(self._path, list(dict.fromkeys((*self.roles.values(), *new))), self._chosen, number)
        for what, key in roles.items():
            if self.roles.get(what) != key:
                raise SimflError(f"{self._path}:{self._first}: {NO_WEIGHT if what == 'weight' else f'no {what}'}")
        self.header += new
        self._known.update(new)
        if len(self.header) > Limits.COLUMNS:
            raise SimflError(f"{self._path}:{number}: more than the {Limits.COLUMNS} columns that are read")


def _records(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """The objects of all lines that are not blank, with the numbers of the lines."""
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(iter(lambda: file.readline(Limits.LINE), ""), start=1):
            if line.strip():
                yield number, _record(path, number, line)


def _lines(path: Path, keys: _Keys) -> Iterator[tuple[Any, Any]]:
    numbers: list[int] = []
    rows: list[list[str]] = []
    roles = list(keys.roles.items())
    for number, record in _records(path):
        keys.add(number, record)
        numbers.append(number)
        rows.append([_word(path, number, what, record.get(key)) for what, key in roles])
        if len(rows) == CHUNK:
            yield _frame(numbers, rows, keys.roles)
            numbers, rows = [], []
    if rows:
        yield _frame(numbers, rows, keys.roles)


def _frame(numbers: list[int], rows: list[list[str]], columns: dict[str, str]) -> tuple[Any, Any]:
    import pandas

    return np.array(numbers), pandas.DataFrame(rows, columns=list(columns.values()), dtype="str")


def _record(path: Path, number: int, line: str) -> JsonObject:
    try:
        record = DECODER.decode(line)
    except (ValueError, RecursionError):
        raise SimflError(f"{path}:{number}: not a JSON object on one line; {ONE_A_LINE}") from None
    if not isinstance(record, dict):
        raise SimflError(f"{path}:{number}: not a JSON object on one line; {ONE_A_LINE}")
    return record


def _word(path: Path, number: int, what: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise SimflError(f"{path}:{number}: a round, client or weight is neither a number nor a word; {ONE_A_LINE}")
    if what == "weight":
        return value if isinstance(value, str) else repr(value)
    return label_word(Decimal(value) if isinstance(value, Written) else value)


def parquet(path: Path, columns: Columns | None = None) -> Log:
    """Reads a Parquet file.

    Raises:
        MissingError: pyarrow is not installed.
        SimflError: the file cannot be read, or lacks the columns.
    """
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise MissingError(f"{path}: Parquet needs pyarrow: pip install 'simfl[parquet]'") from None
    try:
        with ParquetFile(path) as file:
            header = list(file.schema_arrow.names)
            roles = column_roles(path, header, columns)
            if not roles:
                raise SimflError(f"{path}: no round and client; name them with --columns round=NAME,client=NAME")
            if file.metadata.num_rows > Limits.ENTRIES:
                raise SimflError(f"{path}: more than the {Limits.ENTRIES} entries that are read")
            schema = file.schema_arrow
            words = [name for name in roles.values() if str(schema.field(name).type) in ("string", "large_string")]
        with ParquetFile(path, read_dictionary=words) as file:
            return entries(path, _batches(path, file, roles), roles, header, ", row ")
    except ArrowException as error:
        raise SimflError(f"{path}: not a Parquet file that can be read: {' '.join(str(error).split())[:200]}") from None


def _batches(path: Path, file: Any, columns: dict[str, str]) -> Iterator[tuple[Any, Any]]:
    import pandas
    import pyarrow

    types = pyarrow.types
    tests = (
        types.is_integer, types.is_floating, types.is_string, types.is_large_string, types.is_null, types.is_date,
        types.is_timestamp, types.is_decimal,
    )  # fmt: skip
    start = 1
    for batch in file.iter_batches(batch_size=CHUNK // 10, columns=list(columns.values())):
        words = {}
        for what in COLUMNS:
            if what in columns:
                column = batch.column(columns[what])
                if isinstance(column, pyarrow.DictionaryArray):  # a long word can be repeated for nothing
                    longest = max((len(_text(word)) for word in column.dictionary.to_pylist()), default=0)
                    if longest > Limits.LETTERS:
                        raise SimflError(f"{path}: a {what} of over {Limits.LETTERS} letters")
                kind = column.type.value_type if isinstance(column, pyarrow.DictionaryArray) else column.type
                if not any(test(kind) for test in tests):
                    raise SimflError(f"{path}: the column of the {what} holds {kind}, neither numbers nor words")
                if what != "weight" and types.is_floating(kind):
                    _check_whole(path, what, column)
                word = _text if what == "weight" else label_word
                words[columns[what]] = ["" if value is None else word(value) for value in column.to_pylist()]
        yield np.arange(start, start + batch.num_rows), pandas.DataFrame(words, dtype="str")
        start += batch.num_rows


def _check_whole(path: Path, what: str, column: Any) -> None:
    """
    Raises:
        SimflError: a round or client is so large a number of a column with a point that others may be the same.
    """
    values = column.to_numpy(zero_copy_only=False)
    largest = 2 ** (np.finfo(values.dtype).nmant + 1) - 1
    if (np.abs(values) > largest).any():
        raise SimflError(f"{path}: a {what} above {largest} in a column of {column.type}, which holds no larger whole "
                         "number for sure; write it as an integer or a word")  # fmt: skip


def _text(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)
