"""What clients outside have sent in a run, kept by SHA-256, so that the run can be played again without them.

``updates.csv`` has a row a job: ``job``, ``client``, ``version`` of the model that it downloaded, ``model`` (the
SHA-256 of that model's float32 values), ``update`` (the SHA-256 of the file ``updates/SHA-256.npy``) and ``loss``.
``scores``: what the client told since its last update, JSON. While the run plays, rows go to ``updates.csv.part`` as
they come, each with one more column, ``seal``: the SHA-256 of the seal of the row before (of the first row: of the
header, that of the run's digest) and of the row itself, so that no row can be changed, moved, added or left out
unseen; only the end can be cut off.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.disk import make_folder, naming, open_own, refuse_link, write_atomically
from simfl.errors import IntegrityError, SimflError
from simfl.outside import Asked, OutsideError, Sent
from simfl.stored import UPDATES, VECTORS_OF, Stored, is_finished, read_update

__all__ = ["Record", "Replay", "Updates", "encoded"]

ANEW = "simfl serve --force asks for every update again"


class Record(NamedTuple):
    """A row of ``updates.csv``."""

    job: int
    client: int
    version: int
    model: str
    update: str
    loss: float
    scores: str


class Updates:
    """The updates of one run.

    Args:
        folder: of the run; it need not exist before the first update is kept.
        anew: what is there already counts for nothing.

    Raises:
        IntegrityError: the updates that the folder holds, of a finished run or in a journal, are damaged.
    """

    def __init__(self, folder: Path, anew: bool = False) -> None:
        self.folder = folder
        self._records: dict[int, Record] = {}
        self._journal: Any = None
        self._seal = ""
        if anew:
            return
        if is_finished(folder):
            stored = Stored.open(folder)
            if UPDATES in stored:
                self._take(csv.reader(stored.file(UPDATES).read_text().splitlines()[1:]))
        elif self._part.is_file():
            self._take(_unsealed(self._part, folder.name))

    @property
    def _part(self) -> Path:
        return self.folder / f"{UPDATES}.part"

    def _take(self, rows: Iterable[list[str]]) -> None:
        for job, client, version, model, update, loss, scores in rows:
            record = Record(int(job), int(client), int(version), model, update, float(loss), scores)
            self._records[record.job] = record

    def __len__(self) -> int:
        return len(self._records)

    def find(self, asked: Asked) -> Record | None:
        """What was sent for this job and this model, if that is known."""
        record = self._records.get(asked.job.id)
        return record if record is not None and record.model == digest_of(asked.model) else None

    def read(self, record: Record) -> Sent:
        """The update itself.

        Raises:
            IntegrityError: its file is damaged or gone.
        """
        data = read_update(self.folder, record.update)
        return Sent(np.load(io.BytesIO(data), allow_pickle=False), record.loss)

    def keep(self, asked: Asked, sent: Sent, scores: str = "") -> Record:
        """Writes an update to disk; it is safe from a kill when this returns."""
        data, job = encoded(sent.delta), asked.job
        model, update = digest_of(asked.model), sha256(data).hexdigest()
        record = Record(job.id, job.client, job.version, model, update, sent.loss, scores)
        folder = self.folder / VECTORS_OF
        make_folder(folder, self.folder.parent)
        if not (path := folder / f"{record.update}.npy").exists():
            write_atomically(path, data)
        self._records[job.id] = record
        self._note(record)
        return record

    def _note(self, record: Record) -> None:
        if self._journal is None:  # a torn line at the end of an old one is left behind
            text, self._seal = _sealed(_header(), _first(self.folder.name))
            for known in self._records.values():
                line, self._seal = _sealed(_table((), [known]), self._seal)
                text += line
            write_atomically(self._part, text)
            self._journal = open_own(self._part, "ab")
            return
        line, self._seal = _sealed(_table((), [record]), self._seal)
        with naming(self._part):
            self._journal.write(line)
            self._journal.flush()

    def conclude(self) -> None:
        """Writes the table of the finished run; files of updates that it does not name are removed."""
        if self._journal is not None:
            self._journal.close()
        rows = [self._records[job] for job in sorted(self._records)]
        write_atomically(self.folder / UPDATES, _table(Record._fields, rows))
        refuse_link(self.folder / VECTORS_OF)
        wanted = {record.update for record in rows}
        for path in (self.folder / VECTORS_OF).glob("*.npy"):
            if path.stem not in wanted and len(path.stem) == 64:
                path.unlink()


class Replay:
    """Plays the clients outside from what they sent in a finished run, and keeps it in the folder of the new one.

    Args:
        source: folder of the finished run.
        target: folder of the run that is played.

    Raises:
        SimflError: the source is no finished run with clients outside.
        IntegrityError: what they sent is damaged.
    """

    def __init__(self, source: Path, target: Path) -> None:
        Stored.open(source).check()
        self.source, self.target = Updates(source), Updates(target, anew=True)
        if not (source / UPDATES).exists():
            raise SimflError(f"{source}: no client was outside in this run")

    def ask(self, asked: Sequence[Asked]) -> None:
        """Nobody is asked."""

    def take(self, asked: Sequence[Asked]) -> list[Sent]:
        found = []
        for each in asked:
            record = self.source.find(each)
            if record is None:
                job = each.job
                raise OutsideError(
                    f"{self.source.folder}: no update of client {job.client} for job {job.id} and this model "
                    f"(version {job.version})"
                )
            found.append(self.source.read(record))
            self.target.keep(each, found[-1], record.scores)
        return found

    def kept(self) -> int:
        return len(self.target)

    def conclude(self) -> None:
        self.target.conclude()


def encoded(delta: NDArray[np.float32]) -> bytes:
    """An update as the bytes of an .npy file, the same for the same numbers."""
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(delta, dtype="<f4"), allow_pickle=False)
    return file.getvalue()


def digest_of(model: NDArray[np.float32]) -> str:
    """SHA-256 of a model's values, hexadecimal."""
    return sha256(np.ascontiguousarray(model, dtype="<f4").tobytes()).hexdigest()


def _table(columns: Sequence[str], rows: Any) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if columns:
        writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue().encode()


# -- the journal's seals ---------------------------------------------------------------------------------


def _header() -> bytes:
    return _table(Record._fields, ())


def _first(digest: str) -> str:
    """What the header's seal goes on from: a journal of another run does not fit."""
    return sha256(digest.encode()).hexdigest()


def _sealed(line: bytes, before: str) -> tuple[bytes, str]:
    """A line of the journal with its seal as one more cell, and the seal."""
    seal = sha256(before.encode() + line).hexdigest()
    return line[:-1] + b"," + seal.encode() + b"\n", seal


def _unsealed(path: Path, digest: str) -> Iterator[list[str]]:
    """The rows of a journal without their seals. What stands behind the last line's end was torn off by a kill.

    Args:
        path: the journal.
        digest: of the run that it is to belong to.

    Raises:
        IntegrityError: a row, or the header, is not what was written.
    """
    data = path.read_bytes()
    lines = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
    seal = _first(digest)
    for number, line in enumerate(lines, 1):
        row, _, found = line.rpartition(b",")
        expected, seal = _sealed(row + b"\n", seal)
        if line + b"\n" != expected:
            if number == 1 and line + b"\n" == _header():
                raise IntegrityError(f"{path}: of an older simfl, whose rows have no seals; {ANEW}")
            raise IntegrityError(
                f"{path}:{number}: damaged (not the row that was written after the one before); {ANEW}"
            )
        if number == 1 and row + b"\n" != _header():
            raise IntegrityError(f"{path}: its columns are those of another simfl; {ANEW}")
        if number > 1:
            yield next(csv.reader([row.decode()]))
