"""Logs of databases and services: JSON lines and Parquet, one record for every client in every round."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from simfl.audit.entries import Columns, column_roles, entries
from simfl.audit.log import COLUMNS, Limits, Log
from simfl.core.errors import MissingError, SimflError
from simfl.core.json_data import JsonObject

CHUNK = 10**6


def json_lines(path: Path, columns: Columns | None = None) -> Log:
    """Reads one JSON object a line.

    Raises:
        SimflError: a line is no object with the columns.
    """
    with open(path, encoding="utf-8-sig") as file:
        first = next((line for line in iter(lambda: file.readline(Limits.LINE), "") if line.strip()), None)
    if first is None:
        raise SimflError(f"{path}: the log is empty")
    header = list(_record(path, 1, first))
    roles = column_roles(path, header, columns)
    if not roles:
        raise SimflError(f"{path}:1: no round and client; name them with --columns round=NAME,client=NAME")
    return entries(path, _lines(path, roles), roles, header)


def _lines(path: Path, columns: dict[str, str]) -> Iterator[tuple[Any, Any]]:
    numbers: list[int] = []
    rows: list[list[str]] = []
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(iter(lambda: file.readline(Limits.LINE), ""), start=1):
            if line.strip():
                record = _record(path, number, line)
                numbers.append(number)
                rows.append([_word(path, number, record.get(columns[what])) for what in columns])
            if len(rows) == CHUNK:
                yield _frame(numbers, rows, columns)
                numbers, rows = [], []
    if rows:
        yield _frame(numbers, rows, columns)


def _frame(numbers: list[int], rows: list[list[str]], columns: dict[str, str]) -> tuple[Any, Any]:
    import pandas

    return np.array(numbers), pandas.DataFrame(rows, columns=list(columns.values()), dtype="str")


ONE_A_LINE = 'JSON lines are read: one object a line, {"round": 0, "client": "ann"}'


def _record(path: Path, number: int, line: str) -> JsonObject:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise SimflError(f"{path}:{number}: not a JSON object on one line; {ONE_A_LINE}") from None
    if not isinstance(record, dict):
        raise SimflError(f"{path}:{number}: not a JSON object on one line; {ONE_A_LINE}")
    return record


def _word(path: Path, number: int, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise SimflError(f"{path}:{number}: a round, client or weight is neither a number nor a word; {ONE_A_LINE}")
    return value if isinstance(value, str) else repr(value)


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
                words[columns[what]] = ["" if value is None else _text(value) for value in column.to_pylist()]
        yield np.arange(start, start + batch.num_rows), pandas.DataFrame(words, dtype="str")
        start += batch.num_rows


def _text(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)
