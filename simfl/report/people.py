"""The clients of a run that is watched: what they hold, how often they counted, with whom, and who stands alone."""

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.errors import SimflError
from simfl.privacy.study import Study
from simfl.stored import BEGUN, CLIENTS, JOINED, SCENARIO, Part, Stored, is_finished, read_sealed

__all__ = ["MOST", "People"]

MOST = 200
"""Clients that are shown one by one; of more, none."""

MOST_ROUNDS = 2000
"""Rounds from which exposure is worked out while a run is watched; afterwards the report says it."""


MOST_BYTES = 1 << 26
"""Of a table of participation that is read while a run is watched; of a larger one, nothing is worked out."""

PARTICIPATION = "participation.csv"


@dataclass
class People:
    """The clients of one run's folder, looked at again and again; what has not grown is not worked out again.

    Args:
        folder: of the run.

    Attributes:
        damages: what the last look has found damaged; nothing is told of it.
    """

    folder: Path
    damages: list[str] = field(default_factory=list)
    _size: int = -1
    _finished: bool = False
    _known: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._part = Part(self.folder, PARTICIPATION)

    def look(self) -> list[dict[str, Any]]:
        """A row a client as JSON data, empty where there are too many, or nothing is known of them.

        ``client``, ``name``, ``samples``; ``rounds`` in whose sums it was; ``unit``: the others that have been in the
        same sums with the same weights; ``exposed``: the round (from 1) from which on the sums give its update away; of
        those outside also ``updates``, ``refused``, ``scores`` and ``seen_s``, when it last asked, in seconds since
        1970.
        """
        self.damages = []
        try:
            people = _rows(self._clients())
        except SimflError as error:
            self.damages.append(str(error))
            return []
        if not 0 < len(people) <= MOST:
            return []
        try:
            self._read(len(people))
        except SimflError as error:
            self._size, self._known = -1, {}
            self.damages.append(str(error))
        nothing = {"rounds": 0, "unit": [], "exposed": None}
        return [
            {"client": i, "name": row.get("name", ""), "samples": int(row.get("samples") or 0)}
            | self._known.get(i, nothing)
            | self._joined(i)
            for i, row in enumerate(people)
        ]

    def _clients(self) -> bytes:
        """The content of ``clients.csv``; nothing where the run has none.

        Raises:
            SimflError: it is damaged.
        """
        finished = is_finished(self.folder)
        if not finished and not any((self.folder / name).exists() for name in (SCENARIO, BEGUN)):
            return b""
        stored = Stored.open(self.folder) if finished else Stored.begun(self.folder)
        return stored.read(CLIENTS) if CLIENTS in stored else b""

    def _joined(self, client: int) -> dict[str, Any]:
        path = self.folder / JOINED / f"{client}.json"
        try:
            found, seen_s = read_sealed(path), path.stat().st_mtime
        except SimflError as error:
            self.damages.append(str(error))
            return {}
        except OSError:
            return {}
        if found is None:
            return {}
        if (found["client"], found.get("run", self.folder.name)) != (client, self.folder.name):
            self.damages.append(f"{path}: of another client or run")
            return {}
        told = {name: found.get(name) for name in ("updates", "refused", "scores")}
        return told | {"seen_s": seen_s} | ({"name": str(found["name"])} if found.get("name") else {})

    def _read(self, clients: int) -> None:
        """Works out again what the participation of all has made of them, if it has grown."""
        if is_finished(self.folder):
            if self._finished:
                return
            path = Stored.open(self.folder).file(PARTICIPATION)
            size, self._finished = path.stat().st_size, True
        elif self._part.look():
            path, size = self._part.path, self._part.size
        else:
            return
        if size == self._size:
            return
        self._size = size
        with open(path, "rb") as file:
            entries = _entries(file.read(size)) if size <= MOST_BYTES else None
        self._known = {}
        if entries is None:
            return
        rounds, who, weights = entries
        summed = np.unique(np.stack([who, rounds])[:, weights > 0], axis=1)[0]
        counts = np.bincount(summed, minlength=clients)
        self._known = {i: {"rounds": int(count), "unit": [], "exposed": None} for i, count in enumerate(counts)}
        if rounds.max() >= MOST_ROUNDS:
            return
        P = np.zeros((int(rounds.max()) + 1, clients))
        np.maximum.at(P, (rounds, who), weights)  # where clients aggregate, too: the largest weight of anybody
        try:
            basis = Study.of(P).basis
        except SimflError:
            return
        alone = (basis.size == 1) & (basis.isolated > 0)
        for one, label in enumerate(basis.classes.label.tolist()):
            if label >= 0:
                others = np.flatnonzero(basis.classes.label == label).tolist()
                exposed = int(basis.rounds[basis.isolated[label] - 1]) + 1 if alone[label] else None
                self._known[one] |= {"unit": [other for other in others if other != one], "exposed": exposed}


def _rows(data: bytes) -> list[dict[str, str]]:
    """The rows of a table."""
    return list(csv.DictReader(io.StringIO(data.decode(errors="replace"))))


def _entries(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]] | None:
    """Rounds, clients and weights of the entries of a participation table; None where there is none."""
    rows = [row.split(b",") for row in data.splitlines()]
    places = [rows[0].index(name) for name in (b"round", b"client", b"weight")] if rows else []
    if len(rows) < 2:
        return None
    cells = np.array([[float(row[place]) for place in places] for row in rows[1:]])
    return cells[:, 0].astype(np.int64), cells[:, 1].astype(np.int64), cells[:, 2]
