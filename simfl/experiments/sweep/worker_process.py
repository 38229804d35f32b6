"""A place where one run at a time is executed, in a process of its own that is replaced when it dies or hangs."""

import json
import os
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import asdict
from typing import IO

from simfl.core.children import START_LIMIT_S, read_line, start_python
from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject
from simfl.experiments.sweep.task import Task, note_failure

DEATHS = 3
"""A run whose process has died so often has failed."""

TIMEOUTS = 2
"""A run that has passed its time limit so often has failed; once may be the machine's fault."""

THREADS = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}


class Stopped(Exception):
    """The slot was closed."""


class NoWorker(SimflError):
    """No worker process starts: a fault of the machine, not of a run."""


class Slot:
    """Executes tasks in a worker process.

    The worker is a fresh interpreter with one computing thread, not a fork: nothing of the caller is in it, and the
    caller's script needs no ``if __name__ == "__main__"``.

    Args:
        time_limit_s: seconds of wall time after which a run is given up; None = no limit. It decides whether
            a run fails, never what it computes.
    """

    def __init__(self, time_limit_s: float | None = None) -> None:
        self.time_limit_s = time_limit_s
        self._lock = threading.Lock()
        self._closed = False
        self._worker: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    def execute(self, task: Task) -> str:
        """Executes a task until its folder holds a complete run or ``failed.json``.

        Returns:
            What the user should know beside that, in one line; empty if there is nothing.

        Raises:
            Stopped: the slot was closed meanwhile.
            NoWorker: none starts; the task can be executed by another slot.
        """
        deaths = timeouts = 0
        while True:
            try:
                reply = self._ask(task)
            except TimeoutError:
                timeouts += 1
                self._end()
                if timeouts == TIMEOUTS:
                    error = f"passed the time limit of {self.time_limit_s:g} s {TIMEOUTS} times"
                    note_failure(task.path, error)
                    return ""
            except (EOFError, BrokenPipeError):
                deaths += 1
                detail = self._end()
                if deaths == DEATHS:
                    note_failure(task.path, f"its process died {DEATHS} times", detail=detail)
                    return ""
            else:
                if "error" in reply:
                    note_failure(task.path, **reply)
                return str(reply.get("warning", ""))

    def close(self) -> None:
        """Ends the worker at once; the run that it was at can be resumed."""
        with self._lock:
            self._closed = True
            worker = self._worker
        if worker is not None:
            worker.kill()
            worker.wait()

    def _ask(self, task: Task) -> JsonObject:
        worker = self._worker or self._start()
        assert worker.stdin is not None
        worker.stdin.write(json.dumps(asdict(task)).encode() + b"\n")
        worker.stdin.flush()
        assert worker.stdout is not None
        return json.loads(read_line(worker.stdout, self.time_limit_s))

    def _start(self) -> subprocess.Popen[bytes]:
        for _ in range(DEATHS):
            worker = self._launch()
            try:
                assert worker.stdout is not None
                read_line(worker.stdout, START_LIMIT_S)
                return worker
            except (TimeoutError, EOFError):  # no fault of a run
                said = self._end()
        raise NoWorker(f"no worker process starts: {said.splitlines()[-1]}")

    def _launch(self) -> subprocess.Popen[bytes]:
        module, pipe = "simfl.experiments.sweep.worker", subprocess.PIPE
        with self._lock:
            if self._closed:
                raise Stopped
            self._stderr = tempfile.TemporaryFile()
            self._worker = start_python(module, stdin=pipe, stdout=pipe, stderr=self._stderr, env=THREADS)
        return self._worker

    def _end(self) -> str:
        """Ends the worker, whether it lives or not; how it ended and what it said last."""
        worker, stderr = self._worker, self._stderr
        if worker is None or stderr is None:
            return ""
        worker.kill()
        code = worker.wait()
        for pipe in (worker.stdin, worker.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        with stderr:
            stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - 2000))
            said = stderr.read().decode(errors="replace")
        with self._lock:
            self._worker = None
            if self._closed:
                raise Stopped
        return f"exit status {code}\n{said}"
