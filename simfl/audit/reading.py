"""Participation logs in the forms in which they come: a list of entries, a matrix, a results folder."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from simfl.audit.delimited import read_delimited
from simfl.audit.entries import NO_WEIGHT, Columns, column_roles, entries
from simfl.audit.log import COLUMNS, Limits, Log, array, label_word
from simfl.core.errors import IntegrityError, MissingError, SimflError, amount
from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import open_regular
from simfl.core.types import SERVER
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.multiround.participation_matrix import strong_guarantee
from simfl.results.file_names import SCENARIO
from simfl.results.folder import ResultsFolder
from simfl.results.run_files import participation_matrices, read_table, together
from simfl.runs.accounting import view_of_run
from simfl.scenario.yaml.reader import read as read_yaml

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


__all__ = ["Log", "read"]

READERS = {
    **dict.fromkeys((".npz", ".npy"), lambda path, columns: array(path)),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), json_lines),
    **dict.fromkeys((".parquet", ".pq"), parquet),
}


def read(path: Path | str, columns: Columns | None = None) -> Log:
    """Reads a participation log.

    Args:
        path: entries with the columns ``round,client[,weight]`` (CSV, TSV and other delimited text, JSON lines,
            Parquet), in any order and among others; a matrix with one row a round, as text (with or without a header
            of client names), NPY or NPZ (one array, or what ``scipy.sparse.save_npz`` writes); or the results folder
            of a run.
        columns: other names of columns, e.g. ``{"round": "iteration", "client": "uid"}``.

    Raises:
        SimflError: it is none of these, or an entry is impossible; the message names file and line.
    """
    path = Path(path)
    try:
        if path.is_dir():
            return _folder(path)
        open_regular(path).close()
        return READERS.get(path.suffix.lower(), read_delimited)(path, columns)
    except csv.Error as error:
        raise SimflError(f"{path}: not a CSV file: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SimflError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _folder(path: Path) -> Log:
    reader = ResultsFolder.open(path)
    if "observers" in reader.summary:
        raise SimflError(f"{path}: has several observers; its observers.csv says what each of them learned")
    file = reader.file("participation.csv")
    matrices = participation_matrices(file, int(reader.summary["rounds"]), int(reader.summary["clients"]))
    peers = () if set(matrices) == {SERVER} else ("the update of each client that sums up what others send, by itself",)
    matrix, strong = together(matrices), reader.summary.get("privacy_strong")
    seen = (*peers, *reader.summary.get("beside_sums", ()))
    tolerated = reader.summary.get("tolerated_colluders")
    weighting = read_yaml(reader.read(SCENARIO).decode(), SCENARIO).value["training"].get("weighting")
    samples = None if weighting == "equal" else read_table(reader.file("clients.csv")).samples.to_numpy()
    return Log(matrix, range(matrix.shape[0]), range(matrix.shape[1]), (), True, strong, seen, tolerated, samples)


def with_coalition(log: Log, path: Path, colluding: Sequence[int]) -> tuple[Log, bool]:
    """The log with the very rows that these clients and the server know, failed sessions' too, and whether it has them.

    As it is for others than folders of runs, runs of another simfl, runs whose messages nobody counts, and those that
    name plugin files, which an audit does not execute.
    """
    view = _view(path, colluding) if colluding else None
    if view is None or view.open or not view.same:  # rows would not say what updates count
        return log, False
    return replace(log, matrix=view.rows, rounds=view.round.tolist(), beside_sums=(), tolerated=None), True


def count_unsummed(path: Path) -> Any:
    """How many updates of each client of a run were seen in no sum, CSR (rounds, clients); None = not known."""
    view = _view(path, ())
    return None if view is None else view.alone


def _view(path: Path, colluding: Sequence[int]) -> ObserverView | None:
    """What the server and these clients of a run's folder have; None where it is not known."""
    if not path.is_dir():
        return None
    try:
        if read_yaml(ResultsFolder.open(path).read(SCENARIO).decode(), SCENARIO).value.get("plugins"):
            return None
        return view_of_run(path, "server", colluding)
    except IntegrityError:
        raise
    except SimflError:
        return None


def refuse_more_than_sums(log: Log, path: object, instead: str, colluders: int = 0) -> None:
    """
    Raises:
        SimflError: more than sums was seen, or is by the server and so many clients; ``instead``, what to do with the
            run's participation.csv.
    """
    if seen := more_than_sums(log, colluders):
        raise SimflError(f"{path}: {seen}; {instead} its participation.csv for the sums alone")


def more_than_sums(log: Log, colluders: int = 0) -> str:
    """In words, what else was seen; empty of a log that tells of nothing but sums."""
    if log.tolerated is not None and colluders > log.tolerated:
        why = f"{amount(colluders, 'colluder')} are more than the {log.tolerated} that the run's protocol tolerates"
        return f"{why}: single updates are open to them"
    if log.beside_sums:
        return f"more than sums was seen: {'; '.join(log.beside_sums)}"
    if log.strong is not None and (sums := strong_guarantee(log.matrix, log.doubles)) > log.strong:
        return (
            f"its sums hide {sums} clients among one another, but more than sums was seen, so that the run itself says "
            f"{log.strong}"
        )
    return ""
