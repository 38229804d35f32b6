"""The default engine: runs side by side on this machine, each in a worker process."""

import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from simfl.sweep.slot import Slot, Stopped
from simfl.sweep.task import Task

__all__ = ["play"]


def play(tasks: Sequence[Task], jobs: int, time_limit_s: float | None = None) -> Iterator[tuple[str, str]]:
    """Plays every task; closing the iterator ends the workers at once.

    Args:
        tasks: what to play.
        jobs: runs at the same time.
        time_limit_s: of one run; None = none.

    Yields:
        ``("started", digest)`` and ``("ended", digest)`` as it happens.
    """
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    free: queue.SimpleQueue[Slot] = queue.SimpleQueue()
    slots = [Slot(time_limit_s) for _ in range(min(jobs, len(tasks)))]
    for slot in slots:
        free.put(slot)

    def one(task: Task) -> None:
        slot = free.get()
        events.put(("started", task.digest))
        try:
            slot.play(task)
            events.put(("ended", task.digest))
        except Stopped:
            pass
        except BaseException as error:
            events.put(error)
        finally:
            free.put(slot)

    pool = ThreadPoolExecutor(max(1, len(slots)))
    try:
        for task in tasks:
            pool.submit(one, task)
        ended = 0
        while ended < len(tasks):
            event = events.get()
            if isinstance(event, BaseException):
                raise event
            yield event
            ended += event[0] == "ended"
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for slot in slots:
            slot.close()
        pool.shutdown(wait=True)
