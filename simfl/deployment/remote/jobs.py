"""Remote clients, their open jobs and their updates: the state behind the HTTP server."""

import hmac
import io
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import isfinite
from pathlib import Path
from threading import Condition, Lock
from typing import Any

import numpy as np
from numpy.lib import format as npy

from simfl.api.files import (
    JOINED,
    JOINED_LIST,
    UpdateRecord,
    UpdateStore,
    make_folder,
    npy_bytes,
    read_sealed,
    refuse_link,
    touch,
    write_sealed,
)
from simfl.api.http import RequestError
from simfl.deployment.remote.job_times import JobTimes
from simfl.plugins import IntegrityError, JobRequest, JobResult, JsonObject, RemoteClientError, Vectors

MOST_SCORES = 100
"""Names of scores that a client may have."""

NONE = (None, None)
"""Durations of download and work that a client does not report."""

MOST_WAIT_S = 30.0
"""How long a client is kept waiting for a job before the answer that there is none yet."""

HEADER_BYTES = 4096
"""What an .npy file may have besides its numbers."""


@dataclass
class _JoinedClient:
    """A client that is a process of its own, joined (with a token) or not.

    Attributes:
        updates: accepted so far.
        refusals: updates refused so far.
        reason: why the last one was refused.
        scores: its latest scores, by name.
        new_scores: those since its last update.
    """

    client: int
    token: bytes = b""
    name: str = ""
    updates: int = 0
    refusals: int = 0
    reason: str = ""
    scores: dict[str, float] = field(default_factory=dict)
    new_scores: dict[str, float] = field(default_factory=dict)

    def refusal(self) -> str:
        """Why it has sent no update that was accepted."""
        if not self.token:
            return "nobody has joined for it"
        return f"{self.refusals} refused, the last because {self.reason}" if self.refusals else "none was sent"


class RemoteJobs:
    """Jobs of remote clients: handed out over HTTP, one queue a client. Any thread may call its methods.

    Implements :class:`simfl.core.types.RemoteClients`.

    Args:
        clients: numbers of the remote clients.
        updates: where their updates are stored; one that is there already is not asked for again.
        token: what lets a process join.
        limit_s: seconds of real time for the jobs of one aggregation; then the run ends. It decides whether the run
            ends, never what it computes.
        about: the run, as clients are told.
        times: writes how long jobs really took; None = beside the updates.
    """

    def __init__(
        self,
        clients: Sequence[int],
        updates: UpdateStore,
        token: str,
        limit_s: float,
        about: Mapping[str, object],
        times: JobTimes | None = None,
    ) -> None:
        self.updates, self.limit_s, self.about = updates, limit_s, dict(about)
        self._token = token.encode()
        self._clients = {client: _JoinedClient(client) for client in sorted(clients)}
        self._dimension = 0
        self._open: dict[int, JobRequest] = {}
        self._done: dict[int, UpdateRecord] = {}
        self._state, self._why = "running", ""
        self._informed: set[int] = set()
        self._status = ClientStatusFiles(updates.folder)
        self._times = times or JobTimes(updates.folder)
        self._changed = Condition()

    # -- the run's side ------------------------------------------------------------------------------

    def request(self, requests: Sequence[JobRequest]) -> None:
        with self._changed:
            for request in requests:
                self._dimension = len(request.model)
                if record := self.updates.find(request):
                    self._done[request.job.id] = record
                else:
                    self._open[request.job.id] = request
                    self._times.note_request(request.job.id)
            self._changed.notify_all()

    def collect(self, requests: Sequence[JobRequest]) -> list[JobResult]:
        jobs = [request.job for request in requests]
        with self._changed:
            if not self._changed.wait_for(lambda: all(job.id in self._done for job in jobs), self.limit_s):
                late = next(job for job in jobs if job.id not in self._done)
                raise RemoteClientError(
                    f"job {late.id} of client {late.client} (model version {late.version}) has failed: no update "
                    f"within {self.limit_s:g} s ({self._clients[late.client].refusal()}); the same command continues"
                )
            return [self.updates.read(self._done[job.id]) for job in jobs]

    def stored_updates(self) -> int:
        with self._changed:
            return len(self.updates)

    def finalise(self) -> None:
        with self._changed:
            self.updates.finalise()

    def end(self, why: str = "", grace_s: float = 2.0) -> None:
        """The run is over; waits a little until everybody who has joined knows.

        Args:
            why: what has ended it, if it has failed.
            grace_s: seconds of real time.
        """
        with self._changed:
            self._state, self._why = ("failed" if why else "finished"), why
            self._changed.notify_all()
            joined = {client for client, its in self._clients.items() if its.token}
            self._changed.wait_for(lambda: joined <= self._informed, grace_s)

    # -- the clients' side ---------------------------------------------------------------------------

    def may_join(self, token: str) -> bool:
        """Whether this is the token that lets a process join."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token)

    def client_of(self, token: str) -> int:
        """The client that was given this token; all are looked at, and none ends the search.

        Raises:
            RequestError: nobody was.
        """
        claimed, owner = token.encode("utf-8", "replace"), None
        with self._changed:
            for client, joined in self._clients.items():
                if hmac.compare_digest(claimed, joined.token or secrets.token_bytes()):
                    owner = client
        if owner is None:
            raise RequestError(401, "this token is not known")
        self._status.touch(owner)
        return owner

    def join(self, name: str, wanted: int | None) -> tuple[int, str]:
        """Makes the caller a client: the one that it names, whose former token is void then, or the first free one.

        Raises:
            RequestError: there is no such remote client, or none is free.
        """
        with self._changed:
            free = [client for client, joined in self._clients.items() if not joined.token]
            if wanted is not None and wanted not in self._clients:
                raise RequestError(404, f"client {wanted} is not remote; remote are {_few(self._clients)}")
            if wanted is None and not free:
                raise RequestError(409, "every remote client has joined; name a slot to take one over")
            joined = self._clients[free[0] if wanted is None else wanted]
            token = secrets.token_urlsafe(24)
            joined.token, joined.name = token.encode(), name
            self._informed.discard(joined.client)
        self._write_status(joined)
        return joined.client, token

    def jobs(self, client: int, wait_s: float = 0.0) -> JsonObject:
        """The open jobs of a client, oldest first; waits a little where there are none."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs_of(client) or self._state != "running", min(wait_s, MOST_WAIT_S))
            if self._state != "running":
                self._informed.add(client)
                self._changed.notify_all()
            waiting = self._jobs_of(client) if self._state == "running" else []
            for request in waiting[:1]:
                self._times.note_handover(request.job.id)
            jobs = [{"job": request.job.id, "version": request.job.version} for request in waiting]
            return {"state": self._state, "why": self._why, "jobs": jobs}

    def _jobs_of(self, client: int) -> list[JobRequest]:
        mine = (request for request in self._open.values() if request.job.client == client)
        return sorted(mine, key=lambda request: request.job.id)

    def model(self, client: int, version: int) -> bytes:
        """The model of a version that a client has a job for, as an .npy file.

        Raises:
            RequestError: it has none.
        """
        with self._changed:
            models = [request.model for request in self._jobs_of(client) if request.job.version == version]
        if not models:
            raise RequestError(404, "no open job of yours begins from this version")
        return npy_bytes(models[0])

    def max_update_bytes(self, client: int, job: int) -> int:
        """Bytes that the update of a job may have.

        Raises:
            RequestError: it is no job of this client's.
        """
        with self._changed:
            request, record = self._open.get(job), self._done.get(job)
        if client != (request.job.client if request else record.client if record else None):
            raise RequestError(404, "no such job of yours")
        return 4 * self._dimension + HEADER_BYTES

    def update(
        self, client: int, job: int, data: bytes, loss: float, durations_s: tuple[float | None, float | None] = NONE
    ) -> bool:
        """Takes an update; the same one again changes nothing.

        Args:
            client, job: whose it is.
            data: as it was sent.
            loss: mean training loss of its last pass.
            durations_s: of download and work, as the client reports them.

        Returns:
            Whether it is new.

        Raises:
            RequestError: it is no update of a job of this client's, or not the one that was sent before.
        """
        self.max_update_bytes(client, job)
        delta = parse_update(data, self._dimension)
        if not isfinite(loss):
            raise RequestError(422, "the loss is no finite number")
        with self._changed:
            if before := self._done.get(job):
                if (before.loss, before.update) != (loss, sha256(npy_bytes(delta)).hexdigest()):
                    raise RequestError(409, "another update of this job was accepted before")
                return False
            joined = self._clients[client]
            scores = json.dumps(dict(sorted(joined.new_scores.items()))) if joined.new_scores else ""
            request = self._open.pop(job)
            self._done[job] = self.updates.add(request, JobResult(delta, loss), scores)
            self._times.note_update(request, *durations_s)
            joined.updates, joined.new_scores = joined.updates + 1, {}
            self._changed.notify_all()
        self._write_status(joined)
        return True

    def note_refusal(self, client: int, reason: str) -> None:
        """Notes that an update of a client was refused."""
        with self._changed:
            joined = self._clients[client]
            joined.refusals, joined.reason = joined.refusals + 1, reason
        self._write_status(joined)

    def add_scores(self, client: int, scores: Mapping[str, Any]) -> None:
        """Adds numbers that a client reports of itself, by name; they are stored with the update that it sends next.

        Raises:
            RequestError: they are no finite numbers of sensible names, or too many.
        """
        for name, value in scores.items():
            if not (0 < len(name) <= 100 and name.isprintable()):
                raise RequestError(422, "a score's name has 1 to 100 printable letters")
            if type(value) not in (int, float) or not abs(value) <= 1e300:
                raise RequestError(422, "a score is a finite number")
        with self._changed:
            joined = self._clients[client]
            if len(joined.scores.keys() | scores.keys()) > MOST_SCORES:
                raise RequestError(422, f"at most {MOST_SCORES} names")
            numbers = {name: float(value) for name, value in scores.items()}
            joined.scores, joined.new_scores = joined.scores | numbers, joined.new_scores | numbers
        self._write_status(joined)

    def _write_status(self, joined: _JoinedClient) -> None:
        with self._changed:
            status = {
                "name": joined.name,
                "updates": joined.updates,
                "refused": joined.refusals,
                "scores": dict(joined.scores),
            }
        self._status.write(joined.client, status)


def _few(names: Any) -> str:
    listed = list(map(str, names))
    return ", ".join(listed[:10]) + (" ..." if len(listed) > 10 else "")


class ClientStatusFiles:
    """Status files of the clients of one run. Any thread may call its methods.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._list_lock = Lock()

    def write(self, client: int, status: Mapping[str, object]) -> None:
        """Writes what is known of a client; when it was last seen is the file's age."""
        path = self._path(client)
        make_folder(path.parent, self.folder.parent)
        write_sealed(path, {"run": self.folder.name, "client": client, **status})
        self._list(client)

    def touch(self, client: int) -> None:
        """Notes that a client has just been heard of."""
        path = self._path(client)
        refuse_link(path.parent)
        touch(path)

    def _path(self, client: int) -> Path:
        return self.folder / JOINED / f"{client}.json"

    def _list(self, client: int) -> None:
        """Notes that a client has a file; who is not noted yet may have one, too: a kill came between."""
        path, run = self.folder / JOINED / JOINED_LIST, self.folder.name
        with self._list_lock:
            try:
                before = read_sealed(path) or {}
            except IntegrityError:  # written anew
                before = {}
            known = before["clients"] if before.get("run") == run else []
            if client not in known:
                write_sealed(path, {"run": run, "clients": sorted({*known, client})})


def parse_update(data: bytes, dimension: int) -> Vectors:
    """
    Raises:
        RequestError: the data are no .npy file of this many finite float32 numbers.
    """
    file = io.BytesIO(data)
    try:
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(file)]
        shape, _, dtype = read(file)
    except Exception:  # whatever hostile bytes make numpy raise
        raise RequestError(422, "not an .npy file") from None
    if dtype != np.dtype("<f4") or shape != (dimension,):
        raise RequestError(422, f"an array of {dimension} float32 numbers is needed, got {dtype} {shape}"[:200])
    if len(rest := file.read()) != 4 * dimension:
        raise RequestError(422, f"{4 * dimension} bytes of numbers are needed, got {len(rest)}")
    update = np.frombuffer(rest, dtype="<f4")
    if not np.isfinite(update).all():
        raise RequestError(422, "it holds numbers that are not finite")
    return update
