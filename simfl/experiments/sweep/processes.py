"""The default engine: runs side by side on this machine, each in a worker process."""

import queue
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from simfl.core.errors import SimflError, amount
from simfl.experiments.sweep.task import Task
from simfl.experiments.sweep.worker_process import NoWorker, Slot, Stopped


def execute(
    tasks: Sequence[Task], jobs: int, time_limit_s: float | None = None, reused_slots: list[Slot] | None = None
) -> Generator[tuple[str, str], None, None]:
    """Executes every task; closing the iterator ends the workers at once.

    Where a worker process does not start, its run waits for another, and fewer run at the same time.

    Args:
        tasks: what to execute.
        jobs: runs at the same time.
        time_limit_s: of one run; None = none.
        reused_slots: slots that go on after all tasks have ended, used first; new ones are added.

    Yields:
        ``("started", digest)``, then ``("ended", digest)``, or ``("put back", digest)`` and all over again.

    Raises:
        SimflError: no worker process starts any more.
    """
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    free: queue.SimpleQueue[Slot | None] = queue.SimpleQueue()
    slots = [] if reused_slots is None else reused_slots
    slots += [Slot(time_limit_s) for _ in range(min(jobs, len(tasks)) - len(slots))]
    for worker_slot in slots:
        free.put(worker_slot)

    def one(task: Task) -> None:
        while (worker_slot := free.get()) is not None:
            events.put(("started", task.digest))
            try:
                if warning := worker_slot.execute(task):
                    events.put(("warning", warning))
                events.put(("ended", task.digest))
            except Stopped:
                pass
            except NoWorker as error:
                events.put(("put back", task.digest))
                events.put(error)
                continue  # without this slot
            except BaseException as error:
                events.put(error)
            free.put(worker_slot)
            return

    pool = ThreadPoolExecutor(max(1, len(slots)))
    ended, working = 0, len(slots)
    warn = once()
    try:
        for task in tasks:
            pool.submit(one, task)
        while ended < len(tasks):
            event = events.get()
            if isinstance(event, NoWorker):
                working -= 1
                _fewer(event, working, len(tasks) - ended)
                continue
            if isinstance(event, BaseException):
                raise event
            if event[0] == "warning":
                warn(event[1])
                continue
            yield event
            ended += event[0] == "ended"
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker_slot in [] if reused_slots is not None and ended == len(tasks) else slots:
            worker_slot.close()
        for _ in slots:
            free.put(None)
        pool.shutdown(wait=True)


def once() -> Callable[[str], None]:
    """Prints a warning on stderr, each text the first time only: many runs may have the same to say."""
    said: set[str] = set()

    def warn(text: str) -> None:
        if text not in said:
            said.add(text)
            print(f"warning: {text}", file=sys.stderr)

    return warn


def _fewer(error: NoWorker, working: int, left: int) -> None:
    """Says that fewer runs are executed at a time; refuses to go on where nobody works any more."""
    if not working:
        are, them = ("is", "it") if left == 1 else ("are", "them")
        raise SimflError(f"{error}; {amount(left, 'run')} {are} left open, and the same command continues {them}")
    print(f"warning: {error}; continuing with {working} at the same time", file=sys.stderr)
