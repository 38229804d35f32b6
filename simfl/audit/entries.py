"""Lists of entries, one line or record for every client in every round: ``round, client[, weight]``."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from simfl.audit.log import COLUMNS, Limits, Log, plain, sparse
from simfl.core.errors import SimflError, suggestion
from simfl.core.types import Bools, Floats, Integers
from simfl.privacy.multiround.weight_reading import LARGEST

WHOLE = re.compile(r"-?[0-9]{1,4000}")

Columns = Mapping[str, str]
"""For ``round``, ``client`` and perhaps ``weight`` the name of the column that holds it."""

LIKELY = {
    "round": ("round", "iteration", "epoch", "step", "version"),
    "client": ("client", "cid", "user", "uid", "device", "node", "participant", "worker"),
}
"""Words in names of columns by which logs of other systems are recognised."""

DIGITS = 17
"""Significant digits that tell every double from all others."""

NO_WEIGHT = "no weight; give one to every row, or leave the column out"

MORE_DIGITS = f"the weight differs from another one only beyond the {DIGITS} digits that are read"

Lines = tuple[str, Integers]
"""What stands before the number of a row in a message, and the numbers of some rows."""


def column_roles(path: Path, header: Sequence[str], chosen: Columns | None, line: int = 1) -> dict[str, str]:
    """Which column of a header is the round, the client and the weight; empty if it has none of these names.

    Names that the user has not chosen are looked for in any case.

    Args:
        line: of the file in which the header stands.

    Raises:
        SimflError: a column is missing, or named twice.
    """
    where = f"{path}:{line}"
    roles = {}
    for what in COLUMNS:
        wanted = (chosen or {}).get(what)
        if wanted is not None:
            if wanted not in header:
                near = suggestion(wanted, header) or f"; there are {', '.join(plain(name) for name in header[:20])}"
                raise SimflError(f"{where}: no column '{plain(wanted)}' for the {what}{near}")
            roles[what] = wanted
        elif names := [name for name in header if name.lower() == what and name not in (chosen or {}).values()]:
            roles[what] = what if what in names else names[0]
    proposal = likely_columns(header, roles)
    if not roles:
        if proposal:
            raise SimflError(f"{where}: no columns round and client; these may be meant: --columns {proposal}")
        return {}
    if len(set(header)) < len(header):
        raise SimflError(f"{where}: a column is named twice")
    for what in COLUMNS[:2]:
        if what not in roles:
            named = f"these may be meant: --columns {proposal}" if proposal else f"name it with --columns {what}=NAME"
            if (log := path.with_name("participation.csv")) != path and log.exists():
                named = f"who took part in a run is in {log}"
            raise SimflError(f"{where}: the column '{what}' is missing; {named}")
    if "weight" not in roles:
        for name in header:
            if name not in roles.values() and suggestion(name.lower(), ("weight",)):
                raise SimflError(
                    f"{where}: unknown column '{plain(name)}'; did you mean 'weight'? (--columns weight={plain(name)})"
                )
    return roles


def likely_columns(header: Sequence[str], roles: Columns) -> str:
    """What to give as ``--columns``: ``round=server_round,client=cid`` where one name each holds a word for it.

    Args:
        header: names of all columns.
        roles: columns that are known.

    Returns:
        The words as a shell takes them; empty if it is not clear which columns are meant.
    """
    proposal = []
    for what, words in LIKELY.items():
        others = [name for name in header if name not in roles.values()]
        names = [name for name in others if set(re.split(r"[^a-z]+", name.lower())) & set(words)]
        if what not in roles and (len(names) != 1 or set(names[0]) & set(",=")):
            return ""
        if roles.get(what) != what:
            proposal.append(f"{what}={roles.get(what) or names[0]}")
    return plain(shlex.quote(",".join(proposal)))


def entries(
    path: Path, chunks: Iterable[tuple[Integers, Any]], columns: Columns, header: Sequence[str], place: str = ":"
) -> Log:
    """The log of some tables of words.

    Args:
        chunks: (number of each row in the file, pandas DataFrame of str).
        header: all columns of the file.
        place: what stands between the path and the number of a row.

    Raises:
        SimflError: an entry is impossible; the message names file and row.
    """
    import pandas

    rounds, clients, long_weights = _Labels(path, "rounds"), _Labels(path, "clients"), LongWeights()
    parts, count = [], 0
    for numbers, words in chunks:
        table, lines = words.fillna(""), (f"{path}{place}", numbers)
        for what in COLUMNS[:2]:
            label = table[columns[what]].str
            refuse_rows(lines, (label.strip() == "").to_numpy(), f"no {what}")
            refuse_rows(lines, (label.len() > Limits.LETTERS).to_numpy(), f"a {what} of over {Limits.LETTERS} letters")
        weight = np.ones(len(table))
        if "weight" in columns:
            weight = read_weights(lines, table[columns["weight"]])
            long_weights.add(table[columns["weight"]])
        parts.append(
            (numbers, rounds.places(table[columns["round"]]), clients.places(table[columns["client"]]), weight)
        )
        count += len(table)
        if count > Limits.ENTRIES:
            raise SimflError(f"{path}: more than the {Limits.ENTRIES} entries that are read")
    if not clients.numbers:
        raise SimflError(f"{path}: the log is empty")
    numbers, round_of, client_of, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
    lines = f"{path}{place}", numbers
    refuse_rows(lines, long_weights.equal_but_written_otherwise(weight), MORE_DIGITS)
    round_labels, round_rank = rounds.in_final_order(numbers_only=True)
    client_labels, client_rank = clients.in_final_order()
    cell = round_rank[round_of] * len(client_labels) + client_rank[client_of]
    refuse_rows(lines, pandas.Series(cell).duplicated().to_numpy(), "this client is in this round already")
    shape = len(round_labels), len(client_labels)
    matrix = sparse(weight, round_rank[round_of], client_rank[client_of], shape)
    unused = tuple(name for name in header if name not in columns.values())
    return Log(matrix, round_labels, client_labels, unused)


class _Labels:
    """Numbers the labels of a column in order of appearance, chunk after chunk."""

    def __init__(self, path: Path, what: str) -> None:
        self.numbers: dict[str, int] = {}
        self._path, self._what = path, what

    def places(self, column: Any) -> Integers:
        """The number of each row's label."""
        import pandas

        codes, seen = pandas.factorize(column.to_numpy())
        if len(self.numbers) + len(seen) > 2 * Limits.LABELS:
            raise SimflError(f"{self._path}: more than the {Limits.LABELS} {self._what} that are read")
        return np.array([self.numbers.setdefault(w.strip(), len(self.numbers)) for w in seen], dtype=np.int64)[codes]

    def in_final_order(self, numbers_only: bool = False) -> tuple[list[Any], Integers]:
        """The labels in their final order, and the place there of each label by number.

        Whole numbers ascend, and are integers if all are written plainly (no 007); other words come in alphabetical
        order, numbers in them by their size (phone-2 before phone-10), or stay in order of appearance if
        ``numbers_only``.
        """
        from simfl.report.axes import natural

        words = list(self.numbers)
        whole = all(map(WHOLE.fullmatch, words))
        if whole:
            words.sort(key=lambda word: (int(word), word))
        elif not numbers_only:
            words.sort(key=lambda word: (natural(word), word))
        rank = np.empty(len(words), dtype=np.int64)
        rank[[self.numbers[word] for word in words]] = np.arange(len(words))
        plainly = whole and all(str(int(word)) == word for word in words)
        return [int(word) for word in words] if plainly else words, rank


def read_weights(lines: Lines, column: Any) -> Floats:
    """The weights of a pandas Series of words, (n,).

    Raises:
        SimflError: one is missing, no finite number from 0 to the largest valid one, or so small that it would be 0.
    """
    import pandas

    refuse_rows(lines, (column.str.strip() == "").to_numpy(), NO_WEIGHT)
    weight = pandas.to_numeric(column, errors="coerce").to_numpy(dtype=float)
    refuse_rows(lines, np.isnan(weight), "the weight is not a number")
    refuse_rows(lines, np.isinf(weight), "the weight is not finite")
    refuse_rows(lines, weight < 0, "the weight is negative; the smallest valid one is 0")
    refuse_rows(lines, weight > LARGEST, f"the weight is too large; the largest valid one is {LARGEST}")
    zero = weight == 0
    if zero.any():
        zero[zero] = column[zero].str.contains("^[^eE]*[1-9]", regex=True).to_numpy(dtype=bool)
        refuse_rows(lines, zero, "the weight is so small that it would be read as 0")
    return weight


def refuse_rows(lines: Lines, wrong: Bools, message: str) -> None:
    """
    Raises:
        SimflError: a row is wrong; the message names the first one.
    """
    if wrong.any():
        raise SimflError(f"{lines[0]}{lines[1][np.argmax(wrong)]}: {message}")


class LongWeights:
    """Remembers which weights have more digits than a double, to notice two that it cannot tell apart."""

    def __init__(self) -> None:
        self._count = 0
        self._marks: list[tuple[int, Integers | None]] = []

    def add(self, column: Any) -> None:
        """Takes in a chunk of words, a pandas Series (n,) of numbers."""
        import pandas

        marks = None
        some = (column.str.len() > DIGITS + 1).to_numpy(dtype=bool)  # the digits and a point
        if some.any():
            codes, words = pandas.factorize(column[some].to_numpy())
            mark = np.array([_mark(word) for word in words], dtype=np.int64)
            if mark.any():
                self._count += int(np.count_nonzero(mark[codes]))
                marks = np.zeros(len(column), dtype=np.int64)
                marks[some] = mark[codes]
        self._marks.append((len(column), marks))

    def equal_but_written_otherwise(self, weight: Floats) -> Bools:
        """Which of the weights of all chunks, (n,), are as doubles equal to one that has more digits, or others."""
        clash = np.zeros(len(weight), dtype=bool)
        if not self._count:
            return clash
        marks = np.concatenate([np.zeros(n, dtype=np.int64) if some is None else some for n, some in self._marks])
        order = np.lexsort((marks, weight))
        weight, marks = weight[order], marks[order]
        clash[order[1:]] = (weight[1:] == weight[:-1]) & (marks[1:] != marks[:-1])
        return clash


def _mark(word: str) -> int:
    """A number for each number of more digits than are read; 0 for all others."""
    digits = word.strip().lower().partition("e")[0].replace(".", "").lstrip("+-0")
    if len(digits) <= DIGITS:
        return 0
    number = Decimal(word.strip())
    return hash(number) if len(digits.rstrip("0")) > DIGITS else 0
