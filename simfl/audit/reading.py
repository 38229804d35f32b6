"""Participation logs in the forms in which they come: a list of entries, a matrix, a results folder."""

import csv
import re
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.errors import SimflError, suggestion
from simfl.results import participation_matrix
from simfl.stored import Stored

__all__ = ["Log", "read"]

COLUMNS = ("round", "client", "weight")
CHUNK = 10**6
WHOLE = re.compile(r"-?[0-9]{1,4000}")


@dataclass(frozen=True)
class Log:
    """Who was aggregated in which round.

    Attributes:
        matrix: scipy CSR array, shape (J, N): weights, 0 where a client took no part.
        rounds: J labels, in order of time.
        clients: N labels.
    """

    matrix: Any
    rounds: Sequence[Any]
    clients: Sequence[Any]


def read(path: Path | str) -> Log:
    """Reads a participation log.

    Args:
        path: a CSV file with the columns ``round,client[,weight]``; a matrix with one row a round, as CSV (with or
            without a header of client names), NPY or NPZ (one array, or what ``scipy.sparse.save_npz`` writes);
            or the results folder of a run.

    Raises:
        SimflError: it is none of these, or an entry is impossible; the message names file and line.
    """
    path = Path(path)
    try:
        if path.is_dir():
            return _folder(path)
        if path.suffix.lower() in (".npz", ".npy"):
            return _matrix(_array(path), path)
        return _csv(path)
    except csv.Error as error:
        raise SimflError(f"{path}: not a CSV file: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SimflError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _folder(path: Path) -> Log:
    stored = Stored.open(path)
    file = stored.file("participation.csv")
    matrix = participation_matrix(file, int(stored.summary["rounds"]), int(stored.summary["clients"]))
    return Log(matrix, range(matrix.shape[0]), range(matrix.shape[1]))


def _csv(path: Path) -> Log:
    with open(path, encoding="utf-8-sig", newline="") as file:
        first = next(csv.reader(file), [])
    header = [cell.strip() for cell in first]
    if not header:
        raise SimflError(f"{path}: the log is empty")
    if set(COLUMNS) & {name.lower() for name in header}:
        return _entries(path, header)
    return _table(path, header)


# -- entries: round, client, weight ------------------------------------------------------------------


def _entries(path: Path, header: list[str]) -> Log:
    import pandas

    for name in header:
        if name not in COLUMNS:
            raise SimflError(f"{path}:1: unknown column '{name}'{suggestion(name, COLUMNS)} (round, client, weight)")
    for name in COLUMNS[:2]:
        if name not in header:
            raise SimflError(f"{path}:1: the column '{name}' is missing")
    if len(set(header)) < len(header):
        raise SimflError(f"{path}:1: a column is named twice")
    rounds, clients = _Labels(), _Labels()
    parts = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)  # surplus cells would be dropped
            chunks = pandas.read_csv(
                path, names=header, header=0, index_col=False, encoding="utf-8-sig", skipinitialspace=True,
                keep_default_na=False, skip_blank_lines=False, chunksize=CHUNK, dtype="str",  # labels: 007 is not 7
            )  # fmt: skip
            for chunk in chunks:
                table = chunk.fillna("")
                table = table[(table != "").any(axis=1)]
                lines = table.index.to_numpy() + 2
                for name in COLUMNS[:2]:
                    _refuse(path, lines, (table[name] == "").to_numpy(), f"no {name}")
                weight = _weights(path, lines, table["weight"]) if "weight" in header else np.ones(len(table))
                parts.append((lines, rounds.places(table["round"]), clients.places(table["client"]), weight))
    except (pandas.errors.ParserError, pandas.errors.ParserWarning, ValueError) as error:
        raise SimflError(f"{path}: not a table of {','.join(header)}: {str(error).strip()}") from None
    if not clients.numbers:
        raise SimflError(f"{path}: the log is empty")
    lines, round_of, client_of, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
    round_labels, round_rank = rounds.sorted(numbers_only=True)
    client_labels, client_rank = clients.sorted()
    cell = round_rank[round_of] * len(client_labels) + client_rank[client_of]
    _refuse(path, lines, pandas.Series(cell).duplicated().to_numpy(), "this client is in this round already")
    shape = len(round_labels), len(client_labels)
    return Log(_sparse(weight, round_rank[round_of], client_rank[client_of], shape), round_labels, client_labels)


def _weights(path: Path, lines: NDArray[np.int64], column: Any) -> NDArray[np.float64]:
    import pandas

    weight = pandas.to_numeric(column, errors="coerce").to_numpy(dtype=float)
    _refuse(path, lines, np.isnan(weight), "the weight is not a number")
    _refuse(path, lines, np.isinf(weight), "the weight is not finite")
    _refuse(path, lines, weight < 0, "the weight is negative; the smallest valid one is 0")
    return weight


def _refuse(path: Path, lines: NDArray[np.int64], wrong: NDArray[np.bool_], message: str) -> None:
    if wrong.any():
        raise SimflError(f"{path}:{lines[np.argmax(wrong)]}: {message}")


class _Labels:
    """Numbers the labels of a column in order of appearance, chunk after chunk."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def places(self, column: Any) -> NDArray[np.int64]:
        """The number of each row's label."""
        import pandas

        codes, seen = pandas.factorize(column.to_numpy())
        return np.array([self.numbers.setdefault(w.strip(), len(self.numbers)) for w in seen], dtype=np.int64)[codes]

    def sorted(self, numbers_only: bool = False) -> tuple[list[Any], NDArray[np.int64]]:
        """The labels in their final order, and the place there of each label by number.

        Whole numbers ascend, and are integers if all are written plainly (no 007); other words come in alphabetical
        order, or stay in order of appearance if ``numbers_only``.
        """
        words = list(self.numbers)
        whole = all(map(WHOLE.fullmatch, words))
        if whole:
            words.sort(key=lambda word: (int(word), word))
        elif not numbers_only:
            words.sort()
        rank = np.empty(len(words), dtype=np.int64)
        rank[[self.numbers[word] for word in words]] = np.arange(len(words))
        plain = whole and all(str(int(word)) == word for word in words)
        return [int(word) for word in words] if plain else words, rank


# -- matrices: one row a round -----------------------------------------------------------------------


def _table(path: Path, header: list[str]) -> Log:
    import pandas

    named = not all(map(_is_number, header))
    if named and not any(map(_is_number, _second_row(path))):
        raise SimflError(f"{path}:1: neither the columns round,client[,weight] nor a matrix of numbers under names")
    try:
        frame = pandas.read_csv(path, header=0 if named else None, dtype=np.float64, encoding="utf-8-sig")
    except (pandas.errors.ParserError, ValueError) as error:
        raise SimflError(f"{path}: not a matrix of numbers: {str(error).strip()}") from None
    return _matrix(frame.to_numpy(), path, header if named else None)


def _second_row(path: Path) -> list[str]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        next(rows)
        return next(rows, [])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _array(path: Path) -> Any:
    try:
        if path.suffix.lower() == ".npy":
            return np.load(path, allow_pickle=False)
        with np.load(path, allow_pickle=False) as file:
            if "format" in file.files:
                from scipy.sparse import load_npz

                matrix = load_npz(path).tocsr()
                matrix.check_format(full_check=True)
                return matrix
            if len(file.files) != 1:
                raise SimflError(f"{path}: holds {len(file.files)} arrays ({', '.join(file.files)}); one is needed")
            return file[file.files[0]]
    except (ValueError, EOFError, zipfile.BadZipFile, KeyError, NotImplementedError, zlib.error) as error:
        raise SimflError(f"{path}: not an array that can be read: {error}") from None


def _matrix(array: Any, path: Path, names: Sequence[str] | None = None) -> Log:
    if array.ndim != 2:
        raise SimflError(f"{path}: a participation matrix has two dimensions (rounds, clients), not {array.ndim}")
    if array.dtype.kind not in "biuf":
        raise SimflError(f"{path}: participation weights must be real numbers, not {array.dtype}")
    if 0 in array.shape:
        raise SimflError(f"{path}: the log is empty")
    dense = array.toarray() if hasattr(array, "toarray") and array.shape[0] * array.shape[1] < 10**6 else array
    values = dense.data if hasattr(dense, "tocsr") else dense
    wrong = ~np.isfinite(values) | (values < 0)
    if wrong.any():
        place = np.argwhere(wrong)[0]
        where = f"round {place[0]}, client {place[1]}" if len(place) == 2 else "an entry"
        raise SimflError(f"{path}: {where}: weight {values[tuple(place)]:g} is not a finite number of at least 0")
    matrix = array
    if not hasattr(array, "tocsr"):
        rounds, clients = np.nonzero(array)
        matrix = _sparse(array[rounds, clients].astype(float), rounds, clients, array.shape)
    return Log(matrix, range(array.shape[0]), range(array.shape[1]) if names is None else list(names))


def _sparse(weights: Any, rounds: Any, clients: Any, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array

    matrix = csr_array((weights, (rounds, clients)), shape=shape)
    matrix.eliminate_zeros()
    return matrix
