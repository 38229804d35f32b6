"""Works spread over processes of one thread each. Imported only where torch is.

Samples and vectors are exchanged through memory-mapped files in a scratch folder (in shared memory where it is
large enough), so that nothing large is ever pickled.
"""

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context, parent_process
from pathlib import Path

import numpy as np
import torch
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from simfl.errors import SimflError
from simfl.learning.backends.base import Backend, Engine, Task
from simfl.learning.work import Work

__all__ = ["ProcessEngine"]


class ProcessEngine:
    """Hands works to processes and collects their deltas in the order of the works.

    Args:
        task: what is trained, on the CPU.
        inner: the backend inside each process; it decides the bits, the number of processes does not.
        workers: processes.
        one_by_one: hand out single works, else one part of the works to each process.
    """

    def __init__(self, task: Task, inner: Backend, workers: int, one_by_one: bool) -> None:
        self.workers, self.one_by_one = workers, one_by_one
        self.folder = _scratch(task.x.numel() * 4)
        for name in ("x", "y"):
            np.save(self.folder / f"{name}.npy", getattr(task, name).numpy())
        self.pool = ProcessPoolExecutor(
            workers,
            mp_context=get_context("spawn"),
            initializer=_start,
            initargs=(str(self.folder), replace(task, x=None, y=None), inner),
        )
        self.close = weakref.finalize(self, _close, self.pool, self.folder)

    def train(self, works: Sequence[Work]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        n, dimension = len(works), len(works[0].start)
        rows = {id(work.start): i for i, work in enumerate(works)}  # clients that start from one model share a row
        starts = self._file("starts", (n, dimension))
        for row in rows.values():
            starts[row] = works[row].start
        shifted = [i for i, work in enumerate(works) if work.shift is not None]
        if shifted:
            shifts = self._file("shifts", (n, dimension))
            for i in shifted:
                shifts[i] = works[i].shift
        deltas = self._file("deltas", (n, dimension))
        size = 1 if self.one_by_one else -(-n // self.workers)
        parts = [list(range(first, min(first + size, n))) for first in range(0, n, size)]
        light = [
            replace(
                work, start=rows[id(work.start)], shift=None if work.shift is None else i
            )  # row numbers for vectors
            for i, work in enumerate(works)
        ]
        try:
            loss = list(self.pool.map(_train, parts, [[light[i] for i in part] for part in parts]))
        except BrokenProcessPool as error:
            raise SimflError(
                "learning.backend: a training process ended before its work did (out of memory?)"
            ) from error
        return np.array(deltas), np.concatenate(loss)

    def _file(self, name: str, shape: tuple[int, int]) -> NDArray[np.float32]:
        """A file of at least this shape, and the view of it that has exactly this shape."""
        path = self.folder / f"{name}.npy"
        try:
            stored = open_memmap(path, mode="r+")
        except FileNotFoundError:
            stored = None
        if stored is None or len(stored) < shape[0]:
            path.unlink(missing_ok=True)  # a process that has the old file mapped sees the new one's inode
            stored = open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
        return stored[: shape[0]]


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
    """What a process keeps between works."""

    folder: Path
    engine: Engine


def _start(folder: str, task: Task, inner: Backend) -> None:
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    torch.set_num_threads(1)
    x, y = (torch.from_numpy(np.load(Path(folder) / f"{name}.npy", mmap_mode="c")) for name in ("x", "y"))
    _Worker.folder = Path(folder)
    _Worker.engine = inner.build(replace(task, x=x, y=y))


def _end_with_parent(folder: str) -> None:
    """A killed parent cannot end its processes, so they watch it."""
    parent_process().join()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _train(rows: Sequence[int], works: Sequence[Work]) -> NDArray[np.float64]:
    """Writes the deltas of some works into their rows and returns their losses."""
    starts, deltas = (open_memmap(_Worker.folder / f"{name}.npy", mode="r+") for name in ("starts", "deltas"))
    shifted = any(work.shift is not None for work in works)
    shifts = open_memmap(_Worker.folder / "shifts.npy", mode="r+") if shifted else None
    full = [
        replace(work, start=starts[work.start], shift=None if work.shift is None else shifts[work.shift])
        for work in works
    ]
    deltas[rows], loss = _Worker.engine.train(full)
    return loss
