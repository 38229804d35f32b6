"""A client's work where single arrivals matter: planned when it is selected, one event when its answer arrives."""

from collections.abc import Callable, Collection
from itertools import chain
from math import nan
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.accounts import Log
from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.exchange import ANSWER, REQUEST, computation, message, sample_delays, work
from simfl.agents.trips import Trip
from simfl.core.rng import Address
from simfl.core.types import SERVER, Arrays, Job
from simfl.learning.base import Sizes
from simfl.training.base import BufferedRule

TIMES = ("started_s", "download_s", "compute_s", "reply_s", "arrives_s", "ended_s", "unit_started_s")

NUMBERS = (
    "job", "client", "version", "lives", "down_bytes", "up_bytes", "loss", "serial", "received_version", "unit",
    "prepares", "departed",
)  # fmt: skip

_TIMES_OF = attrgetter("job.started_at", "download_s", "compute_s", "reply_s", "arrives_s", "ended_s", "unit.started_s")
_NUMBERS_OF = attrgetter(
    "job.id", "job.client", "job.version", "lives", "down_bytes", "up_bytes", "loss", "serial", "received_version",
    "unit.missing", "unit.serial", "unit.departed",
)  # fmt: skip
"""The same of a job; the place of its unit is filled in."""


class AsyncJob(Trip):
    """One job under way: a client as a state machine with absolute times. Its trip's durations were drawn when it was
    scheduled; those that depend on the model's version are replaced when it departs.

    Attributes:
        job: what is worked on.
        answered: called with it when its answer, or the end of its connection, has arrived over a shared link.
        cancelled: True once the server has stopped waiting for it.
        unit: the unit it belongs to.
        ended_s: simulated time at which it stopped occupying a slot; NaN while it does.
        received_version: the model's version when its update arrived; -1 before that.
    """

    __slots__ = ("job", "answered", "cancelled", "unit", "ended_s", "received_version")

    def __init__(self, job: Job, *durations_and_sizes: Any) -> None:
        super().__init__(*durations_and_sizes)
        self.job = job
        self.answered: Callable[[AsyncJob], None] | None = None
        self.cancelled = False
        self.unit: Any = None
        self.ended_s = nan
        self.received_version = -1

    @property
    def client(self) -> int:
        """Who works."""
        return self.job.client

    @property
    def number(self) -> int:
        """Of the job."""
        return self.job.id

    @property
    def version(self) -> int:
        """Of the model that it starts from."""
        return self.job.version

    @property
    def begins_s(self) -> float:
        """When the model left the server."""
        return self.job.started_at

    def has_sent(self, now_s: float) -> bool:
        """Whether its update has left the client by now; over a shared link perhaps a little later."""
        if self.assignment is not None or self.received_version >= 0:
            return self.received_version >= 0 or bool(self.assignment.attempts)
        departed = self.unit is not None and self.unit.departed
        sends = departed and self.lives and self.loss != REQUEST
        return sends and self.begins_s + self.download_s + self.compute_s <= now_s

    def worked_s(self, now_s: float) -> float:
        """Seconds for which the client has worked by now."""
        if self.assignment is not None:
            return float(self.assignment.worked_s)
        received_s = self.begins_s + self.download_s
        return 0.0 if self.loss == REQUEST else max(0.0, min(received_s + self.compute_s, now_s) - received_s)

    def on_arrival(self) -> None:
        if self.answered is not None:
            self.answered(self)

    def depart(self, version: int, now_s: float, serial: int) -> None:
        """The model leaves the server."""
        self.job = Job(self.job.id, self.job.client, version, now_s)
        self.arrives_s = now_s + self.download_s + self.compute_s + self.reply_s
        self.serial = serial


def schedule(
    parts: Components[BufferedRule],
    selection_id: int,
    version: int,
    clients: NDArray[np.int32],
    now_s: float,
    sized: bool,
) -> list[AsyncJob]:
    """Draws the whole trip of a cohort at once.

    Args:
        parts: the built scenario.
        selection_id: number of the selection; with the client it addresses all draws of the job and names it.
        version: of the global model now.
        clients: who works, shape (n,), distinct.
        now_s: simulated time at which the jobs start, seconds.
        sized: whether this version is the one that is downloaded, so that sizes which depend on it may be asked for.
    """
    where, learner = Address(selection_id, clients, parts.clients), parts.learner
    jobs = [Job.of(selection_id, client, version, now_s) for client in clients.tolist()]
    sizes = learner.sizes(jobs) if sized or not learner.sizes_vary else Sizes(learner.model_bytes, learner.model_bytes)
    request = work(parts, clients, where, sizes, version)._replace(deadline_s=parts.rule.deadline_s)
    delays = sample_delays(parts, request, where)
    columns = (column.tolist() for column in delays[:7])
    return [AsyncJob(job, *trip) for job, *trip in zip(jobs, *columns, strict=True)]


def records(task: AsyncJob, until_s: float, log: Log, open_end: bool = False) -> None:
    """Logs what a job did until ``until_s``: its end, or it was cancelled, or the run ended (``open_end``)."""
    job = task.job
    received = job.started_at + task.download_s
    computed = received + task.compute_s
    log(message("model", SERVER, job.client, task.down_bytes, job.started_at, received, task.loss == REQUEST))
    if task.loss == REQUEST:
        return
    if computed <= until_s:
        log(computation(job.id, job.client, received, computed, task.lives))
        kind = "update" if task.lives else "failure"
        log(message(kind, job.client, SERVER, task.up_bytes, computed, task.arrives_s, task.loss == ANSWER))
    elif received < until_s:
        log(computation(job.id, job.client, received, until_s, None if open_end else False))


class Unit:
    """Jobs whose updates are aggregated together or not at all.

    Attributes:
        members: the jobs.
        missing: how many have not delivered yet.
        selection_id: number of the selection they come from.
        started_s: when the protocol began to prepare them, simulated seconds.
        secret: what that gave, see :class:`simfl.secagg.sessions.PreparedUnits`; None before it has ended.
        serial: orders what the server has set going, while the unit is prepared.
    """

    __slots__ = ("members", "missing", "selection_id", "started_s", "secret", "serial", "departed")

    def __init__(self, members: list[AsyncJob], started_s: float) -> None:
        self.members = members
        self.missing = len(members)
        self.selection_id = members[0].job.selection
        self.started_s = started_s
        self.secret: Any = None
        self.serial = 0
        self.departed = False


def save_jobs(tasks: Collection[AsyncJob]) -> Arrays:
    """The jobs, in their order, as arrays of n rows: ``times`` and ``numbers``."""
    units: dict[int, int] = {}
    places = [units.setdefault(id(each.unit), len(units)) for each in tasks]
    columns = {
        "times": np.fromiter(chain.from_iterable(map(_TIMES_OF, tasks)), np.float64).reshape(-1, len(TIMES)),
        "numbers": np.fromiter(chain.from_iterable(map(_NUMBERS_OF, tasks)), np.int64).reshape(-1, len(NUMBERS)),
    }
    columns["numbers"][:, NUMBERS.index("unit")] = places
    return columns


def load_jobs(state: Arrays) -> list[AsyncJob]:
    """What :func:`save_jobs` was given, the units in which they belong together included."""
    tasks: list[AsyncJob] = []
    units: dict[int, Unit] = {}
    for times, numbers in zip(state["times"].tolist(), state["numbers"].tolist(), strict=True):
        started, down, compute, reply, arrives, ended, unit_started = times
        job, client, version, lives, *sizes, serial, received, place, prepares, departed = numbers
        task = AsyncJob(Job(job, client, version, started), down, compute, reply, bool(lives), *sizes)
        task.arrives_s, task.serial, task.ended_s, task.received_version = arrives, serial, ended, received
        tasks.append(task)
        if place in units:
            units[place].members.append(task)
        else:
            units[place] = Unit([task], unit_started)
        unit = task.unit = units[place]
        unit.serial, unit.departed = prepares, bool(departed)
        unit.missing = sum(mate.received_version < 0 for mate in unit.members)
    return tasks
