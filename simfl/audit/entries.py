"""Lists of entries, one line or record for every client in every round: ``round, client[, weight]``."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.audit.log import COLUMNS, Limits, Log, plain, sparse
from simfl.errors import SimflError, suggestion

__all__ = ["Columns", "entries", "named"]

WHOLE = re.compile(r"-?[0-9]{1,4000}")

Columns = Mapping[str, str]
"""For ``round``, ``client`` and perhaps ``weight`` the name of the column that holds it."""


def named(path: Path, header: Sequence[str], given: Columns | None) -> dict[str, str]:
    """Which column of a header is the round, the client and the weight; empty if it has none of these names.

    Args:
        given: names that the user gave; the others are looked for under their own, in any case.

    Raises:
        SimflError: a column is missing, or named twice.
    """
    where = f"{path}:1"
    found = {}
    for what in COLUMNS:
        wanted = (given or {}).get(what)
        if wanted is not None:
            if wanted not in header:
                near = suggestion(wanted, header) or f"; there are {', '.join(plain(name) for name in header[:20])}"
                raise SimflError(f"{where}: no column '{plain(wanted)}' for the {what}{near}")
            found[what] = wanted
        elif names := [name for name in header if name.lower() == what and name not in (given or {}).values()]:
            found[what] = names[0]
    if not found:
        return {}
    if len(set(header)) < len(header):
        raise SimflError(f"{where}: a column is named twice")
    for what in COLUMNS[:2]:
        if what not in found:
            raise SimflError(f"{where}: the column '{what}' is missing; name it with --columns {what}=NAME")
    if "weight" not in found:
        for name in header:
            if name not in found.values() and suggestion(name.lower(), ("weight",)):
                raise SimflError(
                    f"{where}: unknown column '{plain(name)}'; did you mean 'weight'? (--columns weight={plain(name)})"
                )
    return found


def entries(
    path: Path,
    chunks: Iterable[tuple[NDArray[np.int64], Any]],
    columns: Columns,
    header: Sequence[str],
    place: str = ":",
) -> Log:
    """The log of some tables of words.

    Args:
        chunks: (number of each row in the file, pandas DataFrame of str).
        columns: see :func:`named`.
        header: all columns of the file.
        place: what stands between the path and the number of a row.

    Raises:
        SimflError: an entry is impossible; the message names file and row.
    """
    import pandas

    rounds, clients = _Labels(path, "rounds"), _Labels(path, "clients")
    parts, count = [], 0
    for numbers, words in chunks:
        table = words.fillna("")
        kept = (table != "").any(axis=1).to_numpy()
        table, lines = table[kept], [f"{path}{place}", numbers[kept]]
        for what in COLUMNS[:2]:
            text = table[columns[what]]
            _refuse(lines, (text.str.strip() == "").to_numpy(), f"no {what}")
            _refuse(lines, (text.str.len() > Limits.LETTERS).to_numpy(), f"a {what} of over {Limits.LETTERS} letters")
        weight = _weights(lines, table[columns["weight"]]) if "weight" in columns else np.ones(len(table))
        parts.append(
            (lines[1], rounds.places(table[columns["round"]]), clients.places(table[columns["client"]]), weight)
        )
        count += len(table)
        if count > Limits.ENTRIES:
            raise SimflError(f"{path}: more than the {Limits.ENTRIES} entries that are read")
    if not clients.numbers:
        raise SimflError(f"{path}: the log is empty")
    numbers, round_of, client_of, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
    round_labels, round_rank = rounds.sorted(numbers_only=True)
    client_labels, client_rank = clients.sorted()
    cell = round_rank[round_of] * len(client_labels) + client_rank[client_of]
    again = pandas.Series(cell).duplicated().to_numpy()
    _refuse([f"{path}{place}", numbers], again, "this client is in this round already")
    shape = len(round_labels), len(client_labels)
    matrix = sparse(weight, round_rank[round_of], client_rank[client_of], shape)
    unused = tuple(name for name in header if name not in columns.values())
    return Log(matrix, round_labels, client_labels, unused)


def _weights(lines: list[Any], column: Any) -> NDArray[np.float64]:
    import pandas

    weight = pandas.to_numeric(column, errors="coerce").to_numpy(dtype=float)
    _refuse(lines, np.isnan(weight), "the weight is not a number")
    _refuse(lines, np.isinf(weight), "the weight is not finite")
    _refuse(lines, weight < 0, "the weight is negative; the smallest valid one is 0")
    return weight


def _refuse(lines: list[Any], wrong: NDArray[np.bool_], message: str) -> None:
    if wrong.any():
        raise SimflError(f"{lines[0]}{lines[1][np.argmax(wrong)]}: {message}")


class _Labels:
    """Numbers the labels of a column in order of appearance, chunk after chunk."""

    def __init__(self, path: Path, what: str) -> None:
        self.numbers: dict[str, int] = {}
        self._path, self._what = path, what

    def places(self, column: Any) -> NDArray[np.int64]:
        """The number of each row's label."""
        import pandas

        codes, seen = pandas.factorize(column.to_numpy())
        if len(self.numbers) + len(seen) > 2 * Limits.LABELS:
            raise SimflError(f"{self._path}: more than the {Limits.LABELS} {self._what} that are read")
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
        plainly = whole and all(str(int(word)) == word for word in words)
        return [int(word) for word in words] if plainly else words, rank
