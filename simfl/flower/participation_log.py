"""The participation log of a real server: one line for each client in each sum, as ``simfl audit`` reads it."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from simfl.core.errors import SimflError

HEADER = ("round", "client", "node")


class LogEntry(NamedTuple):
    """A client in a sum: the round, from 0, the client's number, and the node that is this client."""

    round: int
    client: int
    node: int


def read_entries(path: Path, clients: int) -> list[LogEntry]:
    """All entries of a log, of so many clients; none where there is no file yet.

    Raises:
        SimflError: a line is none of such a log.
    """
    if not path.exists():
        return []
    entries: list[LogEntry] = []
    with path.open(encoding="utf-8", newline="") as file:
        for number, line in enumerate(csv.reader(file), 1):
            if number == 1:
                if tuple(line) != HEADER:
                    raise SimflError(f"{path}:1: the header is not {','.join(HEADER)}; name another file as log")
                continue
            try:
                entry = LogEntry(*map(int, line))
            except (TypeError, ValueError):
                raise SimflError(f"{path}:{number}: not the three whole numbers {','.join(HEADER)}") from None
            if not 0 <= entry.client < clients:
                raise SimflError(f"{path}:{number}: client {entry.client}; clients are 0 to {clients - 1}")
            if entries and entry.round < entries[-1].round:
                raise SimflError(f"{path}:{number}: round {entry.round} stands behind round {entries[-1].round}")
            entries.append(entry)
    return entries


def append_entries(path: Path, entries: Sequence[LogEntry]) -> None:
    """Writes the entries of a round behind those of earlier ones."""
    lines = [",".join(map(str, entry)) for entry in entries]
    if not path.exists():
        lines.insert(0, ",".join(HEADER))
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write("".join(f"{line}\n" for line in lines))
