"""Kills at chosen steps: what a process had not handed to the operating system is lost, as by SIGKILL."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from simfl.agents.world import World
from simfl.core.storage import disk as disk_module
from simfl.results import checkpoint
from simfl.results import tables as trace
from simfl.results.file_names import BESIDE
from simfl.runs import finalise
from simfl.runs import run as run_module


class Killed(BaseException):
    """The process is dead; nothing catches it but the test."""


class _Steps:
    """Counts what a run does to its folder; at one of these steps it dies."""

    def __init__(self, last: int | None) -> None:
        self.done, self.last = 0, last

    def step(self) -> None:
        if self.last is not None and self.done >= self.last:
            raise Killed
        self.done += 1

    @property
    def dead(self) -> bool:
        return self.last is not None and self.done >= self.last

    def around(self, action: Callable) -> Callable:
        """Dies before the action or, one step later, after it."""

        def act(*arguments, **named):
            self.step()
            result = action(*arguments, **named)
            self.step()
            return result

        return act


@contextmanager
def counted(last: int | None = None) -> Iterator[_Steps]:
    """While this lasts, whatever runs do to their folders is a step; they die at number ``last``, if it is given."""
    steps = _Steps(last)
    close, write = trace.TableWriter.close, disk_module.write_atomically

    def closed(table):
        if steps.dead and not table._file.closed:  # the buffer dies with the process
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, table._file.fileno())
            os.close(nowhere)
        close(table)

    patches = [
        mock.patch.object(trace.TableWriter, "close", closed),
        mock.patch.object(trace.TableWriter, "append", steps.around(trace.TableWriter.append)),
        mock.patch.object(trace.TableWriter, "append_json", steps.around(trace.TableWriter.append_json)),
        mock.patch.object(trace.TableWriter, "mark", steps.around(trace.TableWriter.mark)),
        mock.patch.object(os, "replace", steps.around(os.replace)),
        mock.patch.object(Path, "unlink", steps.around(Path.unlink)),
        mock.patch.object(shutil, "rmtree", steps.around(_rmtree_by_steps(steps))),
        *(mock.patch.object(room, "write_atomically", steps.around(write))
          for room in (finalise, checkpoint, run_module)),
    ]  # fmt: skip
    with _all(patches):
        yield steps


def _rmtree_by_steps(steps: _Steps) -> Callable:
    """A folder goes file by file, so that a kill can leave a part of it."""

    def rmtree(folder, ignore_errors=False):
        for file in sorted(Path(folder).glob("*")):
            os.unlink(file)
            steps.step()
        if Path(folder).exists():
            os.rmdir(folder)

    return rmtree


@contextmanager
def _all(patches: list) -> Iterator[None]:
    started = []
    try:
        for patch in patches:
            patch.start()
            started.append(patch)
        yield
    finally:
        for patch in started:
            patch.stop()


def killed_at(step: int, play: Callable[[], object]) -> bool:
    """Plays until this step; whether it died there."""
    try:
        with counted(step):
            play()
    except Killed:
        return True
    return False


def killed_at_time(time_s: float, play: Callable[[], object]) -> bool:
    """Plays until its clock is at this simulated time; whether it died there."""
    real = World.run

    def run(world, until):
        def die(_):
            steps.last = steps.done
            raise Killed

        if time_s >= world.now:
            world.at(time_s, die)
        return real(world, until)

    try:
        with counted() as steps, mock.patch.object(World, "run", run):
            play()
    except Killed:
        return True
    return False


def killed_after(seconds: float, play: Callable[[], object]) -> bool:
    """Plays in a forked process that gets SIGKILL after this time; whether it was still playing."""
    child = os.fork()
    if not child:
        try:
            play()
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def files(folder: Path) -> dict[str, bytes]:
    """All that a run leaves, besides what is of the machine and its clock."""
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())
            if path.is_file() and path.name not in (*BESIDE, ".lock")}  # fmt: skip
