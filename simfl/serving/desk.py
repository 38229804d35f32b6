"""Who is outside, what they have been asked for, and what they have sent: the state behind the HTTP server."""

import hmac
import io
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import isfinite
from pathlib import Path
from threading import Condition
from typing import Any

import numpy as np
from numpy.lib import format as npy

from simfl.disk import make_folder, refuse_link, touch
from simfl.outside import Asked, OutsideError, Sent
from simfl.stored import JOINED, write_sealed
from simfl.updates import Record, Updates, encoded

__all__ = ["HEADER_BYTES", "Desk", "Refused"]

HEADER_BYTES = 4096
"""What an .npy file may have besides its numbers."""

MOST_SCORES = 100
"""Names that a client may tell values of."""

MOST_WAIT_S = 30.0
"""How long a client is kept waiting for a job before it is told that there is none yet."""


class Refused(Exception):
    """A request that is not granted.

    Args:
        status: of HTTP, 4xx.
        message: why, in a line.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass
class _Slot:
    """A client outside.

    Attributes:
        sent, refused: updates.
        why: the last one was refused.
        scores: the latest of what it has told, by name.
        told: those since its last update.
    """

    client: int
    token: bytes = b""
    name: str = ""
    sent: int = 0
    refused: int = 0
    why: str = ""
    scores: dict[str, float] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)


class Desk:
    """Implements :class:`simfl.outside.Outside` for clients that come and ask. Any thread may call its methods.

    Args:
        clients: numbers of the clients outside.
        updates: where what they send is kept; what is there already is not asked for again.
        token: what lets a process join.
        limit_s: seconds of real time for the jobs of one aggregation; then the run ends. It decides whether the run
            ends, never what it computes.
        about: what a client is told about the run.
    """

    def __init__(
        self, clients: Sequence[int], updates: Updates, token: str, limit_s: float, about: Mapping[str, Any]
    ) -> None:
        self.updates, self.limit_s, self.about = updates, limit_s, dict(about)
        self._token = token.encode()
        self._slots = {client: _Slot(client) for client in sorted(clients)}
        self._dimension = 0
        self._open: dict[int, Asked] = {}
        self._kept: dict[int, Record] = {}
        self._state, self._why = "playing", ""
        self._told: set[int] = set()
        self._news = Condition()

    # -- the run's side ------------------------------------------------------------------------------

    def ask(self, asked: Sequence[Asked]) -> None:
        with self._news:
            for each in asked:
                self._dimension = len(each.model)
                if record := self.updates.find(each):
                    self._kept[each.job.id] = record
                else:
                    self._open[each.job.id] = each
            self._news.notify_all()

    def take(self, asked: Sequence[Asked]) -> list[Sent]:
        jobs = [each.job for each in asked]
        with self._news:
            if not self._news.wait_for(lambda: all(job.id in self._kept for job in jobs), self.limit_s):
                late = next(job for job in jobs if job.id not in self._kept)
                raise OutsideError(
                    f"job {late.id} of client {late.client} (model version {late.version}) has failed: no update "
                    f"within {self.limit_s:g} s ({self._fate(self._slots[late.client])}); the same command goes on"
                )
            return [self.updates.read(self._kept[job.id]) for job in jobs]

    def kept(self) -> int:
        with self._news:
            return len(self.updates)

    def conclude(self) -> None:
        with self._news:
            self.updates.conclude()

    def end(self, why: str = "", grace_s: float = 2.0) -> None:
        """The run is over; waits a little until everybody who has joined knows.

        Args:
            why: what has ended it, if it has failed.
            grace_s: seconds of real time.
        """
        with self._news:
            self._state, self._why = ("failed" if why else "finished"), why
            self._news.notify_all()
            joined = {client for client, slot in self._slots.items() if slot.token}
            self._news.wait_for(lambda: joined <= self._told, grace_s)

    @staticmethod
    def _fate(slot: _Slot) -> str:
        if not slot.token:
            return "nobody has joined for it"
        return f"{slot.refused} refused, the last because {slot.why}" if slot.refused else "none was sent"

    # -- the clients' side ---------------------------------------------------------------------------

    def may_join(self, token: str) -> bool:
        """Whether this is the token that lets a process join."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token)

    def whose(self, token: str) -> int:
        """The client that was given this token; all are looked at, and none ends the search.

        Raises:
            Refused: nobody was.
        """
        given, found = token.encode("utf-8", "replace"), None
        with self._news:
            for client, slot in self._slots.items():
                if hmac.compare_digest(given, slot.token or secrets.token_bytes()):
                    found = client
        if found is None:
            raise Refused(401, "this token is not known")
        self._seen(found)
        return found

    def join(self, name: str, wanted: int | None) -> tuple[int, str]:
        """Makes the caller a client: the one that it names, whose former token is void then, or the first free one.

        Raises:
            Refused: there is no such client outside, or none is free.
        """
        with self._news:
            free = [client for client, slot in self._slots.items() if not slot.token]
            if wanted is not None and wanted not in self._slots:
                raise Refused(404, f"client {wanted} is not outside; outside are {_few(self._slots)}")
            if wanted is None and not free:
                raise Refused(409, "every client outside has joined; name a slot to take one over")
            slot = self._slots[free[0] if wanted is None else wanted]
            token = secrets.token_urlsafe(24)
            slot.token, slot.name = token.encode(), name
            self._told.discard(slot.client)
        self._tell(slot)
        return slot.client, token

    def jobs(self, client: int, wait_s: float = 0.0) -> dict[str, Any]:
        """What a client is to do now, oldest first; waits a little where that is nothing."""
        with self._news:
            self._news.wait_for(lambda: self._mine(client) or self._state != "playing", min(wait_s, MOST_WAIT_S))
            if self._state != "playing":
                self._told.add(client)
                self._news.notify_all()
            mine = self._mine(client) if self._state == "playing" else []
            jobs = [{"job": each.job.id, "version": each.job.version} for each in mine]
            return {"state": self._state, "why": self._why, "jobs": jobs}

    def _mine(self, client: int) -> list[Asked]:
        return sorted((each for each in self._open.values() if each.job.client == client), key=lambda each: each.job.id)

    def model(self, client: int, version: int) -> bytes:
        """The model of a version that a client has a job for, as an .npy file.

        Raises:
            Refused: it has none.
        """
        with self._news:
            found = next((each.model for each in self._mine(client) if each.job.version == version), None)
        if found is None:
            raise Refused(404, "no open job of yours begins from this version")
        return encoded(found)

    def room(self, client: int, job: int) -> int:
        """Bytes that the update of a job may have.

        Raises:
            Refused: it is no job of this client's.
        """
        with self._news:
            asked, kept = self._open.get(job), self._kept.get(job)
        if client != (asked.job.client if asked else kept.client if kept else None):
            raise Refused(404, "no such job of yours")
        return 4 * self._dimension + HEADER_BYTES

    def update(self, client: int, job: int, data: bytes, loss: float) -> bool:
        """Takes an update; the same one again changes nothing.

        Returns:
            Whether it is new.

        Raises:
            Refused: it is no update of a job of this client's, or not the one that was sent before.
        """
        self.room(client, job)
        delta = _vector(data, self._dimension)
        if not isfinite(loss):
            raise Refused(422, "the loss is no finite number")
        with self._news:
            if before := self._kept.get(job):
                if (before.loss, before.update) != (loss, sha256(encoded(delta)).hexdigest()):
                    raise Refused(409, "another update of this job was accepted before")
                return False
            slot = self._slots[client]
            scores = json.dumps(dict(sorted(slot.told.items()))) if slot.told else ""
            self._kept[job] = self.updates.keep(self._open.pop(job), Sent(delta, loss), scores)
            slot.sent, slot.told = slot.sent + 1, {}
            self._news.notify_all()
        self._tell(slot)
        return True

    def refused(self, client: int, why: str) -> None:
        """Notes that what a client sent for a job was not taken."""
        with self._news:
            slot = self._slots[client]
            slot.refused, slot.why = slot.refused + 1, why
        self._tell(slot)

    def tell(self, client: int, scores: Mapping[str, Any]) -> None:
        """Notes numbers that a client tells of itself, by name; they are kept with the update that it sends next.

        Raises:
            Refused: they are no finite numbers of sensible names, or too many.
        """
        for name, value in scores.items():
            if not (0 < len(name) <= 100 and name.isprintable()):
                raise Refused(422, "a score's name has 1 to 100 printable letters")
            if type(value) not in (int, float) or not abs(value) <= 1e300:
                raise Refused(422, "a score is a finite number")
        with self._news:
            slot = self._slots[client]
            if len(slot.scores.keys() | scores.keys()) > MOST_SCORES:
                raise Refused(422, f"at most {MOST_SCORES} names")
            numbers = {name: float(value) for name, value in scores.items()}
            slot.scores, slot.told = slot.scores | numbers, slot.told | numbers
        self._tell(slot)

    # -- what a watcher is told ----------------------------------------------------------------------

    def _file(self, client: int) -> Path:
        return self.updates.folder / JOINED / f"{client}.json"

    def _tell(self, slot: _Slot) -> None:
        """Writes what is known of a client for who watches the run; when it was last seen is the file's age."""
        with self._news:
            path = self._file(slot.client)
            known = {
                "run": self.updates.folder.name,
                "client": slot.client,
                "name": slot.name,
                "updates": slot.sent,
                "refused": slot.refused,
                "scores": dict(slot.scores),
            }
        make_folder(path.parent, self.updates.folder.parent)
        write_sealed(path, known)

    def _seen(self, client: int) -> None:
        path = self._file(client)
        refuse_link(path.parent)
        touch(path)


def _vector(data: bytes, dimension: int) -> Any:
    """
    Raises:
        Refused: the data are no .npy file of this many finite float32 numbers.
    """
    file = io.BytesIO(data)
    try:
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(file)]
        shape, _, dtype = read(file)
    except Exception:  # whatever hostile bytes make numpy raise
        raise Refused(422, "not an .npy file") from None
    if dtype != np.dtype("<f4") or shape != (dimension,):
        raise Refused(422, f"an array of {dimension} float32 numbers is needed, got {dtype} {shape}"[:200])
    if len(rest := file.read()) != 4 * dimension:
        raise Refused(422, f"{4 * dimension} bytes of numbers are needed, got {len(rest)}")
    found = np.frombuffer(rest, dtype="<f4")
    if not np.isfinite(found).all():
        raise Refused(422, "it holds numbers that are not finite")
    return found


def _few(names: Any) -> str:
    listed = list(map(str, names))
    return ", ".join(listed[:10]) + (" ..." if len(listed) > 10 else "")
