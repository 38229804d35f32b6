"""The Dask engine: runs on the workers of a cluster, or of this process where no scheduler is named."""

import threading
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from simfl.core.errors import SimflError, requires_extra
from simfl.core.http.bounded_server import check_scheduler
from simfl.experiments.sweep.processes import once
from simfl.experiments.sweep.task import Task, note_failure
from simfl.experiments.sweep.worker_process import DEATHS, Slot, Stopped

if TYPE_CHECKING:
    from distributed import Client

LOOPBACK = "127.0.0.1:0"

_lock = threading.Lock()
_slots: dict[tuple[str, int], Slot] = {}
"""On a Dask worker: the slot of each (sweep, thread)."""
_ended: set[str] = set()
"""On a Dask worker: sweeps that are over."""


def execute(
    tasks: Sequence[Task],
    jobs: int,
    time_limit_s: float | None = None,
    scheduler: str | None = None,
    insecure: bool = False,
) -> Generator[tuple[str, str], None, None]:
    """Executes every task on a Dask cluster; closing the iterator ends what it runs.

    Each thread of a Dask worker has a worker process of its own, as in the default engine, so that time limits,
    deaths and resuming are the same. All machines must see the results' folder and the data files at the same path.

    Args:
        tasks: what to execute.
        jobs: runs at the same time if no scheduler is named.
        time_limit_s: of one run; None = none.
        scheduler: address of a running scheduler; None starts one in this process, which listens on loopback only.
        insecure: use a scheduler on another machine also without TLS.

    Yields:
        ``("ended", digest)`` as it happens.

    Raises:
        MissingError: dask.distributed is not installed.
        SimflError: the address is refused, or nobody answers there.
    """
    client = _connect(scheduler, jobs, insecure)
    from distributed import as_completed  # it is installed

    token, connection_error = client.id, f"{scheduler or 'the Dask scheduler'}: the connection was lost"
    futures = {}
    warn = once()
    try:
        for task in tasks:
            key = f"simfl-{token}-{task.digest}"
            futures[client.submit(_execute, task, time_limit_s, token, pure=False, key=key)] = task
        for future in as_completed(futures):
            task = futures[future]
            if future.status == "cancelled":
                raise SimflError(connection_error)
            if future.status == "error":
                _explain(future.exception(), task)
            elif warning := future.result():
                warn(warning)
            yield "ended", task.digest
    except OSError as error:
        raise SimflError(f"{connection_error} ({error})") from None
    finally:
        with suppress(OSError, RuntimeError):  # of a scheduler that is gone
            client.cancel(list(futures), force=True)
            client.run(_close, token)
        if client.cluster is not None:
            client.cluster.close()
        client.close()


def _connect(scheduler: str | None, jobs: int, insecure: bool) -> "Client":
    """A client of a running scheduler, or of one of this process."""
    if scheduler is not None:
        check_scheduler(scheduler, insecure)
    with requires_extra("cluster", "the Dask engine"):
        from distributed import Client, LocalCluster
    try:
        if scheduler is None:
            here = {"dashboard_address": LOOPBACK, "worker_dashboard_address": LOOPBACK}  # Dask's default: everywhere
            return Client(LocalCluster(n_workers=1, threads_per_worker=jobs, processes=False, **here))
        return Client(scheduler, timeout=20)
    except (OSError, ValueError) as error:
        raise SimflError(f"{scheduler}: no Dask scheduler answers ({error})") from None
    except TypeError as error:  # what Dask says where its configuration names no certificates
        raise SimflError(f"{scheduler}: TLS needs certificates in Dask's configuration ({error})") from None


def _explain(error: BaseException, task: Task) -> None:
    """Notes why a Dask worker could not even say how the run went."""
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        note_failure(task.path, f"its process died {DEATHS} times", detail=str(error))
    else:
        note_failure(task.path, f"the Dask worker failed ({type(error).__name__}: {error})")


# -- in the Dask workers -----------------------------------------------------------------------


def _execute(task: Task, time_limit_s: float | None, token: str) -> str:
    with _lock:
        if token in _ended:
            return ""
        worker_slot = _slots.setdefault((token, threading.get_ident()), Slot(time_limit_s))
    with suppress(Stopped):
        return worker_slot.execute(task)
    return ""


def _close(token: str) -> None:
    """Ends the processes that one sweep has on this Dask worker."""
    with _lock:
        _ended.add(token)
        mine = [_slots.pop(key) for key in list(_slots) if key[0] == token]
    for worker_slot in mine:
        worker_slot.close()
