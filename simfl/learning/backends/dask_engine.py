"""Works spread over the workers of a Dask cluster. Imported only where torch and distributed are.

Samples go to every worker once, as a plugin, which workers that come later get, too; a model goes once to every worker
that needs it. What a worker computes depends on the work alone, so that it may be lost and computed again elsewhere.
"""

import copy
import logging
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from typing import Any

import dask
import numpy as np
import torch
from distributed import Client, LocalCluster, WorkerPlugin, as_completed
from numpy.typing import NDArray

from simfl.core.children import environment, restore, safe_path, variables
from simfl.core.errors import SimflError
from simfl.core.http.bounded_server import check_scheduler
from simfl.core.scenario_view import RuntimeOptions
from simfl.core.types import Floats, Integers, Vectors
from simfl.core.version import RESULTS
from simfl.learning.backends.base import Backend, Engine, TrainingTask
from simfl.learning.torch_setup import configure_torch
from simfl.learning.work import Work

LOOPBACK = "127.0.0.1:0"

AHEAD = 2
"""Parts for each place (a thread of a worker) at the same time: one that is computed, one that has arrived."""

PARTS = 3
"""Parts for each place in one call where works are trained one after the other: few enough to cost little, and enough
for a place that is done early to take over."""

DEATHS = 10
"""So often what the workers hold may be lost in one call."""

WAIT_S = 60
"""For the first worker of a cluster."""

ENVIRONMENT = "distributed.nanny.pre-spawn-environ"
"""Variables of its workers, which Dask sets in this process too, whenever one starts."""

MEMORY = {"MALLOC_TRIM_THRESHOLD_": 2**26, "MALLOC_MMAP_THRESHOLD_": 2**25}
"""By default Dask's workers hand memory back to the system after every step of training and ask for it again, page by
page."""

OWN = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}
"""Settings of a cluster of this process. By default every process looks at its own health many times a second."""

VERSIONS = {"simfl": RESULTS, "torch": torch.__version__, "numpy": np.__version__}
"""What decides the bits; a worker must have the same."""

_lock = threading.Lock()

_worker_data: "dict[str, _WorkerData]" = {}

_engines: dict[tuple[str, int], Engine] = {}
"""Engines work in place: each run has one for each thread."""


class DaskEngine:
    """Deals works to Dask workers, the longest first, and collects their deltas in the order of the works.

    Args:
        task: what is trained, on the CPU; its means name the scheduler, or one is started here.
        inner: the backend inside each worker; it decides the bits, the workers and their number do not.
        workers: processes of the cluster that is started here.
        one_by_one: the backend trains one work after the other; else it wants as many at once as a place can get.

    Raises:
        SimflError: the scheduler is refused, does not answer, or has no workers or other versions.
    """

    def __init__(self, task: TrainingTask, inner: Backend, workers: int, one_by_one: bool) -> None:
        self.one_by_one, self.where = one_by_one, task.means.scheduler or "the Dask cluster"
        before = own_variables()
        self.client = _connect(workers, task.means)
        self.token = f"simfl-{self.client.id}"
        x, y = (getattr(task, name).numpy() for name in ("x", "y"))
        bare = replace(task, x=None, y=None, means=RuntimeOptions())
        try:
            self.client.register_plugin(_WorkerData(self.token, bare, x, y, inner, VERSIONS), name=self.token)
        except SimflError:
            _close(self.client, self.token, before)
            raise
        self.calls = 0
        self.close = weakref.finalize(self, _close, self.client, self.token, before)

    def train(self, works: Sequence[Work]) -> tuple[Vectors, Floats]:
        deltas, loss = np.empty((len(works), len(works[0].start)), dtype=np.float32), np.empty(len(works))
        left: list[list[int]] = []
        for _ in range(DEATHS):
            try:
                places = self._places()
                left = left or self._parts(works, len(places))
                self._compute_parts(works, left, places, deltas, loss)
                return deltas, loss
            except (CancelledError, OSError) as error:  # a worker died with, or while it got, a model
                if self.client.status != "running":
                    raise SimflError(f"learning.backend: {self.where}: the connection was lost ({error})") from error
        raise SimflError(f"learning.backend: {self.where}: workers end before their work does (out of memory?)")

    def _places(self) -> list[str]:
        """The address of every thread that there is now."""
        while not (threads := self.client.nthreads()):
            try:
                self.client.wait_for_workers(1, timeout=WAIT_S)
            except TimeoutError:
                raise SimflError(f"learning.backend: {self.where}: no worker is left") from None
        return [address for address, n in threads.items() for _ in range(n)]

    def _parts(self, works: Sequence[Work], places: int) -> list[list[int]]:
        """Positions of works that go together, the costliest part last."""
        cost = [work.bounds[-1] for work in works]
        order = sorted(range(len(works)), key=lambda i: -cost[i])
        parts: list[list[int]] = [[] for _ in range(min(places * (PARTS if self.one_by_one else 1), len(works)))]
        total = [0] * len(parts)
        for i in order:  # to the part that has least so far
            at = total.index(min(total))
            parts[at].append(i)
            total[at] += cost[i]
        return [parts[at] for at in sorted(range(len(parts)), key=lambda at: total[at])]

    def _compute_parts(
        self,
        works: Sequence[Work],
        left: list[list[int]],
        places: list[str],
        deltas: NDArray[np.generic],
        loss: NDArray[np.generic],
    ) -> None:
        """Computes the parts that are left, and takes those from the list that have come back.

        Each goes to the place that has least to do; Dask takes it elsewhere where that place is gone.

        Raises:
            CancelledError: something that a part needs is lost.
        """
        self.calls += 1
        shared = self._models(works, everywhere=len(left) >= len(places))
        waiting, flying = list(left), as_completed(with_results=True)
        at: dict[str, tuple[list[int], int]] = {}
        load = [0] * len(places)
        while waiting or at:
            while waiting and min(load) < AHEAD:
                part, place = waiting.pop(), load.index(min(load))
                future = self._submit([works[i] for i in part], shared, places[place], len(waiting))
                at[future.key] = part, place
                load[place] += 1
                flying.add(future)
            future, result = next(flying)
            if future.status == "cancelled":
                raise CancelledError
            part, place = at.pop(future.key)
            load[place] -= 1
            deltas[part], loss[part] = result
            left.remove(part)

    def _submit(self, works: Sequence[Work], shared: dict[int, Any], place: str, number: int) -> Any:
        """Submits one part to a worker; its future."""
        starts = {id(work.start) for work in works}
        keys = [key for key in shared if key in starts]
        known: dict[int, Any] = {key: key for key in keys}
        sent = [replace(work, start=known.get(id(work.start), work.start), job=None) for work in works]
        return self.client.submit(
            _train,
            *(self.token, keys, [shared[key] for key in keys], sent),
            key=f"{self.token}-{self.calls}-{number}",
            pure=False,
            workers=place,
            allow_other_workers=True,
        )

    def _models(self, works: Sequence[Work], everywhere: bool) -> dict[int, Any]:
        """The models that several works begin from, each sent once, by the identity of the array; if there is but one,
        and it goes ``everywhere``, before any worker asks for it.
        """
        times: dict[int, int] = {}
        for work in works:
            times[id(work.start)] = times.get(id(work.start), 0) + 1
        several = {id(work.start): work.start for work in works if times[id(work.start)] > 1}
        models = list(several.values())
        sent = self.client.scatter(models, hash=False, broadcast=everywhere and len(models) == 1) if models else []
        return dict(zip(several, sent, strict=True))


def own_variables() -> dict[str, str | None]:
    """This process's, of all that Dask will set for workers."""
    return variables([*dask.config.get(ENVIRONMENT), *environment(), *MEMORY, "PYTHONHASHSEED"])


def _connect(workers: int, means: RuntimeOptions) -> Any:
    if means.scheduler is not None:
        check_scheduler(means.scheduler, means.insecure)
    try:
        if means.scheduler is None:
            here = {"dashboard_address": LOOPBACK, "worker_dashboard_address": LOOPBACK}  # Dask's default: everywhere
            cluster_settings = OWN | {
                f"{ENVIRONMENT}.{name}": value for name, value in (MEMORY | environment()).items()
            }
            alike = {"threads_per_worker": 1, "processes": True, "memory_limit": 0, "silence_logs": logging.CRITICAL}
            with safe_path(), dask.config.set(cluster_settings):
                return Client(LocalCluster(n_workers=workers, host="127.0.0.1", **alike, **here))
        client = Client(means.scheduler, timeout=20)
    except (OSError, ValueError) as error:
        raise SimflError(f"{means.scheduler}: no Dask scheduler answers ({error})") from None
    except TypeError as error:  # what Dask says where its configuration names no certificates
        raise SimflError(f"{means.scheduler}: TLS needs certificates in Dask's configuration ({error})") from None
    try:
        client.wait_for_workers(1, timeout=WAIT_S)
    except TimeoutError:
        client.close()
        raise SimflError(f"{means.scheduler}: the Dask scheduler has no workers") from None
    return client


def _close(client: Any, token: str, before: dict[str, str | None]) -> None:
    with suppress(Exception):  # of a cluster that is gone
        client.unregister_worker_plugin(token)
    with suppress(Exception):
        if client.cluster is not None:
            client.cluster.close()
        client.close()
    restore(before)


# -- inside a worker ----------------------------------------------------------------------------------


class _WorkerData(WorkerPlugin):
    """What every worker has of a run: the task without its samples, the samples, and which backend computes."""

    def __init__(
        self, token: str, task: TrainingTask, x: Vectors, y: Integers, inner: Backend, versions: dict[str, Any]
    ) -> None:
        self.token, self.task, self.x, self.y, self.inner, self.versions = token, task, x, y, inner, versions

    def setup(self, worker: object) -> None:
        if self.versions != VERSIONS:
            raise SimflError(f"learning.backend: a Dask worker has {VERSIONS}, but {self.versions} is needed")
        _worker_data[self.token] = self

    def teardown(self, worker: object) -> None:
        with _lock:
            _worker_data.pop(self.token, None)
            for key in [key for key in _engines if key[0] == self.token]:
                del _engines[key]

    def engine(self) -> Engine:
        """This thread's engine."""
        key = (self.token, threading.get_ident())
        with _lock:
            if key not in _engines:
                configure_torch()
                x, y = (torch.from_numpy(np.require(part, requirements="W")) for part in (self.x, self.y))
                module = copy.deepcopy(self.task.module)  # which the engine takes for its own
                _engines[key] = self.inner.build(replace(self.task, module=module, x=x, y=y))
            return _engines[key]


def _train(token: str, keys: Sequence[int], models: Sequence[Vectors], works: Sequence[Work]) -> tuple[Vectors, Floats]:
    """The deltas and losses of some works; a number as their start is the key of a model."""
    known = {key: np.require(model, requirements="W") for key, model in zip(keys, models, strict=True)}
    starts = [known[work.start] if isinstance(work.start, int) else work.start for work in works]
    full = [replace(work, start=start) for work, start in zip(works, starts, strict=True)]
    return _worker_data[token].engine().train(full)
