"""Logs as tables of words, whatever file they come in: text, JSON, Parquet.

A column is kept as its different words and, for every row, which of them stands there. So a log of a hundred million
rows is read in pieces, and all that is decided about a column looks at each of its words once.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simfl.api.files import MISSING, Dialect, number_of, open_bytes, open_text
from simfl.deployment.audit.log import Limits, label_word
from simfl.plugins import Bools, Floats, Integers, JsonObject, MissingError, SimflError

CHUNK = 3 * 10**6
"""Cells that are taken at a time."""

KEPT = 10**5
"""Different words of a column that nobody asks for; one with more is named, and not kept."""

ONE_A_LINE = 'JSON lines are read: one object a line, {"round": 0, "client": "ann"}'


class WordColumn(NamedTuple):
    """A column of a table.

    Attributes:
        codes: which word stands in each row, int32 (rows,).
        words: the different words in order of appearance; "" where there is no value.
    """

    codes: Any
    words: list[str]

    @property
    def used(self) -> list[str]:
        """The words that stand in some row."""
        return [self.words[code] for code in np.flatnonzero(np.bincount(self.codes, minlength=len(self.words)))]


@dataclass(frozen=True)
class Table:
    """A log, a row for a client in a round, or for a round.

    Attributes:
        path: of the file.
        place: what stands between the path and the number of a row in messages.
        lines: where each row stands in the file, int64 (rows,).
        header: the names of all columns.
        columns: those that were kept.
        comma: the decimal point is a comma.
        note: how the file is written, if not as usual.
    """

    path: Path
    place: str
    lines: Integers
    header: tuple[str, ...]
    columns: Mapping[str, WordColumn]
    comma: bool = False
    note: str = ""

    def of_rows(self, rows: Any) -> "Table":
        """Some of its rows: their places, or a truth value for each."""
        columns = {name: WordColumn(column.codes[rows], column.words) for name, column in self.columns.items()}
        return replace(self, lines=self.lines[rows], columns=columns)

    def numbers_of(self, column: WordColumn) -> Floats:
        """The words of a column as numbers, (n,), NaN where they are none."""
        words = (word.replace(",", ".") if self.comma else word for word in column.words)
        return np.array([number_of(word, np.nan) for word in words])

    def refuse(self, wrong: Bools, message: str) -> None:
        """
        Raises:
            SimflError: a row is wrong; the message names the first one.
        """
        if wrong.any():
            raise SimflError(f"{self.path}{self.place}{self.lines[np.argmax(wrong)]}: {message}")

    def refuse_words(self, name: str, wrong: Callable[[str], bool], message: str) -> None:
        """The same for the rows in which a wrong word of a column stands."""
        column = self.columns[name]
        self.refuse(np.array([wrong(word) for word in column.words], dtype=bool)[column.codes], message)


class TableBuilder:
    """Takes in a log piece by piece.

    Args:
        path, place: as for :class:`Table`.
        wanted: what a column of this name is kept for however many words it has; "" = for nothing. A "weight" keeps
            all the digits that it has.
    """

    def __init__(self, path: Path, place: str, wanted: Callable[[str], str]) -> None:
        self.path, self.place, self.wanted = path, place, wanted
        self._lines: list[Integers] = []
        self._rows = 0
        self._codes: dict[str, list[tuple[int, Integers | None, Integers]]] = {}
        self._words: dict[str, dict[str, int]] = {}
        self._crowded: set[str] = set()

    @property
    def header(self) -> tuple[str, ...]:
        """The names of all columns so far."""
        return tuple(self._words)

    def add(self, lines: Integers, columns: Mapping[str, tuple[Integers | None, Any]]) -> None:
        """Takes in rows.

        Args:
            lines: where they stand, (rows,).
            columns: by name, the places of some of these rows (None = all), and their words, object (n,).

        Raises:
            SimflError: there are too many rows, columns or words.
        """
        import pandas

        for name, (rows, words) in columns.items():
            known = self._words.setdefault(name, {})
            if len(self._words) > Limits.COLUMNS:
                first = lines[0 if rows is None else rows[0]]
                raise SimflError(f"{self.path}:{first}: more than the {Limits.COLUMNS} columns that are read")
            if name in self._crowded or (not self.wanted(name) and len(pandas.unique(words[: 2 * KEPT])) > KEPT):
                self._crowded.add(name)
                self._codes.pop(name, None)
                continue
            codes, seen = pandas.factorize(words)
            texts = [word.strip() if isinstance(word, str) else "" for word in seen]
            numbers = [known.setdefault(word, len(known)) for word in texts]
            if -1 in codes:
                numbers.append(known.setdefault("", len(known)))  # the last one, as which -1 counts
            self._codes.setdefault(name, []).append((self._rows, rows, np.array(numbers, dtype=np.int32)[codes]))
            if len(known) > KEPT and not self.wanted(name):
                self._crowded.add(name)
                del self._codes[name]
            elif len(known) > 2 * Limits.LABELS:
                raise SimflError(f"{self.path}: more than the {Limits.LABELS} rounds or clients that are read")
        self._lines.append(lines)
        self._rows += len(lines)
        if self._rows > Limits.ENTRIES:
            raise SimflError(f"{self.path}: more than the {Limits.ENTRIES} entries that are read")

    def table(self, comma: bool = False, note: str = "") -> Table:
        """All that was taken in.

        Raises:
            SimflError: that is nothing.
        """
        if not self._rows:
            raise SimflError(f"{self.path}: the log is empty")
        columns = {name: self._column(name) for name in self._words if name not in self._crowded}
        return Table(self.path, self.place, np.concatenate(self._lines), self.header, columns, comma, note)

    def _column(self, name: str) -> WordColumn:
        known, parts = self._words[name], self._codes.get(name, [])
        if sum(len(codes) for _, _, codes in parts) == self._rows:
            return WordColumn(np.concatenate([codes for _, _, codes in parts]), list(known))
        codes = np.full(self._rows, known.setdefault("", len(known)), dtype=np.int32)
        for start, rows, some in parts:
            codes[start + (np.arange(len(some)) if rows is None else rows)] = some
        return WordColumn(codes, list(known))


def text_table(path: Path, dialect: Dialect, wanted: Callable[[str], str], names: list[str], skipped: int) -> Table:
    """A table of text.

    Args:
        path, wanted: as for :class:`TableBuilder`.
        dialect: how it is written.
        names: of its columns.
        skipped: lines before its rows.

    Raises:
        SimflError: a row has too many cells, or the table is empty or too large.
    """
    if len(set(names)) < len(names):
        raise SimflError(f"{path}:{skipped}: a column is named twice")
    builder = TableBuilder(path, ":", wanted)
    try:
        for chunk in _text_frames(path, dialect, names, skipped):
            filled = chunk.notna().any(axis=1).to_numpy()  # the others are blank lines
            chunk = chunk if filled.all() else chunk[filled]
            words = {name: (None, chunk[name].to_numpy(dtype=object)) for name in names}
            builder.add(chunk.index.to_numpy() + skipped + 1, words)
    except ValueError as error:
        raise SimflError(f"{path}: not a table of {','.join(names[:20])}: {_line(error)}") from None
    return builder.table(dialect.separator == ";", dialect.note)


def _text_frames(path: Path, dialect: Dialect, names: list[str], skipped: int) -> Iterator[Any]:
    """A table of text as data frames of words, missing values as pandas has them.

    Raises:
        ValueError: a row has more cells than there are names.
    """
    import warnings

    import pandas

    with open_text(path, dialect.encoding) as text, warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)  # surplus cells would be dropped
        try:
            yield from pandas.read_csv(
                text, names=names, header=None, skiprows=skipped, index_col=False, skipinitialspace=True,
                sep=r"\s+" if dialect.separator == " " else dialect.separator, keep_default_na=False,
                na_values=list(MISSING), skip_blank_lines=False, chunksize=max(1, CHUNK // len(names)), dtype="str",
            )  # fmt: skip
        except pandas.errors.ParserWarning as error:
            raise ValueError(str(error)) from None


class Written(str):
    """A number with a point or an exponent, with all the digits that it has in the file."""


DECODER = json.JSONDecoder(parse_float=Written)


def json_table(path: Path, wanted: Callable[[str], str], lists: bool, likely: Callable[[str, str], bool]) -> Table:
    """Records, as one JSON object a line, or in any form in which one JSON value holds them.

    Args:
        path, wanted: as for :class:`TableBuilder`.
        lists, likely: as for :func:`simfl.deployment.audit.json_forms.records_of`.

    Raises:
        SimflError: it holds none, or too much.
    """
    from simfl.deployment.audit.json_forms import records_of

    builder = TableBuilder(path, ":", wanted)
    with open_bytes(path) as file:
        start = file.read(Limits.LINE + 1)
    whole = len(start) <= Limits.LINE and records_of(path, start, DECODER, lists, wanted, likely)
    numbered = enumerate(whole, start=1) if whole else _records(path)
    lines: list[int] = []
    sparse: dict[str, tuple[list[int], list[str]]] = {}
    for number, record in numbered:
        for name, value in record.items():
            rows, words = sparse.setdefault(name, ([], []))
            rows.append(len(lines))
            words.append(_word(wanted(name), value))
        lines.append(number)
        if len(lines) * len(record) >= CHUNK:
            _take(builder, lines, sparse)
            lines, sparse = [], {}
    if lines:
        _take(builder, lines, sparse)
    return replace(builder.table(), place=", record " if whole else ":")


def _take(builder: TableBuilder, lines: list[int], sparse: Mapping[str, tuple[list[int], list[str]]]) -> None:
    columns = {name: (np.array(rows), np.array(words, dtype=object)) for name, (rows, words) in sparse.items()}
    builder.add(np.array(lines), columns)


def _records(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """The objects of all lines that are not blank, with the numbers of the lines."""
    with open_text(path, "utf-8-sig") as file:
        for number, line in enumerate(iter(lambda: file.readline(Limits.LINE), ""), start=1):
            if not line.strip():
                continue
            try:
                record = DECODER.decode(line)
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict):
                raise SimflError(f"{path}:{number}: not a JSON object on one line; {ONE_A_LINE}")
            yield number, record


def _word(role: str, value: object) -> str:
    """A value of JSON as a word; weights keep all their digits, other numbers are 1 where they are 1.0."""
    if value is None:
        return ""
    if isinstance(value, (list, dict)):
        return json.dumps([_word("", each) for each in value] if isinstance(value, list) else value)
    if isinstance(value, Written):
        return str(value) if role == "weight" else label_word(Decimal(value))
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, bool) or (value != value and role == "weight") else label_word(value)


def parquet_table(path: Path, wanted: Callable[[str], str]) -> Table:
    """A Parquet file.

    Raises:
        MissingError: pyarrow is not installed.
        SimflError: the file cannot be read.
    """
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise MissingError(f"{path}: Parquet needs pyarrow: pip install 'simfl[parquet]'") from None
    builder = TableBuilder(path, ", row ", wanted)
    try:
        with ParquetFile(path) as file:
            schema = file.schema_arrow
            if file.metadata.num_rows > Limits.ENTRIES:
                raise SimflError(f"{path}: more than the {Limits.ENTRIES} entries that are read")
            words = [name for name in schema.names if str(schema.field(name).type) in ("string", "large_string")]
        with ParquetFile(path, read_dictionary=words) as file:
            start = 1
            for batch in file.iter_batches(batch_size=max(1, CHUNK // 10 // max(1, len(schema.names)))):
                columns = {name: (None, _words(path, name, wanted(name), batch.column(name))) for name in schema.names}
                builder.add(np.arange(start, start + batch.num_rows), columns)
                start += batch.num_rows
    except MemoryError:  # of which pyarrow's is an ArrowException
        raise
    except ArrowException as error:
        raise SimflError(f"{path}: not a Parquet file that can be read: {_line(error)}") from None
    return builder.table()


def _words(path: Path, name: str, role: str, column: Any) -> Any:
    """The words of a batch of a column, object (rows,)."""
    import pyarrow

    types, kind = pyarrow.types, column.type
    if isinstance(column, pyarrow.DictionaryArray):  # a long word can be repeated for nothing
        kind = column.type.value_type
        if role and max((len(str(word)) for word in column.dictionary.to_pylist()), default=0) > Limits.LETTERS:
            raise SimflError(f"{path}: a {name} of over {Limits.LETTERS} letters")
    if types.is_floating(kind) and role in ("round", "client", "likely"):
        values = column.to_numpy(zero_copy_only=False)
        largest = 2 ** (np.finfo(values.dtype).nmant + 1) - 1
        if (np.abs(values) > largest).any():
            raise SimflError(f"{path}: a {name} above {largest} in a column of {kind}, which holds no larger whole "
                             "number for sure; write it as an integer or a word")  # fmt: skip
    form: Callable[[Any], str] = _text if role == "weight" else lambda value: _word("", value)
    return np.array([form(value) for value in column.to_pylist()], dtype=object)


def _text(value: object) -> str:
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
