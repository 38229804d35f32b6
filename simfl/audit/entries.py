"""Lists of entries, one line or record for every client in every round: ``round, client[, weight]``."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.audit.log import COLUMNS, Limits, Log, plain, sparse
from simfl.audit.weight_cells import MORE_DIGITS, Lines, LongWeights, read_weights, refuse_rows
from simfl.core.errors import SimflError, suggestion

WHOLE = re.compile(r"-?[0-9]{1,4000}")

Columns = Mapping[str, str]
"""For ``round``, ``client`` and perhaps ``weight`` the name of the column that holds it."""


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


LIKELY = {
    "round": ("round", "iteration", "epoch", "step", "version"),
    "client": ("client", "cid", "user", "uid", "device", "node", "participant", "worker"),
}
"""Words in names of columns by which logs of other systems are recognised."""


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
    path: Path,
    chunks: Iterable[tuple[NDArray[np.int64], Any]],
    columns: Columns,
    header: Sequence[str],
    place: str = ":",
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
            _check_labels(lines, what, table[columns[what]])
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


def _check_labels(lines: Lines, what: str, column: Any) -> None:
    """
    Raises:
        SimflError: a round or client is missing or too long.
    """
    refuse_rows(lines, (column.str.strip() == "").to_numpy(), f"no {what}")
    refuse_rows(lines, (column.str.len() > Limits.LETTERS).to_numpy(), f"a {what} of over {Limits.LETTERS} letters")


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

    def in_final_order(self, numbers_only: bool = False) -> tuple[list[Any], NDArray[np.int64]]:
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
