"""Logs as text with one row a line: cells between commas, semicolons, tabs or bars."""

import csv
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from simfl.audit.entries import DIGITS, MORE_DIGITS, Columns, LongWeights, column_roles, entries
from simfl.audit.log import Limits, Log, check_weights, sparse
from simfl.core.errors import SimflError
from simfl.privacy.multiround.weight_reading import LARGEST

CHUNK = 3 * 10**6  # cells
DELIMITERS = ",;\t|"


def read_delimited(path: Path, columns: Columns | None = None) -> Log:
    """Reads entries, or a matrix with or without a header of client names.

    Raises:
        SimflError: it is neither.
    """
    _check_size(path)
    with open(path, encoding="utf-8-sig", newline="") as file:
        line = file.readline(Limits.LINE)
    if not line.strip():
        raise SimflError(f"{path}: the log is empty")
    delimiter = max(DELIMITERS, key=lambda mark: len(next(csv.reader([line], delimiter=mark), [])))
    header = [cell.strip() for cell in _rows(path, delimiter)[0]]
    if len(header) > Limits.COLUMNS:
        raise SimflError(f"{path}: {len(header)} columns are more than the {Limits.COLUMNS} that are read")
    if columns_by_role := column_roles(path, header, columns):
        return entries(path, _chunks(path, delimiter, header), columns_by_role, header)
    return _matrix(path, delimiter, header)


def _check_size(path: Path) -> None:
    """Refuses lines so long that a single one would fill the memory."""
    with open(path, "rb") as file:
        length, number = 0, 1
        while block := file.read(2**20):
            lines = block.split(b"\n") if length + len(block) > Limits.LINE or b"\n" not in block else None
            if lines is None:
                number, length = number + block.count(b"\n"), len(block) - block.rindex(b"\n") - 1
                continue
            for i, part in enumerate(lines):
                length = length + len(part) if i == 0 else len(part)
                number += i > 0
                if length > Limits.LINE:
                    raise SimflError(f"{path}:{number}: a line of more than {Limits.LINE} bytes")


def _rows(path: Path, delimiter: str, count: int = 2) -> list[list[str]]:
    """The first rows, empty ones where the file has fewer."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter=delimiter)
        return [next(rows, []) for _ in range(count)]


def _chunks(path: Path, delimiter: str, header: list[str]) -> Iterator[tuple[Any, Any]]:
    import pandas

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)  # surplus cells would be dropped
            for chunk in pandas.read_csv(
                path, names=header, header=0, index_col=False, encoding="utf-8-sig", skipinitialspace=True,
                sep=delimiter, keep_default_na=False, skip_blank_lines=False, compression=None,
                chunksize=max(1, CHUNK // len(header)), dtype="str",  # labels: 007 is not 7
            ):  # fmt: skip
                if delimiter == ";":  # where the comma is the decimal point
                    chunk = chunk.apply(lambda column: column.str.replace(r"^(-?\d*),(\d+)$", r"\1.\2", regex=True))
                filled = (chunk.fillna("") != "").any(axis=1).to_numpy()  # the others are blank lines
                yield chunk.index.to_numpy()[filled] + 2, chunk if filled.all() else chunk[filled]
    except (pandas.errors.ParserError, pandas.errors.ParserWarning, ValueError) as error:
        raise SimflError(f"{path}: not a table of {','.join(header)}: {_line(error)}") from None


def _matrix(path: Path, delimiter: str, header: list[str]) -> Log:
    """One row a round, one column a client."""
    names = not all(map(_is_number, header))
    if names and not any(map(_is_number, _rows(path, delimiter)[1])):
        raise SimflError(
            f"{path}:1: neither the columns round,client[,weight] (or --columns round=NAME,client=NAME) nor a matrix "
            "of numbers under names (CSV, TSV, JSON lines, Parquet, NPY and NPZ are read)"
        )
    parts: list[tuple[Any, Any, Any]] = []
    count = entry_count = 0
    long_weights = LongWeights()
    for values, cells in _rounds(path, delimiter, len(header), names):
        check_weights(values, path, count, LARGEST)
        rounds, clients = np.nonzero(values)
        parts.append((values[rounds, clients], rounds + count, clients))
        count, entry_count = count + len(values), entry_count + len(rounds)
        if cells is not None:
            long_weights.add(cells[values.ravel() != 0])
        if entry_count > Limits.ENTRIES:
            raise SimflError(f"{path}: more than the {Limits.ENTRIES} entries that are read")
    if not count:
        raise SimflError(f"{path}: the log is empty")
    weights, rounds, clients = (np.concatenate(part) for part in zip(*parts, strict=True))
    if (clash := long_weights.equal_but_written_otherwise(weights)).any():
        first = int(np.argmax(clash))
        raise SimflError(f"{path}: round {rounds[first]}, client {clients[first]}: {MORE_DIGITS}")
    matrix = sparse(weights, rounds, clients, (count, len(header)))
    return Log(matrix, range(count), header if names else range(len(header)))


def _rounds(path: Path, delimiter: str, width: int, names: bool) -> Iterator[tuple[Any, Any]]:
    """The rows of a matrix, chunk after chunk, (rows, clients); and, where the file has numbers of many digits, its
    cells as a series of words, row after row."""
    import pandas

    mark = "," if delimiter == ";" else "."
    many_digits = _has_many_digits(path, mark)
    try:
        for frame in pandas.read_csv(
            path, header=0 if names else None, dtype="str" if many_digits else np.float64, encoding="utf-8-sig",
            sep=delimiter, chunksize=max(1, (CHUNK if many_digits else 10**7) // width), compression=None,
            decimal=mark,
        ):  # fmt: skip
            if not many_digits:
                yield frame.to_numpy(), None
                continue
            cells = pandas.Series(frame.to_numpy(dtype=object).ravel(), dtype="str")
            cells = cells.str.replace(mark, ".", regex=False)
            yield pandas.to_numeric(cells).to_numpy(dtype=float).reshape(frame.shape), cells
    except (pandas.errors.ParserError, ValueError) as error:
        raise SimflError(f"{path}: not a matrix of numbers: {_line(error)}") from None


def _has_many_digits(path: Path, mark: str) -> bool:
    """Whether a file holds a number of more digits than tell doubles apart; ``mark`` is the decimal point."""
    alike, many = bytes.maketrans(b"123456789", b"000000000"), b"0" * (DIGITS + 1)
    with open(path, "rb") as file:
        before = b""
        while block := file.read(2**20):
            digits = before + block.translate(alike, mark.encode())
            if many in digits:
                return True
            before = digits[-DIGITS:]
    return False


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True
