"""Updates of a run's remote clients, stored by SHA-256, so that the run can be repeated without them.

``updates.csv`` has a row a job: ``job``, ``client``, ``version`` of the model that it downloaded, ``model`` (the
SHA-256 of that model's float32 values), ``update`` (the SHA-256 of the file ``updates/SHA-256.npy``) and ``loss``.
``scores``: those that the client reported since its last update, JSON. During the run, rows go to
``updates.csv.part`` as they come, each with one more column, ``seal``: the SHA-256 of the seal of the row before (of
the first row: of the header, that of the run's digest) and of the row itself, so that no row can be changed, moved,
added or left out unseen; only the end can be cut off.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simfl.core.errors import IntegrityError, SimflError
from simfl.core.storage.disk import make_folder, naming, open_own, read_regular, refuse_link, write_atomically
from simfl.core.types import JobRequest, JobResult, RemoteClientError, Vectors
from simfl.results.file_names import UPDATES, UPDATES_FOLDER, is_finished
from simfl.results.folder import ResultsFolder, read_update
from simfl.results.tables import csv_bytes

ANEW = "simfl serve --force asks for every update again"


class UpdateRecord(NamedTuple):
    """A row of ``updates.csv``."""

    job: int
    client: int
    version: int
    model: str
    update: str
    loss: float
    scores: str


HEADER = csv_bytes([UpdateRecord._fields])


class UpdateStore:
    """The updates of one run, in its folder, if that exists yet; ``anew``: what is there already counts for nothing.

    Raises:
        IntegrityError: the updates that the folder holds, of a finished run or in a journal, are damaged.
    """

    def __init__(self, folder: Path, anew: bool = False) -> None:
        self.folder = folder
        self._records: dict[int, UpdateRecord] = {}
        self._journal: Any = None
        self._seal = ""
        if anew:
            return
        if is_finished(folder):
            results = ResultsFolder.open(folder)
            if UPDATES in results:
                self._load(csv.reader(results.file(UPDATES).read_text().splitlines()[1:]))
        elif self._part.is_file():
            self._load(_check_seals(self._part, folder.name))

    @property
    def _part(self) -> Path:
        return self.folder / f"{UPDATES}.part"

    def _load(self, rows: Iterable[list[str]]) -> None:
        for job, client, version, model, update, loss, scores in rows:
            record = UpdateRecord(int(job), int(client), int(version), model, update, float(loss), scores)
            self._records[record.job] = record

    def __len__(self) -> int:
        return len(self._records)

    def find(self, request: JobRequest) -> UpdateRecord | None:
        """The update of this job and this model, if there is one."""
        record = self._records.get(request.job.id)
        return record if record is not None and record.model == digest_of(request.model) else None

    def read(self, record: UpdateRecord) -> JobResult:
        """The update itself.

        Raises:
            IntegrityError: its file is damaged or gone.
        """
        data = read_update(self.folder, record.update)
        return JobResult(np.load(io.BytesIO(data), allow_pickle=False), record.loss)

    def add(self, request: JobRequest, result: JobResult, scores: str = "") -> UpdateRecord:
        """Writes an update to disk; it is safe from a kill when this returns."""
        data, job = npy_bytes(result.delta), request.job
        model, update = digest_of(request.model), sha256(data).hexdigest()
        record = UpdateRecord(job.id, job.client, job.version, model, update, result.loss, scores)
        folder = self.folder / UPDATES_FOLDER
        make_folder(folder, self.folder.parent)
        if not (path := folder / f"{record.update}.npy").exists():
            write_atomically(path, data)
        self._records[job.id] = record
        self._append(record)
        return record

    def _append(self, record: UpdateRecord) -> None:
        if self._journal is None:  # a torn line at the end of an old one is left behind
            text, self._seal = _seal_line(HEADER, _first(self.folder.name))
            for known in self._records.values():
                line, self._seal = _seal_line(csv_bytes([known]), self._seal)
                text += line
            write_atomically(self._part, text)
            self._journal = open_own(self._part, "ab")
            return
        line, self._seal = _seal_line(csv_bytes([record]), self._seal)
        with naming(self._part):
            self._journal.write(line)
            self._journal.flush()

    def finalise(self) -> None:
        """Writes the table of the finished run; files of updates that it does not name are removed."""
        if self._journal is not None:
            self._journal.close()
        rows = [self._records[job] for job in sorted(self._records)]
        write_atomically(self.folder / UPDATES, HEADER + csv_bytes(rows))
        refuse_link(self.folder / UPDATES_FOLDER)
        wanted = {record.update for record in rows}
        for path in (self.folder / UPDATES_FOLDER).glob("*.npy"):
            if path.stem not in wanted and len(path.stem) == 64:
                path.unlink()


class UpdateReplay:
    """Remote clients replayed from their updates in the finished run ``source``, which are stored in ``target``, too.

    Raises:
        SimflError: the source is no finished run with remote clients.
        IntegrityError: what they sent is damaged.
    """

    def __init__(self, source: Path, target: Path) -> None:
        ResultsFolder.open(source).check()
        self.source, self.target = UpdateStore(source), UpdateStore(target, anew=True)
        if not (source / UPDATES).exists():
            raise SimflError(f"{source}: no client was remote in this run")

    def request(self, requests: Sequence[JobRequest]) -> None:
        """Nobody is asked."""

    def collect(self, requests: Sequence[JobRequest]) -> list[JobResult]:
        results = []
        for request in requests:
            record = self.source.find(request)
            if record is None:
                job = request.job
                raise RemoteClientError(
                    f"{self.source.folder}: no update of client {job.client} for job {job.id} and this model "
                    f"(version {job.version})"
                )
            results.append(self.source.read(record))
            self.target.add(request, results[-1], record.scores)
        return results

    def stored_updates(self) -> int:
        return len(self.target)

    def finalise(self) -> None:
        self.target.finalise()


def npy_bytes(delta: Vectors) -> bytes:
    """An update as the bytes of an .npy file, the same for the same numbers."""
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(delta, dtype="<f4"), allow_pickle=False)
    return file.getvalue()


def digest_of(model: Vectors) -> str:
    """SHA-256 of a model's values, hexadecimal."""
    return sha256(np.ascontiguousarray(model, dtype="<f4").tobytes()).hexdigest()


# -- the journal's seals ---------------------------------------------------------------------------------


def _first(digest: str) -> str:
    """What the header's seal goes on from: a journal of another run does not fit."""
    return sha256(digest.encode()).hexdigest()


def _seal_line(line: bytes, before: str) -> tuple[bytes, str]:
    """A line of the journal with its seal as one more cell, and the seal."""
    seal = sha256(before.encode() + line).hexdigest()
    return line[:-1] + b"," + seal.encode() + b"\n", seal


def _check_seals(path: Path, digest: str) -> Iterator[list[str]]:
    """The rows of a run's journal without their seals. What stands behind the last line's end was torn off by a kill.

    Raises:
        IntegrityError: a row, or the header, is not what was written.
    """
    data = read_regular(path)
    lines = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
    seal = _first(digest)
    for number, line in enumerate(lines, 1):
        row, _, _ = line.rpartition(b",")
        expected, seal = _seal_line(row + b"\n", seal)
        if line + b"\n" != expected:
            if number == 1 and line + b"\n" == HEADER:
                raise IntegrityError(f"{path}: of an older simfl, whose rows have no seals; {ANEW}")
            raise IntegrityError(
                f"{path}:{number}: damaged (not the row that was written after the one before); {ANEW}"
            )
        if number == 1 and row + b"\n" != HEADER:
            raise IntegrityError(f"{path}: its columns are those of another simfl; {ANEW}")
        if number > 1:
            yield next(csv.reader([row.decode()]))
