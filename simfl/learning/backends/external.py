"""Clients that train outside, as processes of their own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.errors import ScenarioError
from simfl.learning.backends.base import BACKENDS, Backend, Engine, Task
from simfl.learning.backends.choices import Auto
from simfl.learning.work import Work
from simfl.outside import Asked, Outside
from simfl.setting import Setting

__all__ = ["External"]

MOST = 1000
"""Clients outside; each is a process that asks again and again."""


@BACKENDS("external")
@dataclass(frozen=True)
class External:
    """Some clients are processes of their own, which ``simfl serve`` asks for their updates; the others train here.

    The clock stays simulated: a job outside takes its modelled time, and the world waits for its bytes. Clients that
    train by simfl's own code give the bits of the backend ``inner``.
    """

    clients: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...],
        Field(min_length=1, max_length=MOST, description="numbers of the clients outside"),
    ]
    inner: Annotated[Any, BACKENDS, Field(description="trains the other clients")] = Auto()

    example = {"clients": [0]}

    @property
    def external(self) -> tuple[int, ...]:
        return self.clients

    @property
    def clustered(self) -> bool:
        clustered: bool = self.inner.clustered
        return clustered

    def check(self, setting: Setting) -> list[tuple[str, str]]:
        found = []
        if len(set(self.clients)) < len(self.clients):
            found.append(("clients", "names a client twice"))
        if beyond := [client for client in self.clients if client >= setting.clients]:
            found.append(("clients", f"names {beyond[0]}, but clients are 0 .. {setting.clients - 1}"))
        if self.inner.external:
            found.append(("inner", "trains outside, too; name a backend that does not, such as auto"))
        if not setting.training.variant.stateless:
            name = setting.training.variant.name
            found.append(("", f"clients outside cannot train by '{name}', only plainly, or by fedprox"))
        return found

    def supports(self, module: Any, bf16: bool) -> str | None:
        reason: str | None = self.inner.supports(module, bf16)
        return reason

    def inside(self) -> Backend:
        inner: Backend = self.inner
        return inner

    def build(self, task: Task) -> Engine:
        inner = self.inner.build(replace(task, means=replace(task.means, outside=None)))
        return _Divided(inner, frozenset(self.clients), task.means.outside)


class _Divided:
    """Trains what is to be trained here while the others are at work."""

    def __init__(self, inner: Engine, clients: frozenset[int], outside: Outside | None) -> None:
        self.inner, self.clients, self.outside = inner, clients, outside

    def train(self, works: Sequence[Work]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        away = [work.job is not None and work.job.client in self.clients for work in works]
        if not any(away):
            return self.inner.train(works)
        if self.outside is None:
            raise ScenarioError("backend", "some clients are processes of their own; simfl serve plays with them")
        asked = [
            Asked(work.job, work.start) for work in works if work.job is not None and work.job.client in self.clients
        ]
        self.outside.ask(asked)
        deltas, loss = np.empty((len(works), len(works[0].start)), dtype=np.float32), np.empty(len(works))
        there = np.array(away)
        if here := [work for work, gone in zip(works, away, strict=True) if not gone]:
            deltas[~there], loss[~there] = self.inner.train(here)
        sent = self.outside.take(asked)
        deltas[there], loss[there] = np.stack([each.delta for each in sent]), [each.loss for each in sent]
        return deltas, loss
