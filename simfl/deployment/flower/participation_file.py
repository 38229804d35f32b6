"""The participation log of a real server: a line for each client in each sum, on the disk before the sum is opened."""

import os
import re
from collections.abc import Sequence
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from simfl.api.files import open_regular, write_atomically
from simfl.plugins import SimflError

Node = int | str
"""The id of a node, or of the device that it is."""

HEADER = ("round", "client", "place", "line", "seal")
"""``client`` is the node's id, ``place`` its client number in the policy, and of how many (``4/24``), ``line`` which of
the sum's lines this is (``1/3``), ``seal`` the first digits of the SHA-256 digest of the seal before and this line."""

UNSEALED = ("round", "client", "node")
"""What earlier versions wrote: ``client`` was the number."""

DIGITS = 16


class LogEntry(NamedTuple):
    """A client in a sum: the round, from 0, the client's number, and the node that is this client."""

    round: int
    client: int
    node: Node


class ParticipationFile:
    """The log of one server, read when it starts and continued sum by sum.

    A sum whose last lines are missing was never opened, since its lines are on the disk before that: it is taken out.

    Args:
        path: the file, which need not exist yet.
        clients: how many there are.

    Attributes:
        entries: what it held when it was opened.
        taken_out: what was cut, in words; empty if nothing was.

    Raises:
        SimflError: the file is no such log, or a line of it was changed.
    """

    def __init__(self, path: Path, clients: int) -> None:
        self.path, self.clients, self.entries, self.taken_out = path.absolute(), clients, list[LogEntry](), ""
        self._seal, self._unsealed = "", False
        if self._holds_something():
            self._read()

    def append(self, number: int, members: Sequence[int], nodes: Sequence[Node]) -> None:
        """Writes the sum of a round; when this returns it is on the disk."""
        entries = [LogEntry(number, client, node) for client, node in zip(members, nodes, strict=True)]
        if self._unsealed or not self._holds_something():
            whole = [*self.entries, *entries] if self._unsealed else entries
            sums = [list(each) for _, each in groupby(whole, lambda entry: entry.round)]
            write_atomically(self.path, (",".join(HEADER) + "\n" + "".join(map(self._lines, sums))).encode())
            self._unsealed = False
            return
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(self._lines(entries))
            file.flush()
            os.fsync(file.fileno())

    def _holds_something(self) -> bool:
        return self.path.exists() and (not self.path.is_file() or self.path.stat().st_size > 0)

    def _lines(self, entries: Sequence[LogEntry]) -> str:
        lines = []
        for line, (number, client, node) in enumerate(entries, 1):
            words = f"{number},{node},{client}/{self.clients},{line}/{len(entries)}"
            self._seal = _seal(self._seal, words)
            lines.append(f"{words},{self._seal}\n")
        return "".join(lines)

    def _read(self) -> None:
        try:
            with open_regular(self.path) as opened:
                text = opened.read().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SimflError(f"{self.path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
        *lines, cut = text.split("\n")
        header = tuple((lines[0] if lines else cut).split(","))
        if header not in (HEADER, UNSEALED) and not (len(lines) == 0 and ",".join(HEADER).startswith(cut)):
            raise SimflError(f"{self.path}:1: the header is not {','.join(HEADER)}; name another file as log")
        self._unsealed = header == UNSEALED
        if self._unsealed and cut:
            raise SimflError(f"{self.path}: its last line may be cut; end it if it is whole, or take out its round")
        seals = [""]
        for number, line in enumerate(lines[1:], 2):
            self.entries.append(self._entry(number, line, seals))
        if not self._unsealed:
            self._cut([header, *(line.split(",") for line in lines[1:])], bool(cut) or not lines, seals)

    def _entry(self, number: int, line: str, seals: list[str]) -> LogEntry:
        """The entry of a line; its seal is added to those of the lines before."""
        place = f"{self.path}:{number}"
        words = line.split(",")
        if self._unsealed:
            words = [*words[:1], *words[2:], *words[1:2], "", ""]
        else:
            seals.append(_seal(seals[-1], line.rpartition(",")[0]))
            if len(words) != len(HEADER) or words[-1] != seals[-1]:
                raise SimflError(f"{place}: does not match its seal: a line was changed, added or taken out up to here")
        try:
            entry = LogEntry(int(words[0]), int(words[2].partition("/")[0]), same_id(words[1]))
        except (IndexError, ValueError):
            form = ",".join(UNSEALED if self._unsealed else HEADER)
            raise SimflError(f"{place}: not {form}, round and number of the client whole numbers") from None
        if len(words) != len(HEADER):
            raise SimflError(f"{place}: not {','.join(UNSEALED)}")
        if not 0 <= entry.client < self.clients:
            raise SimflError(f"{place}: client {entry.client}; clients are 0 to {self.clients - 1}")
        if self.entries and entry.round < self.entries[-1].round:
            raise SimflError(f"{place}: round {entry.round} stands behind round {self.entries[-1].round}")
        return entry

    def _cut(self, rows: Sequence[Sequence[str]], torn: bool, seals: Sequence[str]) -> None:
        """Takes out a last sum of which lines are missing."""
        whole = len(rows)
        while whole > 1 and len({*rows[whole - 1][3].split("/")}) > 1:  # its last line is n/n
            whole -= 1
        self._seal = seals[whole - 1]
        if torn or whole < len(rows):
            self.taken_out = f"{self.path}: the last sum was cut while it was written and never opened; it is taken out"
            write_atomically(self.path, "".join(f"{','.join(row)}\n" for row in [HEADER, *rows[1:whole]]).encode())
            del self.entries[whole - 1 :]


def same_id(node: Node) -> Node:
    """The id as it is compared: a number where it is one, whether it is written as a number or as text."""
    return int(node) if isinstance(node, str) and re.fullmatch(r"-?[1-9]\d*|0", node) else node


def _seal(before: str, words: str) -> str:
    return sha256(f"{before}\n{words}".encode()).hexdigest()[:DIGITS]
