"""Remote clients, which train in processes of their own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simfl.core.errors import ScenarioError
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Floats, JobRequest, RemoteClients, Vectors
from simfl.learning.backends.base import BACKENDS, Backend, Engine, TrainingTask
from simfl.learning.backends.choices import Auto
from simfl.learning.work import Work

MOST = 1000
"""Remote clients; each is a process that asks again and again."""


@BACKENDS("external")
@dataclass(frozen=True)
class External:
    """Some clients are processes of their own, which ``simfl serve`` asks for their updates; the others train here.

    The clock stays simulated: a remote job takes its modelled time, and the world waits for its bytes. Clients that
    train by simfl's own code give the bits of the backend ``inner``.
    """

    clients: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...],
        Field(min_length=1, max_length=MOST, description="numbers of the remote clients"),
    ]
    inner: Annotated[Any, BACKENDS, Field(description="trains the other clients")] = Auto()

    example = {"clients": [0]}

    @property
    def external(self) -> tuple[int, ...]:
        return self.clients

    @property
    def plain_sgd(self) -> bool:
        """Remote clients are taken to train as they are told."""
        return bool(self.inner.plain_sgd)

    @property
    def uses_cluster(self) -> bool:
        return bool(self.inner.uses_cluster)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        problems = []
        if len(set(self.clients)) < len(self.clients):
            problems.append(("clients", "names a client twice"))
        if beyond := [client for client in self.clients if client >= setting.clients]:
            problems.append(("clients", f"names {beyond[0]}, but clients are 0 .. {setting.clients - 1}"))
        if self.inner.external:
            problems.append(("inner", "has remote clients, too; name a backend that does not, such as auto"))
        if self.inner.own_steps:
            problems.append(("inner", "is a function of your own, which remote clients do not call; name another"))
        if not setting.training.algorithm.stateless:
            name = setting.training.algorithm.name
            problems.append(("", f"remote clients cannot train by '{name}', only plainly, or by fedprox"))
        return problems

    def supports(self, module: object, bf16: bool) -> str | None:
        return self.inner.supports(module, bf16)

    def refuses(self, task: TrainingTask) -> str | None:
        return self.inner.refuses(task)

    def without_remote_clients(self) -> Backend:
        return self.inner

    def build(self, task: TrainingTask) -> Engine:
        inner = self.inner.build(replace(task, means=replace(task.means, remote_clients=None)))
        return _SplitEngine(inner, frozenset(self.clients), task.means.remote_clients)


class _SplitEngine:
    """Trains the local clients' works while the remote clients train theirs."""

    def __init__(self, inner: Engine, clients: frozenset[int], remote: RemoteClients | None) -> None:
        self.inner, self.clients, self.remote = inner, clients, remote

    def train(self, works: Sequence[Work]) -> tuple[Vectors, Floats]:
        away = [work.job is not None and work.job.client in self.clients for work in works]
        if not any(away):
            return self.inner.train(works)
        if self.remote is None:
            why = "some clients are processes of their own; simfl serve runs the scenario with them"
            raise ScenarioError("backend", why)
        requests = [
            JobRequest(work.job, work.start, len(work.order))
            for work in works
            if work.job is not None and work.job.client in self.clients
        ]
        self.remote.request(requests)
        deltas, loss = np.empty((len(works), len(works[0].start)), dtype=np.float32), np.empty(len(works))
        there = np.array(away)
        if here := [work for work, gone in zip(works, away, strict=True) if not gone]:
            deltas[~there], loss[~there] = self.inner.train(here)
        results = self.remote.collect(requests)
        deltas[there], loss[there] = np.stack([each.delta for each in results]), [each.loss for each in results]
        return deltas, loss
