"""Logs that are matrices: one row a round, one column a client; as text with or without names, NPY and NPZ."""

import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simfl.api.certificates import LARGEST
from simfl.api.files import Dialect, is_number
from simfl.deployment.audit.entries import MORE_DIGITS, in_order, written_otherwise
from simfl.deployment.audit.log import Limits, Log, check_weights, label_word, plain, sparse
from simfl.deployment.audit.log_columns import LogOptions, is_likely
from simfl.deployment.audit.log_table import Table, WordColumn, text_table
from simfl.plugins import SimflError

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

WORDS = {"true": "1", "false": "0"}
"""Cells of a matrix that are no numbers."""

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


def text_matrix(path: Path, dialect: Dialect, options: LogOptions) -> Log:
    """A matrix as text, one row a round, one column a client, with or without a header of names.

    Raises:
        SimflError: it is none, or it is not clear whether its first column is a client.
    """
    header = list(dialect.header)
    has_names = dialect.commented or _has_names(header)
    first = dialect.skipped + int(has_names and not dialect.commented)
    names = header if has_names else [str(place) for place in range(len(header))]
    return table_matrix(text_table(path, dialect, lambda _: "weight", names, first), options, has_names)


def table_matrix(table: Table, options: LogOptions, has_names: bool = True) -> Log:
    """A matrix in a table.

    Raises:
        SimflError: it is none, or too large, or it is not clear whether its first column is a client.
    """
    path = table.path
    names: list[Any] = sorted(table.header, key=lambda name: not name.startswith("__index_level_"))
    if not all(name in table.columns for name in names):
        raise SimflError(f"{path}: {NO_PARTICIPATION}")
    if len(names) * len(table.lines) > Limits.CELLS:
        raise SimflError(f"{path}: {len(table.lines)} x {len(names)} cells; at most {Limits.CELLS} are read")
    first = table.columns[names[0]]
    words = [first.words[code] for code in first.codes.tolist()]
    values = np.column_stack([np.array(_values(table, name))[table.columns[name].codes] for name in names])
    name = "index" if names[0].startswith("__index_level_") else names[0] if has_names else None
    indexed = int(_is_index(path, name, words, len(names), bool(np.isin(values[:, 1:], (0, 1)).all()), options))
    values, names = values[:, indexed:], names[indexed:]
    cells = {word: number for name in names for word, number in zip(table.columns[name].words, _values(table, name))}
    if wrong := [word for word, number in cells.items() if word and number != number and word.lower() != "nan"]:
        raise SimflError(f"{path}: not a matrix of numbers: '{plain(wrong[0])}'")
    if np.isnan(values).all():
        raise SimflError(f"{path}: not a matrix of numbers: all cells are empty")
    check_weights(values, path, largest=LARGEST)
    numbers = np.array(list(cells.values()))
    if (clash := written_otherwise(list(cells), numbers)).any():
        place = np.argwhere(np.isin(values, numbers[clash]))[0]
        raise SimflError(f"{path}: round {place[0]}, client {place[1]}: {MORE_DIGITS}")
    rounds, clients = np.nonzero(values)
    if len(rounds) > Limits.ENTRIES:
        raise SimflError(f"{path}: more than the {Limits.ENTRIES} entries that are read")
    matrix = sparse(values[rounds, clients], rounds, clients, values.shape)
    notes = (table.note,) if table.note else ()
    return _log(path, matrix, names if has_names else range(len(names)), words if indexed else None, options, notes)


def _values(table: Table, name: str) -> list[float]:
    """The words of a column as numbers, NaN where they are none."""
    words = table.columns[name].words
    return [_float(word) if _is_cell(word) else float("nan") for word in words]


def _float(word: str) -> float:
    return float(WORDS.get(word.lower(), word).replace(",", "."))


def _is_cell(word: str) -> bool:
    return word.lower() in WORDS or is_number(word)


def _has_names(header: Sequence[str]) -> bool:
    """Whether the first line names the columns: they are no numbers, or number the columns from 0 or 1 on."""
    numbers = [cell for cell in header if _is_cell(cell)]
    rest = [cell for cell in header[1:] if _is_cell(cell)]
    if len(rest) < len(header) - 1 or len(header) == 1:
        return len(numbers) < len(header)
    counted = header if len(numbers) == len(header) else header[1:]
    up = any(list(counted) == [str(start + i) for i in range(len(counted))] for start in (0, 1))
    return (up and len(counted) > 2) or (len(numbers) < len(header) and _is_index_name(header[0]))


def _is_index_name(name: str) -> bool:
    return bool(INDEX.fullmatch(name.strip().lower())) or is_likely(name, "round")


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
    if not all(map(_is_cell, words)):
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
