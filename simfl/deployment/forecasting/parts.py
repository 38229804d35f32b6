"""Simulates futures in processes (``python -m``), part by part, so that an interrupted forecast goes on."""

import json
import pickle
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from signal import SIGKILL
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from simfl.api.files import read_sealed_bytes, seal_bytes, write_atomically
from simfl.api.processes import START_LIMIT_S, one_thread, read_line, start_python
from simfl.deployment.forecasting.futures import FuturePlan, Outcome, simulate
from simfl.plugins import RESULTS, VERSION, ExhaustedError, IntegrityError, SimflError, is_exhausted

PART = 10
"""Futures that are simulated and stored together."""

PARTS = 2
"""Of the programs that make a part from a plan: to be raised where they would make another one."""


class PartTask(NamedTuple):
    """Some futures under one policy."""

    policy: int
    first: int
    stop: int


def simulate_all(
    plan: FuturePlan,
    futures: int,
    folder: Path | None = None,
    processes: int = 1,
    step: Callable[[int], None] | None = None,
) -> list[Outcome]:
    """All futures under each policy, stacked: each array of an outcome gets a first axis of futures.

    Args:
        plan: what is simulated.
        futures: how many, of each policy.
        folder: where finished parts are stored and looked for; None = nowhere that stays.
        processes: how many work at once.
        step: called with the number of futures that are ready now, part after part.

    Raises:
        SimflError: a process failed.
    """
    with TemporaryDirectory() as scratch:
        place = PartStore(folder or Path(scratch), plan_digest(plan))
        tasks = [PartTask(policy, first, min(first + PART, futures))
                 for first in range(0, futures, PART) for policy in range(len(plan.policies))]  # fmt: skip
        parts = {task: part for task in tasks if (part := place.load(task)) is not None}
        for task in parts:
            (step or _ignore)(task.stop - task.first)
        missing = [task for task in tasks if task not in parts]
        for task, part in _simulate(plan, missing, processes, place):
            parts[task] = part
            (step or _ignore)(task.stop - task.first)
    of_policy = [[parts[task] for task in tasks if task.policy == policy] for policy in range(len(plan.policies))]
    return [Outcome(*map(np.concatenate, zip(*each, strict=True))) for each in of_policy]


def _ignore(ready: int) -> None:
    """Nobody watches."""


def _simulate(
    plan: FuturePlan, tasks: list[PartTask], processes: int, place: "PartStore"
) -> Iterator[tuple[PartTask, Outcome]]:
    """Each task's outcome as soon as it is ready."""
    if processes < 2 or len(tasks) < 2:
        for task in tasks:
            part = simulate_part(plan, task)
            place.store(task, part)
            yield task, part
        return
    packed = b64encode(pickle.dumps(plan))
    count = min(processes, len(tasks))
    shares = [[task for task in tasks if (task.first // PART + task.policy) % count == i] for i in range(count)]
    pipe, workers = PIPE, list[Popen[bytes]]()
    try:
        workers += (start_python("simfl.deployment.forecasting.parts", stdin=pipe, stdout=pipe) for _ in shares)
        for worker, share in zip(workers, shares, strict=True):
            _begin(worker, place, packed, share)
        with DefaultSelector() as selector:
            for worker in workers:
                assert worker.stdout is not None
                selector.register(worker.stdout, EVENT_READ, worker)
            while selector.get_map():
                for key, _ in selector.select():
                    assert key.data.stdout is not None
                    if line := key.data.stdout.readline():
                        task = PartTask(*map(int, line.split()))
                        if (ready := place.load(task)) is None:
                            raise IntegrityError(f"{place.folder}: a part has changed since it was written")
                        yield task, ready
                    else:
                        selector.unregister(key.fileobj)
                        _refuse_failure(key.data.wait())
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _refuse_failure(code: int) -> None:
    """
    Raises:
        SimflError: a process has ended with this exit code, not 0.
        ExhaustedError: so that there was not enough memory or disk.
    """
    if code in (ExhaustedError.exit_code, -SIGKILL):
        raise ExhaustedError("a process that simulates futures has failed: not enough memory or disk")
    if code:
        raise SimflError("a process that simulates futures has failed; its message stands above")


def _begin(worker: Popen[bytes], place: "PartStore", packed: bytes, tasks: list[PartTask]) -> None:
    """Tells a process which tasks it simulates, as soon as it listens; of the caller it has the plan.

    Raises:
        SimflError: it does not start.
    """
    assert worker.stdin is not None and worker.stdout is not None
    try:
        read_line(worker.stdout, START_LIMIT_S)
    except TimeoutError:
        raise SimflError(f"a process that simulates futures has not started for {START_LIMIT_S} s") from None
    except EOFError:
        _refuse_failure(worker.wait())
    with suppress(BrokenPipeError), worker.stdin:  # it has ended, which its exit code tells
        worker.stdin.write(f"{json.dumps([str(place.folder), place.key, tasks])}\n".encode() + packed + b"\n")


def simulate_part(plan: FuturePlan, task: PartTask) -> Outcome:
    """Some futures under one policy."""
    with one_thread():
        outcomes = [simulate(plan, task.policy, future) for future in range(task.first, task.stop)]
        return Outcome(*(np.stack(part) for part in zip(*outcomes, strict=True)))


# -- parts on disk -----------------------------------------------------------------------------------


def plan_digest(plan: FuturePlan) -> str:
    """A digest of all that decides the futures."""
    digest = sha256(repr((RESULTS, VERSION, PARTS)).encode())
    for field in fields(plan):
        if field.name not in ("matrix", "fitted", "span", "policies", "laws", "traffic"):
            digest.update(repr((field.name, np.asarray(getattr(plan, field.name)).tolist())).encode())
    for part in (plan.fitted, plan.span):
        for field in fields(part):
            digest.update(repr((field.name, np.asarray(getattr(part, field.name)).tolist())).encode())
    digest.update(repr([values.tolist() for values in plan.traffic]).encode())
    for choice in plan.policies + plan.laws:
        digest.update(repr((choice.text, choice.k, choice.order.tolist())).encode())
        digest.update(b"" if choice.before is None else np.packbits(choice.before).tobytes())
    if plan.matrix is not None:
        digest.update(plan.matrix.toarray().tobytes())
    return digest.hexdigest()[:12]


@dataclass(frozen=True)
class PartStore:
    """Finished parts of a plan in a folder.

    Attributes:
        key: digest of the plan.
    """

    folder: Path
    key: str

    def store(self, task: PartTask, part: Outcome) -> None:
        """Writes a part."""
        data = BytesIO()
        np.savez_compressed(data, **part._asdict())
        path = self._file(task)
        write_atomically(path, seal_bytes(data.getvalue(), path.name))

    def load(self, task: PartTask) -> Outcome | None:
        """A part that is there and what was written under its name."""
        path = self._file(task)
        try:
            data = read_sealed_bytes(path, path.name)
        except (FileNotFoundError, IntegrityError):
            return None
        with np.load(BytesIO(data), allow_pickle=False) as file:
            return Outcome(**{name: file[name] for name in Outcome._fields})

    def _file(self, task: PartTask) -> Path:
        return self.folder / f"{self.key}-{task.policy}-{task.first}-{task.stop}.part"


def main() -> None:
    """Simulates the tasks one by one, and prints each that is ready; a failure is a line and an exit code."""
    print("ready", flush=True)
    try:
        folder, key, tasks = json.loads(sys.stdin.readline())
        place = PartStore(Path(folder), key)
        plan = pickle.loads(b64decode(sys.stdin.readline()))  # noqa: S301  (from the process that has started this one)
        for task in (PartTask(*numbers) for numbers in tasks):
            place.store(task, simulate_part(plan, task))
            print(*task, flush=True)
    except (SimflError, OSError, MemoryError) as error:
        print(str(error) or "out of memory", file=sys.stderr)
        sys.exit((ExhaustedError if is_exhausted(error) else SimflError).exit_code)


if __name__ == "__main__":
    main()
