"""The clients of a run that is watched: what they hold, how often they counted, with whom, and who stands alone."""

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject
from simfl.privacy.multiround.analysis import MatrixAnalysis
from simfl.results.file_names import BEGUN, CLIENTS, JOINED, JOINED_LIST, SCENARIO, is_finished
from simfl.results.folder import ResultsFolder
from simfl.results.sealed_files import digests_of, read_sealed
from simfl.results.unfinished import UnfinishedTable

MOST = 200
"""Clients that are shown one by one; of more, none."""

MOST_ROUNDS = 2000
"""Rounds from which exposure is worked out while a run is watched; afterwards the report says it."""


MOST_BYTES = 1 << 26
"""Of a table of participation that is read while a run is watched; of a larger one, nothing is worked out."""

PARTICIPATION = "participation.csv"


@dataclass
class LiveClients:
    """The clients of one run's folder, looked at again and again; what has not grown is not worked out again.

    Nothing is told of the ``damages`` that the last look has found.
    """

    folder: Path
    damages: list[str] = field(default_factory=list)
    _size: int = -1
    _finished: bool = False
    _known: dict[int, JsonObject] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._part = UnfinishedTable(self.folder, PARTICIPATION)

    def look(self) -> list[JsonObject]:
        """A row a client as JSON data, empty where there are too many, or nothing is known of them.

        ``client``, ``name``, ``samples``; ``rounds`` in whose sums it was; ``unit``: the others that have been in the
        same sums with the same weights; ``exposed``: the round from which on the sums give its update away; of
        remote ones also ``updates``, ``refused``, ``scores`` and ``seen_s``, when it last asked, in seconds since
        1970.
        """
        self.damages = []
        try:
            clients = list(csv.DictReader(io.StringIO(self._clients().decode(errors="replace"))))
        except SimflError as error:
            self.damages.append(str(error))
            return []
        if not 0 < len(clients) <= MOST:
            return []
        try:
            self._read(len(clients))
        except SimflError as error:
            self._size, self._known = -1, {}
            self.damages.append(str(error))
        joined = self._joined_clients()
        nothing = {"rounds": 0, "unit": [], "exposed": None}
        return [
            {"client": i, "name": row.get("name", ""), "samples": int(row.get("samples") or 0)}
            | self._known.get(i, nothing)
            | self._status(i, joined)
            for i, row in enumerate(clients)
        ]

    def _clients(self) -> bytes:
        """The content of ``clients.csv``; nothing where the run has none.

        Raises:
            SimflError: it is damaged.
        """
        finished = is_finished(self.folder)
        if not finished and not any((self.folder / name).exists() for name in (SCENARIO, BEGUN)):
            return b""
        results = ResultsFolder.open(self.folder) if finished else ResultsFolder.open_begun(self.folder)
        return results.read(CLIENTS) if CLIENTS in results else b""

    def _joined_clients(self) -> frozenset[int]:
        """The remote clients that are known to have joined."""
        path = self.folder / JOINED / JOINED_LIST
        try:
            document = read_sealed(path)
        except SimflError as error:
            self.damages.append(str(error))
            return frozenset()
        if document is not None and document["run"] not in digests_of(self.folder):
            self.damages.append(f"{path}: of another run")
            return frozenset()
        return frozenset(document["clients"] if document else ())

    def _status(self, client: int, known: frozenset[int]) -> JsonObject:
        path = self.folder / JOINED / f"{client}.json"
        try:
            status, seen_s = read_sealed(path), path.stat().st_mtime
        except SimflError as error:
            self.damages.append(str(error))
            return {}
        except OSError:
            status = None
        if status is None:
            if client in known and not is_finished(self.folder):
                self.damages.append(f"{path}: gone, though the client has joined")
            return {}
        if status["client"] != client or status.get("run") not in {None, *digests_of(self.folder)}:
            self.damages.append(f"{path}: of another client or run")
            return {}
        reported = {name: status.get(name) for name in ("updates", "refused", "scores")}
        return reported | {"seen_s": seen_s} | ({"name": str(status["name"])} if status.get("name") else {})

    def _read(self, clients: int) -> None:
        """Works out again what the participation of all has made of them, if it has grown."""
        if is_finished(self.folder):
            if self._finished:
                return
            path = ResultsFolder.open(self.folder).file(PARTICIPATION)
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
            basis = MatrixAnalysis.of(P).basis
        except SimflError:
            return
        alone = (basis.size == 1) & (basis.isolated > 0)
        for one, label in enumerate(basis.classes.label.tolist()):
            if label >= 0:
                others = np.flatnonzero(basis.classes.label == label).tolist()
                exposed = int(basis.rounds[basis.isolated[label] - 1]) if alone[label] else None
                self._known[one] |= {"unit": [other for other in others if other != one], "exposed": exposed}


def _entries(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]] | None:
    """Rounds, clients and weights of the entries of a participation table; None where there is none."""
    rows = [row.split(b",") for row in data.splitlines()]
    places = [rows[0].index(name) for name in (b"round", b"client", b"weight")] if rows else []
    if len(rows) < 2:
        return None
    cells = np.array([[float(row[place]) for place in places] for row in rows[1:]])
    return cells[:, 0].astype(np.int64), cells[:, 1].astype(np.int64), cells[:, 2]
