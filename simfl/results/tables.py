"""Append-only flat tables, one a kind, that survive a kill and are renamed into place when the run ends."""

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.columns import ROUND_COLUMNS
from simfl.core.errors import IntegrityError
from simfl.core.json_data import JsonObject, number_of
from simfl.core.storage.disk import naming, open_own, sha256

ROUNDS = tuple(column.name for column in ROUND_COLUMNS)
"""Columns of rounds.csv; one row a server round, empty where a column does not apply."""

PARTICIPATION = ("round", "client", "weight")
"""Columns of participation.csv: the non-zero entries of the participation matrix."""

PEERS = ("round", "aggregator", "client", "weight")
"""Columns of participation.csv where others aggregate, too: one matrix for each aggregator (-1 = the server, or what it
makes of its edges' models; 0, 1, ... = that client; -2, -3, ... = edge 0, 1, ..., whose aggregations it numbers)."""

AGGREGATIONS = ("aggregator", "number", "round", "time_s", "clients", "bytes_down", "bytes_up")
"""Columns of aggregations.csv: each aggregation of an edge, and the round in which its model was averaged; one more
than the last where the run ended before."""


class PhaseRow(NamedTuple):
    """A row of phases.csv: an exchange of an aggregation protocol.

    Of those asked, ``failed`` failed or were too late; others that did not answer were not waited for. ``failure``
    names what ended the protocol badly. ``tolerated``: the colluders whom the session tolerates after it, -1 = not even
    the server alone; empty where the protocol says nothing of this session.
    """

    round: int
    phase: str
    started_s: float
    ended_s: float
    asked: int
    answered: int
    bytes_down: int
    bytes_up: int
    failed: int
    failure: str | None
    tolerated: int | None = None


PHASES = PhaseRow._fields
"""Columns of phases.csv."""

FACTS = ("round", "stage", "name", "value")
"""Columns of facts.csv: what each privacy stage (numbered from 0) says of an aggregation."""

ATTACKS = ("round", "attack", "name", "value")
"""Columns of attacks.csv: how far each attack's guess (numbered from 0) was from the truth."""

AGGREGATES, VECTORS = ("round", "job", "client", "version", "share"), "aggregates.f32"
"""Columns of aggregates.csv: what each update counted in each aggregate; and the file of the vectors themselves.

``aggregates.f32`` is float32, little-endian, rows of the model's dimension. Of each aggregation: the model before it,
the sum as the server reads it and, where the server is shown single updates, those, by ascending client.
"""


class JobRow(NamedTuple):
    """A row of jobs.csv, one a job, in the order in which their fates were decided; asynchronous rules only.

    ``ended_s`` is when the job stopped occupying a slot. Outcomes: ``aggregated`` (in ``round``, with ``staleness``),
    ``failed``, ``late`` (after the deadline), ``forfeited`` (another client of its unit failed), ``stale`` (older than
    the rule takes), ``unrecovered`` (the protocol could not sum it), ``open`` (the run ended first).
    """

    job: int
    client: int
    version: int
    started_s: float
    ended_s: float
    outcome: str
    round: int | None
    staleness: int | None


JOBS = JobRow._fields
"""Columns of jobs.csv."""

SEALS = ".seals.part"
"""Ending of the file beside a growing table that says at which sizes it had which SHA-256, a line each."""


class TableWriter:
    """A text table that grows at the end of ``<path>.part`` and becomes ``<path>`` when it is whole.

    Whoever reads it before that trusts ``<path>.seals.part``, which is written after what it seals.

    Args:
        columns: CSV header; None for a file of JSON lines or of vectors.
        keep: (bytes, SHA-256) of the part to go on from; None starts anew.

    Raises:
        IntegrityError: the part on disk does not begin with what ``keep`` describes.
    """

    def __init__(self, path: Path, columns: Sequence[str] | None, keep: tuple[int, str] | None = None) -> None:
        self.path = path
        self._part = path.with_name(path.name + ".part")
        self._hash = hashlib.sha256()
        self._size = 0
        self._columns = columns
        self._sealed = -1
        if keep is None:
            self._file = open_own(self._part, "wb")
            if columns:
                self.append([columns])
        else:
            if path.exists() and not self._part.exists():
                os.replace(path, self._part)
            self._file = _continue(self._part, *keep, self._hash)
            self._size = keep[0]
        self._seals = open_own(path.with_name(path.name + SEALS), "wb")
        self.mark()

    def append(self, rows: Iterable[Sequence[object]]) -> None:
        """Adds CSV rows; None is an empty cell, floats keep every digit."""
        self._add(csv_bytes(rows))

    def append_json(self, record: JsonObject) -> None:
        """Adds one JSON line."""
        self._add((json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n").encode())

    def append_vectors(self, rows: Iterable[NDArray[np.float32]]) -> None:
        """Adds vectors, float32 and little-endian."""
        self._add(b"".join(np.ascontiguousarray(row, dtype="<f4").tobytes() for row in rows))

    def _add(self, data: bytes) -> None:
        with naming(self._part):
            self._file.write(data)
        self._hash.update(data)
        self._size += len(data)

    def mark(self) -> tuple[int, str]:
        """Hands what was appended to the operating system; (bytes, SHA-256) to go on from.

        No fsync: after a power cut the part may be short of its mark, and the digest shows it.
        """
        with naming(self._part):
            self._file.flush()
            digest = self._hash.hexdigest()
            if self._sealed != self._size:
                self._sealed = self._size
                self._seals.write(f"{self._size} {digest}\n".encode())
                self._seals.flush()
        return self._size, digest

    def check(self) -> Path:
        """The path of the table so far.

        Raises:
            IntegrityError: it is not what was written.
        """
        digest = self.mark()[1]
        if sha256(self._part) != digest:
            raise IntegrityError(f"{self._part}: damaged during the run; the same command continues it")
        return self._part

    def finish(self) -> str:
        """Renames the table into place; its SHA-256.

        Raises:
            IntegrityError: it is not what was written.
        """
        self.check()
        digest = self.mark()[1]
        with naming(self._part):
            os.fsync(self._file.fileno())
            self.close()
        os.replace(self._part, self.path)
        return digest

    @property
    def empty(self) -> bool:
        """True if the table holds no row."""
        return self._size == len(csv_bytes([self._columns] if self._columns else ()))

    def close(self) -> None:
        """Closes the file where it is, to be resumed."""
        self._file.close()
        self._seals.close()


def csv_bytes(rows: Iterable[Iterable[object]]) -> bytes:
    """Rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def table_bytes(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> bytes:
    """Rows by their columns' names as CSV, the names first; a cell is empty where a row has none.

    Raises:
        ValueError: a row has a name that is no column's.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def without_formulas(cell: object) -> object:
    """A cell that a spreadsheet would take for a formula, made a text by a leading apostrophe; others as they are."""
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    return f"'{cell}" if number_of(cell, None) is None else cell


def _continue(part: Path, size: int, digest: str, hasher: Any) -> Any:
    try:
        file = open_own(part, "r+b")
    except FileNotFoundError:
        raise IntegrityError(f"{part}: the table that the checkpoint continues is gone") from None
    left = size
    while left and (block := file.read(min(left, 1 << 20))):
        hasher.update(block)
        left -= len(block)
    if left or hasher.hexdigest() != digest:
        file.close()
        raise IntegrityError(f"{part}: does not match the checkpoint")
    file.truncate(size)
    file.seek(size)
    return file
