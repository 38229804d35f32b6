"""messages.csv: whom the server heard in each session, where that is more than that each update is in its sum.

A row a session, with its clients in the order of the protocol, and of each a digit (hexadecimal) of flags: 1 = its
masks may be in others' messages, 2 = its update was sent, 4 = it is one of those that the sum is, or was to be, of, 8 =
it answered after the upload. One digit is of all. Updates that were in no session have rows of their own.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simfl.secagg.transcript import Transcript

MESSAGES = ("round", "sum", "answers", "clients", "flags")
"""Columns of messages.csv; ``sum``: 1 = there is one; ``answers`` after the upload, of whomever was asked."""

UNCOUNTED = "?"
"""Stands for the flags where a server of a plugin does not say what becomes of each update."""

BITS = 1 << np.arange(4)


def message_rows(round: int, transcripts: Iterable[Transcript] | None) -> Iterator[tuple[object, ...]]:
    """The rows of a round; None = nobody has counted."""
    if transcripts is None:
        yield round, 0, 0, "", UNCOUNTED
    for each in transcripts or ():
        digits = "".join(f"{flags:x}" for flags in (BITS @ np.stack(each[2:6]).astype(np.int64)).tolist())
        short = digits[:1] if len(set(digits)) == 1 else digits
        yield round, int(each.ended), each.response_count, " ".join(map(str, each.clients.tolist())), short


def read_messages(path: Path, population: int) -> Iterator[tuple[int, Transcript | None]]:
    """The sessions of a messages.csv, by round; None where nobody has counted; nothing where there is no such file."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:  # a field may be longer than csv reads; none holds a comma or a quote
        header = next(file).rstrip("\n").split(",")
        for line in file:
            row = dict(zip(header, line.rstrip("\n").split(","), strict=True))
            t = int(row["round"])
            yield t, None if row["flags"] == UNCOUNTED else _transcript(t, row, population)


def _transcript(round: int, row: dict[str, str], population: int) -> Transcript:
    clients: NDArray[np.int32] = np.array(row["clients"].split(), dtype=np.int32)
    digits = np.array([int(digit, 16) for digit in row["flags"]], dtype=np.int64)
    shared, sent, summed, answered = np.broadcast_to(digits & BITS[:, None] > 0, (4, len(clients)))
    ended, response_count = row["sum"] == "1", int(row["answers"])
    return Transcript(round, clients, shared, sent, summed, answered, ended, response_count, population)
