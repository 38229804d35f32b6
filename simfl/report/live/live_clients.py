"""The clients of a run that is watched: what they hold, how often they counted, with whom, and who stands alone."""

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject
from simfl.core.types import SERVER, Floats, Integers
from simfl.privacy.multiround.matrix_metrics import MatrixAnalysis
from simfl.privacy.multiround.participation_matrix import ParticipationMatrix, identical
from simfl.results.file_names import BEGUN, CLIENTS, JOINED, JOINED_LIST, SCENARIO, is_finished
from simfl.results.folder import ResultsFolder, UnfinishedTable
from simfl.results.sealed_files import digests_of, read_sealed
from simfl.secagg.base import PROTOCOLS

MOST = 200
"""Clients that are shown one by one; of more, none."""

MOST_ROUNDS = 2000
"""First rounds from which exposure is worked out while a run is watched; ``simfl audit`` works it out from all."""

MOST_BYTES = 1 << 26
"""Of a table of participation that is read while a run is watched; of a larger one, nothing is worked out."""

PARTICIPATION = "participation.csv"

NOTHING: JsonObject = {"rounds": 0, "unit": [], "exposed": None, "unknown_after": None}
"""What is said of a client that has been in no sum; with ``NOT_KNOWN`` of one of whom nothing can be said."""

NOT_KNOWN: JsonObject = {"unit": None, "unknown_after": 0}


@dataclass(frozen=True)
class FirstRounds:
    """What the first rounds of a participation matrix, at most :data:`MOST_ROUNDS`, have made of the clients.

    Attributes:
        label: the clients' classes of identical columns, -1 of one that was in no sum; shape (N,).
        exposed: of the clients that are exposed for certain, the round from which on.
        known: the first rounds within which nobody else is exposed; fewer than all where the budget of the analysis
            ended, or the weights of a round cannot be read for sure.
    """

    P: Floats
    label: Integers
    exposed: dict[int, int]
    known: int

    @classmethod
    def of(cls, P: Floats) -> "FirstRounds":
        """Reads a (J, N) array.

        Raises:
            SimflError: it is no participation matrix.
        """
        matrix = ParticipationMatrix.of(P, doubles=True)
        sure = bool(matrix.sure.all())
        basis = MatrixAnalysis.of(matrix if sure else matrix.certain()).basis
        label = basis.classes.label
        alone = (basis.size == 1) & (basis.isolated > 0)
        exposed = {
            int(i): int(basis.rounds[basis.isolated[label[i]] - 1])
            for i in np.flatnonzero(label >= 0)
            if alone[label[i]]
        }
        known = min(basis.known, matrix.first_unsure)
        return cls(P, label if sure else identical(matrix).label, exposed, known)


@dataclass
class LiveClients:
    """The clients of one run's folder, looked at again and again; what has not grown is not worked out again.

    Nothing is told of the ``damages`` that the last look has found.
    Where a protocol opens the sum of each unit, or a plugin's may, no unit and no exposure is known, as the table of a
    running run does not tell these sums apart; a plugin's that has finished has said whether it does.
    """

    folder: Path
    damages: list[str] = field(default_factory=list)
    _size: int = -1
    _finished: bool = False
    _sums_units: bool = False
    _known: dict[int, JsonObject] = field(default_factory=dict)
    _first: FirstRounds | None = None

    def __post_init__(self) -> None:
        self._part = UnfinishedTable(self.folder, PARTICIPATION)

    def look(self, protocol: str = "plain") -> list[JsonObject]:
        """A row a client as JSON data, empty where there are too many, or nothing is known of them.

        ``protocol`` is the name of the run's protocol.

        ``client``, ``name``, ``samples``; ``rounds`` in whose sums it was; ``unit``: the others that have been in the
        same sums with the same weights; ``exposed``: the round from which on the sums give its update away;
        ``unknown_after``: of one that is not exposed within this many first rounds, while it is not known whether it
        is later; None where it is known of all rounds. What is not known of ``rounds`` and ``unit`` is None, too. Of
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
        known = PROTOCOLS.modules.keys()
        self._sums_units = protocol not in known or PROTOCOLS[protocol].sums_units
        try:
            self._read(len(clients))
        except SimflError as error:
            self._size, self._known = -1, dict.fromkeys(range(len(clients)), NOTHING | NOT_KNOWN)
            self.damages.append(str(error))
        joined = self._joined_clients()
        return [
            {"client": i, "name": row.get("name", ""), "samples": int(row.get("samples") or 0)}
            | self._known.get(i, NOTHING)
            | self._status(i, joined)
            for i, row in enumerate(clients)
        ]

    def _clients(self) -> bytes:
        """The content of ``clients.csv``; nothing where the run has none, or one of so many that it is compressed.

        Raises:
            SimflError: it is damaged.
        """
        finished = is_finished(self.folder)
        if not finished and not any((self.folder / name).exists() for name in (SCENARIO, BEGUN)):
            return b""
        results = ResultsFolder.open(self.folder) if finished else ResultsFolder.open_begun(self.folder)
        name = results.table(CLIENTS)
        content = results.read(name) if name in results else b""
        return content if name == CLIENTS else b""

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
            results = ResultsFolder.open(self.folder)
            path, self._sums_units = results.file(PARTICIPATION), "sums_of_units" in results.summary
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
        if size > MOST_BYTES:
            self._known = dict.fromkeys(range(clients), NOTHING | NOT_KNOWN | {"rounds": None})
        elif entries is not None:
            counts = _columns(*entries, clients)[0]
            beside = NOT_KNOWN if self._sums_units else {}
            self._known = {i: NOTHING | {"rounds": count} | beside for i, count in enumerate(counts)}
            if not self._sums_units:
                self._work_out(*entries, clients)

    def _work_out(self, rounds: Integers, who: Integers, weights: Floats, clients: int) -> None:
        """Adds units and exposure to what is known of the clients; units by all rounds."""
        n_rounds = int(rounds.max()) + 1
        P = np.zeros((min(n_rounds, MOST_ROUNDS), clients))
        early = rounds < MOST_ROUNDS
        np.maximum.at(P, (rounds[early], who[early]), weights[early])  # where clients aggregate: the largest weight
        try:
            if self._first is None or not np.array_equal(self._first.P, P):
                self._first = FirstRounds.of(P)
        except SimflError:
            self._known = {i: row | NOT_KNOWN for i, row in self._known.items()}
            return
        first, later = self._first, _columns(rounds[~early], who[~early], weights[~early], clients)[1]
        groups: dict[tuple[int, bytes], list[int]] = {}
        for i, row in self._known.items():
            if row["rounds"]:
                groups.setdefault((int(first.label[i]), later[i]), []).append(i)
        for group in groups.values():
            for i in group:
                exposed = first.exposed.get(i)
                safe = exposed is not None or len(group) > 1 or first.known == n_rounds
                self._known[i] |= {"unit": [other for other in group if other != i], "exposed": exposed,
                                   "unknown_after": None if safe else first.known}  # fmt: skip


def _columns(rounds: Integers, who: Integers, weights: Floats, clients: int) -> tuple[list[int], list[bytes]]:
    """Of each client the number of rounds in whose sums it was, and its rounds with their largest weights as bytes."""
    order = np.lexsort((weights, rounds, who))
    order = order[weights[order] > 0]
    who, rounds, weights = who[order], rounds[order], weights[order]
    last = np.ones(len(order), dtype=bool)  # of equal client and round, which the largest weight is
    last[:-1] = (who[1:] != who[:-1]) | (rounds[1:] != rounds[:-1])
    who, rounds, weights = who[last], rounds[last], weights[last]
    bounds = np.searchsorted(who, np.arange(clients + 1)).tolist()
    spans = [slice(start, stop) for start, stop in zip(bounds[:-1], bounds[1:], strict=True)]
    return [span.stop - span.start for span in spans], [rounds[s].tobytes() + weights[s].tobytes() for s in spans]


def _entries(data: bytes) -> tuple[Integers, Integers, Floats] | None:
    """Rounds, clients and weights of the entries of a participation table; None where there is none, or edges have
    tables of their own in it.
    """
    rows = [row.split(b",") for row in data.splitlines()]
    if rows and b"aggregator" in rows[0] and any(int(row[1]) < SERVER for row in rows[1:]):
        return None
    places = [rows[0].index(name) for name in (b"round", b"client", b"weight")] if rows else []
    if len(rows) < 2:
        return None
    cells = np.array([[float(row[place]) for place in places] for row in rows[1:]])
    return cells[:, 0].astype(np.int64), cells[:, 1].astype(np.int64), cells[:, 2]
