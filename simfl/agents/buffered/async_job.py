"""A client's work where single arrivals matter: planned when it is selected, one event when its answer arrives."""

from collections.abc import Callable
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.accounts import Log
from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.exchange import computation, message, sample_delays, work
from simfl.agents.buffered.shared_trips import Trip
from simfl.core.rng import Address
from simfl.core.types import SERVER, Job
from simfl.learning.base import Sizes
from simfl.training.base import Rule


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

    def __init__(
        self, job: Job, download_s: float, compute_s: float, reply_s: float, lives: bool, down_bytes: int, up_bytes: int
    ) -> None:
        super().__init__(download_s, compute_s, reply_s, lives, down_bytes, up_bytes)
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
    def begins_s(self) -> float:
        """When the model left the server."""
        return self.job.started_at

    def has_sent(self, now_s: float) -> bool:
        """Whether its update has left the client by now; over a shared link perhaps a little later."""
        departed = self.unit is not None and self.unit.departed
        return departed and self.lives and self.begins_s + self.download_s + self.compute_s <= now_s

    def on_arrival(self) -> None:
        if self.answered is not None:
            self.answered(self)

    def depart(self, version: int, now_s: float, serial: int) -> None:
        """The model leaves the server."""
        self.job = Job(self.job.id, self.job.client, version, now_s)
        self.arrives_s = now_s + self.download_s + self.compute_s + self.reply_s
        self.serial = serial


def schedule(
    parts: Components[Rule], selection_id: int, version: int, clients: NDArray[np.int32], now_s: float, sized: bool
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
    delays = sample_delays(parts, work(parts, clients, where, sizes, version), where)
    columns = (column.tolist() for column in delays[:6])
    return [AsyncJob(job, *trip) for job, *trip in zip(jobs, *columns, strict=True)]


def records(task: AsyncJob, until_s: float, log: Log, open_end: bool = False) -> None:
    """Logs what a job did until ``until_s``: its end, or it was cancelled, or the run ended (``open_end``)."""
    job = task.job
    received = job.started_at + task.download_s
    computed = received + task.compute_s
    log(message("model", SERVER, job.client, task.down_bytes, job.started_at, received))
    if computed <= until_s:
        log(computation(job.id, job.client, received, computed, task.lives))
        kind = "update" if task.lives else "failure"
        log(message(kind, job.client, SERVER, task.up_bytes, computed, task.arrives_s))
    elif received < until_s:
        log(computation(job.id, job.client, received, until_s, None if open_end else False))
