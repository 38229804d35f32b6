"""A client of ``simfl serve``: a process that joins a run, trains the jobs that it is given and sends the updates.

from simfl.deployment.remote.client import join

client = join("http://127.0.0.1:8765", token)
train = client.local_training()
for job in client.jobs():
    delta, loss = train(job, client.model(job))
    client.send(job, delta, loss)
"""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

import numpy as np
from numpy.typing import NDArray

from simfl.deployment.remote.throttle import Throttle
from simfl.deployment.remote.wall_clock import ClockSource, WallClock
from simfl.plugins import RESULTS, Job, SimflError, Streams

WAIT_S = 20.0
"""How long the server is asked to wait for a job before it says that there is none."""

PAUSE_S = 0.25
"""Between two attempts to reach a server that is not there yet."""

SILENT_S = 120.0
"""A server that says nothing for so long has gone."""

Vector = NDArray[np.float32]


class ClientError(SimflError):
    """The server refuses a request, or does not answer.

    Attributes:
        status: of HTTP; 0 = no answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ClientJob(NamedTuple):
    """A job to do.

    Attributes:
        id: the job's number, the key of its random draws.
        version: of the model that it begins from.
    """

    id: int
    version: int


def join(
    address: str,
    token: str,
    name: str = "",
    slot: int | None = None,
    patience_s: float = 30.0,
    throttle: Throttle | None = None,
) -> "RemoteClient":
    """Joins a run.

    Args:
        address: what ``simfl serve`` says, e.g. ``http://127.0.0.1:8765``.
        token: the project's.
        name: what the process is called where the run is watched.
        slot: the client to be, also one that a process before was; None = the first that nobody is.
        patience_s: how long to wait for a server that does not answer yet.
        throttle: how slow to be; None = as fast as the machine.

    Raises:
        ClientError: the server refuses, or does not answer.
    """
    address = address.rstrip("/")
    opener = build_opener(ProxyHandler({}))  # never through a proxy
    project = json.loads(_first(opener, address, token, patience_s))
    request = {"name": name} | ({} if slot is None else {"slot": slot})
    answer = json.loads(_call(opener, address, token, "POST", "/clients", json.dumps(request).encode()))
    return RemoteClient(address, answer["token"], answer["slot"], project, opener, throttle)


@dataclass(frozen=True)
class RemoteClient:
    """A process that has joined.

    Attributes:
        address: of the server.
        token: this client's own.
        slot: the number of the client that it is.
        project: what the server tells of the run: ``name``, ``digest``, ``clients``, ``scenario``.
        throttle: how slow models come, work is and updates go; None = as fast as the machine.
        clock: measures how long download and work take, which is sent with the update; no result depends on it.
    """

    address: str
    token: str = field(repr=False)
    slot: int
    project: Mapping[str, Any]
    opener: OpenerDirector = field(repr=False)
    throttle: Throttle | None = None
    clock: ClockSource = field(default_factory=WallClock, repr=False)
    _moments: dict[int, list[float]] = field(default_factory=dict, init=False, repr=False)

    def jobs(self) -> Iterator[ClientJob]:
        """Every job, as it comes, until the run has ended.

        A job that no update is sent for comes again.

        Raises:
            ClientError: the run has failed, or the server is gone.
        """
        while True:
            news = json.loads(self._call("GET", f"/jobs?wait={WAIT_S:g}"))
            if news["state"] == "failed":
                raise ClientError(f"the run has failed: {news['why']}")
            if news["state"] != "running":
                return
            for job in news["jobs"][:1]:
                self._moments[job["job"]] = [self.clock.now_s()]
                yield ClientJob(job["job"], job["version"])

    def model(self, job: ClientJob) -> Vector:
        """The model that a job begins from, float32 (d,)."""
        data = self._call("GET", f"/models/{job.version}", throttled=True)
        self._moments.setdefault(job.id, []).append(self.clock.now_s())
        return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))

    def pretend_work(self, job: ClientJob, samples: float) -> None:
        """Waits until the job's work has taken as long, since the model came, as the throttle says.

        Args:
            job: whose model has come.
            samples: that it is trained on, each pass counted.
        """
        if self.throttle is not None:
            worked_s = self.clock.now_s() - self._moments[job.id][-1]
            self.clock.sleep(self.throttle.work_s(samples, job.id) - worked_s)

    def send(self, job: ClientJob, delta: Vector, loss: float) -> None:
        """Sends an update; again does no harm.

        Args:
            job: what it was asked for.
            delta: trained model minus downloaded model, (d,).
            loss: mean training loss over the last local epoch.

        Raises:
            ClientError: it is refused.
        """
        file = io.BytesIO()
        np.save(file, np.ascontiguousarray(delta, dtype="<f4"), allow_pickle=False)
        query = f"loss={quote(repr(float(loss)))}"
        if len(moments := self._moments.pop(job.id, [])) > 1:
            times_s = [*moments[:1], moments[-1], self.clock.now_s()]
            query += "".join(f"&{name}={max(0.0, end - start):.6f}"
                             for name, start, end in zip(("download_s", "work_s"), times_s, times_s[1:]))  # fmt: skip
        self._call("PUT", f"/updates/{job.id}?{query}", file.getvalue(), throttled=True)

    def scores(self, **values: float) -> None:
        """Tells numbers about itself; they are shown where the run is watched, and kept with the update sent next."""
        self._call("POST", "/scores", json.dumps(values).encode())

    def local_training(self) -> "RemoteTraining":
        """simfl's own local training on the samples that the scenario gives this client.

        The function that it returns makes of a job and its model what the simulator itself would make of it, bit for
        bit on the same platform. Data sets and files that the scenario names must be here, too.

        Raises:
            ClientError: the scenario has plugins, which are code and are not taken from a server, or the server has
                another results version of simfl.
            SimflError: the scenario cannot be built here.
        """
        return RemoteTraining(self.slot, self.project)

    def _call(self, method: str, path: str, body: bytes | None = None, throttled: bool = False) -> bytes:
        throttle = self.throttle if throttled else None
        return _call(self.opener, self.address, self.token, method, path, body, throttle, self.clock)


class RemoteTraining:
    """simfl's own local training of one client: called with a job and its model, it gives the update and the loss."""

    def __init__(self, client: int, project: Mapping[str, Any]) -> None:
        from simfl.api.scenarios import Scenario, Trust

        data = dict(project["scenario"])
        if data.get("plugins"):
            raise ClientError("the scenario has plugins; they are code, and no server may send any")
        if project["results"] != RESULTS:
            raise ClientError(f"the server has results version {project['results']} of simfl, here it is {RESULTS}")
        scenario = Scenario.of(data, str(project["name"]), trust=Trust())  # no server may name code, either
        self.client = client
        self.learner = scenario.learning.build(scenario, Streams(scenario.seed))
        self.epochs = scenario.training.epochs

    def samples(self, job: ClientJob) -> float:
        """Training samples of a job, each local epoch counted."""
        counts = self.learner.counts(np.array([self.client]), job.version)
        return float((counts * self.epochs(counts))[0])

    def __call__(self, task: ClientJob, model: Vector) -> tuple[Vector, float]:
        self.learner.put(task.version, model)
        updates = self.learner.train([Job(task.id, self.client, task.version, 0.0)])
        self.learner.drop(task.version)
        return updates.deltas[0], float(updates.loss[0])


def _first(opener: OpenerDirector, address: str, token: str, patience_s: float) -> bytes:
    """What the server tells of the project, as soon as there is one."""
    left = int(patience_s / PAUSE_S)
    while True:
        try:
            return _call(opener, address, token, "GET", "/project")
        except ClientError as error:
            if error.status or left <= 0:
                raise
        left -= 1
        Event().wait(PAUSE_S)


def _call(
    opener: OpenerDirector,
    address: str,
    token: str,
    method: str,
    path: str,
    body: bytes | None = None,
    throttle: Throttle | None = None,
    clock: ClockSource | None = None,
) -> bytes:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
    data: Any = body
    if throttle is not None and clock is not None and body is not None:
        headers["Content-Length"], data = str(len(body)), throttle.pieces(body, clock)
    try:
        request = Request(address + path, data, headers, method=method)
        with opener.open(request, timeout=SILENT_S) as answer:
            if throttle is not None and clock is not None and body is None:
                return throttle.receive(answer.read, clock)
            return answer.read()
    except HTTPError as error:
        raise ClientError(f"{address}{path}: {_why(error)} ({error.code})", error.code) from None
    except (OSError, ValueError) as error:
        raise ClientError(f"{address}: no answer ({error})") from None


def _why(error: HTTPError) -> str:
    try:
        return str(json.loads(error.read())["error"])
    except (ValueError, KeyError, TypeError, OSError):
        return "refused"
