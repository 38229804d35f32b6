"""Logs that are matrices: one row a round, one column a client; as text with or without names, NPY and NPZ."""

import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simfl.audit.entries import DIGITS, MORE_DIGITS, in_order, written_otherwise
from simfl.audit.log import Limits, Log, check_weights, label_word, plain, sparse
from simfl.audit.log_columns import LogOptions, is_likely
from simfl.audit.log_table import CHUNK, Table, WordColumn, text_frames
from simfl.core.errors import SimflError
from simfl.core.storage.text_table import Dialect, is_number, open_text
from simfl.core.types import Floats
from simfl.privacy.multiround.weight_reading import LARGEST

FORMS = (
    "neither the columns round,client[,weight] (or --columns round=NAME,client=NAME) nor a matrix "
    "of numbers under names (CSV, TSV, JSON, Parquet, NPY and NPZ are read)"
)

NO_PARTICIPATION = (
    "this is a table of numbers, not of participation: a matrix holds 0 where a client took no part, and else 1 or a "
    "weight; give --form matrix if it is one"
)

INDEX = re.compile(r"|index|unnamed: \d+|t|time|date|row|id|#")
"""Names of a first column that numbers the rows, besides those of rounds."""

METRICS = {"loss", "accuracy", "acc", "auc", "f1", "precision", "recall", "lr", "rmse", "mse", "mae", "perplexity"}
"""Words in names of columns that no client has."""


def array_matrix(path: Path, options: LogOptions) -> Log:
    """Reads an NPY or NPZ file (one array, or what ``scipy.sparse.save_npz`` writes).

    Raises:
        SimflError: it holds no participation matrix, or one too large.
    """
    try:
        array = _npy(path) if path.suffix.lower() == ".npy" else _npz(path)
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile, KeyError, NotImplementedError, zlib.error) as error:
        problem = " ".join(str(error).split())[:200]
        raise SimflError(f"{path}: not an array that can be read: {problem}") from None
    if 0 in array.shape:
        raise SimflError(f"{path}: the log is empty")
    array, is_sparse = array.astype(np.int64) if array.dtype.kind == "b" else array, hasattr(array, "tocsr")
    first = (array[:, [0]].toarray() if is_sparse else array[:, :1]).ravel()
    words = [label_word(value) for value in first.tolist()]
    rest = array[:, 1:].data if is_sparse else array[:, 1:]
    indexed = _is_index(path, None, words, array.shape[1], bool(np.isin(rest, (0, 1)).all()), options)
    values = array[:, 1:] if indexed else array
    largest = LARGEST if array.dtype.kind in "iu" else np.inf  # a double is what it is
    small = is_sparse and values.shape[0] * values.shape[1] < 10**6
    cells = values.toarray() if small else values.data if is_sparse else values
    check_weights(cells, path, largest=largest)
    if is_sparse:
        return _log(path, values.tocsr(), range(values.shape[1]), words if indexed else None, options)
    rounds, clients = np.nonzero(values)
    weights = values[rounds, clients]
    matrix = sparse(weights if weights.dtype.kind == "f" else weights.astype(float), rounds, clients, values.shape)
    return _log(path, matrix, range(values.shape[1]), words if indexed else None, options)


@dataclass(frozen=True)
class _Cells:
    """The cells of a matrix that are not 0, and what tells whether its first column is a client.

    Attributes:
        weights, rounds, clients: of each cell, (n,).
        count: of rows.
        words: the cells of the first column.
        binary: all others are 0 or 1.
        long: words among which some have more digits than tell doubles apart.
    """

    weights: Floats
    rounds: Any
    clients: Any
    count: int
    words: list[str]
    binary: bool
    long: list[str]


def text_matrix(path: Path, dialect: Dialect, options: LogOptions) -> Log:
    """A matrix as text, one row a round, one column a client, with or without a header of names.

    Raises:
        SimflError: it is none, or it is not clear whether its first column is a client.
    """
    header = list(dialect.header)
    has_names = dialect.commented or _has_names(header)
    cells = _cells(path, dialect, dialect.skipped + int(has_names and not dialect.commented))
    name = header[0] if has_names else None
    indexed = int(_is_index(path, name, cells.words, len(header), cells.binary, options))
    if not indexed and (wrong := [word for word in cells.words if word and not is_number(word)]):
        raise SimflError(f"{path}: not a matrix of numbers: '{plain(wrong[0])}'")
    rows_used = cells.clients >= indexed
    weights, rounds, clients = cells.weights[rows_used], cells.rounds[rows_used], cells.clients[rows_used] - indexed
    if (impossible := ~((weights >= 0) & (weights <= LARGEST))).any():
        at = int(np.argmax(impossible))
        row = np.zeros((1, len(header)))
        row[0, clients[at]] = weights[at]
        check_weights(row, path, int(rounds[at]), LARGEST)
    if (clash := written_otherwise(cells.long, np.array([*map(_float, cells.long)]))).any():
        clashing = {_float(cells.long[place]) for place in np.flatnonzero(clash)}
        at = next(place for place, weight in enumerate(weights.tolist()) if weight in clashing)
        raise SimflError(f"{path}: round {rounds[at]}, client {clients[at]}: {MORE_DIGITS}")
    width = len(header) - indexed
    matrix = sparse(weights, rounds, clients, (cells.count, width))
    names: Sequence[Any] = header[indexed:] if has_names else range(width)
    notes = (dialect.note,) if dialect.note else ()
    return _log(path, matrix, names, cells.words if indexed else None, options, notes)


def _cells(path: Path, dialect: Dialect, first: int) -> _Cells:
    """
    Raises:
        SimflError: there are none, or too many, or no numbers.
    """
    parts: list[tuple[Any, Any, Any]] = []
    words: list[str] = []
    long: dict[str, None] = {}
    count, binary = 0, True
    for labels, values, cells in _rows(path, dialect, first, len(dialect.header)):
        rounds, clients = np.nonzero(values)
        parts.append((values[rounds, clients], rounds + count, clients))
        binary &= bool(np.isin(values[:, 1:], (0, 1)).all())
        words, count = words + labels, count + len(values)
        long |= dict.fromkeys(cells)
        if sum(len(part[0]) for part in parts) > Limits.ENTRIES:
            raise SimflError(f"{path}: more than the {Limits.ENTRIES} entries that are read")
    if not count:
        raise SimflError(f"{path}: the log is empty")
    weights, rounds, clients = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _Cells(weights, rounds, clients, count, words, binary, list(long))


def table_matrix(table: Table, options: LogOptions) -> Log:
    """A matrix in a table with names, as Parquet and JSON have it.

    Raises:
        SimflError: it is none.
    """
    names = sorted(table.header, key=lambda name: not name.startswith("__index_level_"))
    if not all(name in table.columns for name in names):
        raise SimflError(f"{table.path}: {NO_PARTICIPATION}")
    first = table.columns[names[0]]
    words = [first.words[code] for code in first.codes.tolist()]
    values = np.column_stack([_numbers(table, name) for name in names])
    binary = bool(np.isin(values[:, 1:], (0, 1)).all())
    name = "index" if names[0].startswith("__index_level_") else names[0]
    indexed = int(_is_index(table.path, name, words, len(names), binary, options))
    values, names = values[:, indexed:], names[indexed:]
    if np.isnan(values).any():
        raise SimflError(f"{table.path}: not a matrix of numbers")
    check_weights(values, table.path, largest=LARGEST)
    rounds, clients = np.nonzero(values)
    matrix = sparse(values[rounds, clients], rounds, clients, values.shape)
    return _log(table.path, matrix, names, words if indexed else None, options)


def _numbers(table: Table, name: str) -> Floats:
    column = table.columns[name]
    return np.array([_float(word) if is_number(word) else np.nan for word in column.words])[column.codes]


def _float(word: str) -> float:
    return float(word.replace(",", "."))


def _has_names(header: Sequence[str]) -> bool:
    """Whether the first line names the columns: they are no numbers, or number the columns from 0 or 1 on."""
    numbers = [cell for cell in header if is_number(cell)]
    rest = [cell for cell in header[1:] if is_number(cell)]
    if len(rest) < len(header) - 1 or len(header) == 1:
        return len(numbers) < len(header)
    counted = header if len(numbers) == len(header) else header[1:]
    up = any(list(counted) == [str(start + i) for i in range(len(counted))] for start in (0, 1))
    return (up and len(counted) > 2) or (len(numbers) < len(header) and _is_index_name(header[0]))


def _is_index_name(name: str) -> bool:
    return bool(INDEX.fullmatch(name.strip().lower())) or is_likely(name, "round")


def _rows(path: Path, dialect: Dialect, first: int, width: int) -> Iterator[tuple[list[str], Floats, list[str]]]:
    """The rows of a matrix, piece after piece: the words of the first column, all values (rows, width), 0 in the first
    column where it holds no number; and all cells as words where some have more digits than tell doubles apart.
    """
    import pandas

    many = _has_many_digits(path, dialect)
    kinds: Any = "str" if many else {0: "str"} | dict.fromkeys(range(1, width), np.float64)
    try:
        for frame in text_frames(path, dialect, first, max(1, CHUNK // width), list(range(width)), kinds):
            frame = frame.dropna(how="all")
            words = frame[0].fillna("").astype(str).str.strip().tolist()
            head = np.array([_float(word) if is_number(word) else np.nan if word == "" else 0.0 for word in words])
            if not many:
                yield words, np.column_stack([head, frame.iloc[:, 1:].to_numpy()]), []
                continue
            cells = frame.to_numpy(dtype=object)
            rest = np.array([_float(cell) if isinstance(cell, str) else np.nan for cell in cells[:, 1:].ravel()])
            yield words, np.column_stack([head, rest.reshape(len(head), -1)]), cells[pandas.notna(cells)].tolist()
    except ValueError as error:
        raise SimflError(f"{path}: not a matrix of numbers: {' '.join(str(error).split())[:200]}") from None


def _has_many_digits(path: Path, dialect: Dialect) -> bool:
    """Whether a file holds a number of more digits than tell doubles apart."""
    mark, before = "," if dialect.separator == ";" else ".", ""
    with open_text(path, dialect.encoding) as text:
        while block := text.read(2**20):
            digits = before + block.replace(mark, "")
            if re.search(rf"\d{{{DIGITS + 1}}}", digits):
                return True
            before = digits[-DIGITS:]
    return False


def _is_index(
    path: Path, name: str | None, words: Sequence[str], width: int, binary: bool, options: LogOptions
) -> bool:
    """Whether the first column of a matrix names its rows, rather than being a client.

    Args:
        name: of the column; None = it has none.
        words: its cells.
        width: of the matrix.
        binary: all others are 0 or 1.

    Raises:
        SimflError: it may be both.
    """
    if options.form in ("matrix", "indexed") or width == 1:
        return options.form == "indexed"
    if name is not None and _is_index_name(name):
        return True
    if not all(map(is_number, words)):
        return not any(word == "" for word in words)
    values = np.array([_float(word) for word in words])
    if np.isin(values, (0, 1)).all() or len(values) < 2 or len(np.unique(values)) < len(values):
        return False
    whole = bool((values == np.floor(values)).all())
    if not whole and not (np.diff(values) > 0).all():
        return False
    if whole and binary and len(values) > 2:
        return True
    what = "the first column" if name is None else f"column '{plain(name)}'"
    raise SimflError(f"{path}: {what} may name the rounds or be a client; give --form indexed, or --form matrix")


def _check_participation(path: Path, matrix: Any, log: Log, options: LogOptions) -> Log:
    """
    Raises:
        SimflError: these are numbers, but not of who took part: they are no weights with zeros, have names of measures,
            or the same names in rows and columns.
    """
    words = {part for name in log.clients for part in re.split(r"[^a-z0-9]+", str(name).lower())}
    missing = np.count_nonzero(np.diff(matrix.tocsc().indptr) < matrix.shape[0])
    wrong = 2 * missing < matrix.shape[1] or words & METRICS
    square = set(map(str, log.rounds)) == set(map(str, log.clients)) and not isinstance(log.rounds, range)
    if options.form is None and (square or (wrong and not np.isin(matrix.data, (0, 1)).all())):
        raise SimflError(f"{path}: {NO_PARTICIPATION}")
    return log


def _log(
    path: Path,
    matrix: Any,
    clients: Sequence[Any],
    words: Sequence[str] | None,
    options: LogOptions,
    notes: tuple[str, ...] = (),
) -> Log:
    """The log of a matrix whose rows have these labels, in their order."""
    if words is None:
        about = ("a matrix, one row a round", *notes)
        return _check_participation(path, matrix, Log(matrix, range(matrix.shape[0]), clients, words=about), options)
    first = {word: place for place, word in enumerate(dict.fromkeys(words))}
    codes = np.array([first[word] for word in words])
    labels, place_of, order = in_order(WordColumn(codes, list(first)), of_rounds=True)
    if len(labels) < len(words):
        twice = next(word for place, word in enumerate(words) if first[word] != place and word in words[:place])
        raise SimflError(f"{path}: round {plain(twice)} has several rows, and a matrix one a round")
    matrix = matrix.tocsr()[np.argsort(place_of, kind="stable")]
    about = ("a matrix whose first column names the rounds", *([order] if order else []), *notes)
    return _check_participation(path, matrix, Log(matrix, labels, clients, words=about), options)


def _npy(path: Path) -> Any:
    array = np.load(path, allow_pickle=False, mmap_mode="r")  # the header first
    return np.array(_fitting(array, array.shape, path))


def _npz(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        inflated = sum(member.file_size for member in archive.infolist())
        if inflated > Limits.INFLATED:
            raise SimflError(f"{path}: {inflated} bytes when unpacked; at most {Limits.INFLATED} are read")
    with np.load(path, allow_pickle=False) as file:
        if "format" in file.files:
            from scipy.sparse import load_npz

            if "shape" in file.files:
                shape = tuple(int(n) for n in np.ravel(file["shape"]))
                if max(shape, default=0) > Limits.LABELS:
                    raise SimflError(f"{path}: {max(shape)} rounds or clients; at most {Limits.LABELS} are read")
            matrix = _fitting(load_npz(path), (), path).tocsr()
            matrix.check_format(full_check=True)
            return matrix
        if len(file.files) != 1:
            names = ", ".join(file.files[:20])
            raise SimflError(f"{path}: holds {len(file.files)} arrays ({names}); one is needed")
        return _fitting(file[file.files[0]], None, path)


def _fitting(array: Any, shape: tuple[int, ...] | None, path: Path) -> Any:
    """The array if it is a matrix of numbers with no more cells than are read; a sparse one has few anyway."""
    if array.ndim != 2:
        raise SimflError(f"{path}: a participation matrix has two dimensions (rounds, clients), not {array.ndim}")
    if array.dtype.kind not in "biuf":
        raise SimflError(f"{path}: participation weights must be real numbers, not {array.dtype}")
    if shape != () and np.prod(array.shape, dtype=float) > Limits.CELLS:
        raise SimflError(f"{path}: {array.shape[0]} x {array.shape[1]} cells; at most {Limits.CELLS} are read")
    return array
