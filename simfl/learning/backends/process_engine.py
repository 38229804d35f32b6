"""Works spread over processes of one thread each. Imported only where torch is.

Samples and vectors are exchanged through memory-mapped files in a scratch folder (in shared memory where it is
large enough), so that nothing large is ever pickled.
"""

import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import parent_process
from pathlib import Path
from sysconfig import get_path
from typing import Any

import cloudpickle
import numpy as np
import torch
from numpy.lib.format import open_memmap

from simfl.core.children import SafeSpawn
from simfl.core.errors import CrashError, ExhaustedError, SimflError
from simfl.core.types import Floats, Vectors
from simfl.learning.backends.base import Backend, Engine, TrainingTask
from simfl.learning.torch_setup import configure_torch
from simfl.learning.work import Work

OPTIONAL = ("shift", "mask")
"""Vectors that a work may have besides its start; each kind travels in a file of this name."""

STARTED = "started"
"""The file that says that a process has come so far as to begin its work."""

EXHAUSTED = {signal.SIGKILL, signal.SIGBUS}
"""What the system ends a process with for which there is no memory, or no shared memory."""


class ProcessEngine:
    """Hands works to processes and collects their deltas in the order of the works.

    Args:
        inner: the backend inside each process; it decides the bits, the number of processes does not.
        one_by_one: hand out single works, else one part of the works to each process.
    """

    def __init__(self, task: TrainingTask, inner: Backend, workers: int, one_by_one: bool) -> None:
        self.workers, self.one_by_one = workers, one_by_one
        self.folder = _scratch(task.x.nbytes)
        self.files: dict[str, np.memmap] = {}
        for name in ("x", "y"):
            np.save(self.folder / f"{name}.npy", getattr(task, name).numpy())
        self.processes = SafeSpawn()
        self.pool = ProcessPoolExecutor(
            workers,
            mp_context=self.processes,
            initializer=_start,
            initargs=(str(self.folder), cloudpickle.dumps(replace(task, x=None, y=None)), inner),
        )
        self.close = weakref.finalize(self, _close, self.pool, self.folder)

    def train(self, works: Sequence[Work]) -> tuple[Vectors, Floats]:
        n, dimension = len(works), len(works[0].start)
        rows = {id(work.start): i for i, work in enumerate(works)}  # clients that start from one model share a row
        starts, deltas = (self._file(name, n, dimension) for name in ("start", "deltas"))
        for row in rows.values():
            starts[row] = works[row].start
        sent = []  # works with the rows of the files in place of the vectors
        for i, work in enumerate(works):
            places: dict[str, Any] = {"start": rows[id(work.start)]}
            for name in OPTIONAL:
                if (vector := getattr(work, name)) is not None:
                    self._file(name, n, dimension)[i] = vector
                    places[name] = i
            sent.append(replace(work, **places))
        size = 1 if self.one_by_one else -(-n // self.workers)
        parts = [range(first, min(first + size, n)) for first in range(0, n, size)]
        names = {name: str(file.filename) for name, file in self.files.items()}
        try:
            tasks = [self.pool.submit(_train, names, part, [sent[i] for i in part]) for part in parts]
            loss = [task.result() for task in tasks]
        except BrokenProcessPool as error:
            raise self._why() from error
        return np.array(deltas[:n]), np.concatenate(loss)

    def _why(self) -> SimflError:
        """Why a process ended that had work to do: by its exit code, for the others are only told to end."""
        self.pool.shutdown()  # waits for them
        codes = {process.exitcode for process in self.processes.started if process.exitcode is not None}
        signals = {-code for code in codes if code < 0}
        if killed := signals & EXHAUSTED:
            return ExhaustedError(
                f"learning.backend: a training process was killed by {_names(killed)} (out of memory?)"
            )
        if crashed := signals - {signal.SIGTERM}:
            return CrashError(f"learning.backend: a training process crashed ({_names(crashed)})")
        if (self.folder / STARTED).exists() or not codes - {0, -signal.SIGTERM}:
            return ExhaustedError("learning.backend: a training process ended before its work did (out of memory?)")
        return SimflError(f"learning.backend: {self._advice()}")

    def _advice(self) -> str:
        """What to do where a process ends while it imports the script that starts it."""
        main = Path(getattr(sys.modules["__main__"], "__file__", None) or "the script")
        script = main.name
        if main.resolve().is_relative_to(Path(__file__).parents[2]) or main.parent == Path(get_path("scripts")):
            return "no training process starts; choose another backend (simfl list backend)"
        return (
            f"no training process starts: each of them first imports {script} again, so what it runs must stand under "
            'if __name__ == "__main__": (or choose another backend)'
        )

    def _file(self, name: str, rows: int, dimension: int) -> np.memmap:
        """The mapped file of this name, with at least so many rows. A larger one gets a new path."""
        old = self.files.get(name)
        if old is None or len(old) < rows:
            path = self.folder / f"{name}-{rows}.npy"
            self.files[name] = open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, dimension))
            if old is not None:
                Path(str(old.filename)).unlink()
        return self.files[name]


def _names(numbers: Iterable[int]) -> str:
    """``SIGKILL``"""
    return ", ".join(sorted(signal.Signals(number).name for number in numbers))


def _scratch(size: int) -> Path:
    """A new folder, in shared memory if that has room for twice ``size`` bytes."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 * size + 2**28:
        return Path(tempfile.mkdtemp(prefix="simfl-", dir=memory))
    return Path(tempfile.mkdtemp(prefix="simfl-"))


def _close(pool: ProcessPoolExecutor, folder: Path) -> None:
    pool.shutdown(cancel_futures=True)
    shutil.rmtree(folder, ignore_errors=True)


# -- inside a process ---------------------------------------------------------------------------------


class _Worker:
    """State of a training process between calls: its engine and mapped files."""

    engine: Engine
    files: dict[str, np.memmap] = {}

    @classmethod
    def file(cls, name: str, path: str) -> np.memmap:
        """The mapped file; the mapping is kept while the path stays the same."""
        if name not in cls.files or cls.files[name].filename != path:
            cls.files[name] = open_memmap(path, mode="r+")
        return cls.files[name]


def _start(folder: str, packed: bytes, inner: Backend) -> None:
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    configure_torch()
    (Path(folder) / STARTED).touch()
    x, y = (torch.from_numpy(np.load(Path(folder) / f"{name}.npy", mmap_mode="c")) for name in ("x", "y"))
    task: TrainingTask = pickle.loads(packed)  # noqa: S301  # from the process that started this one
    _Worker.engine = inner.build(replace(task, x=x, y=y))


def _end_with_parent(folder: str) -> None:
    """A killed parent cannot end its processes, so they watch it."""
    if (parent := parent_process()) is not None:
        parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _train(names: dict[str, str], rows: range, works: Sequence[Any]) -> Floats:
    """Writes the deltas of some works into their rows of the file "deltas" and returns their losses."""
    files = {name: _Worker.file(name, path) for name, path in names.items()}
    start = {work.start: np.asarray(files["start"][work.start]) for work in works}  # one object for one model
    full = []
    for work in works:
        places = {name: getattr(work, name) for name in OPTIONAL}
        vectors = {name: files[name][row] for name, row in places.items() if row is not None}
        full.append(replace(work, start=start[work.start], **vectors))
    files["deltas"][rows.start : rows.stop], loss = _Worker.engine.train(full)
    return loss
