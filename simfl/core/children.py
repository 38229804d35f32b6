"""Fresh processes: they import what this one does, and nothing more that lies in the current folder.

Python puts the current folder at the head of the search path of ``python -c`` and ``python -m``, and so of most ways to
start a process; a file ``numpy.py`` there would be executed by a child though its parent never looks there. Variables
of the environment name further places and files that a child would execute.
"""

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext, SpawnProcess
from subprocess import Popen
from typing import IO, Any

START_LIMIT_S = 600
"""After so many seconds a process that has not started never will."""

UNSET = ("PYTHONBREAKPOINT", "PYTHONEXECUTABLE", "PYTHONHOME", "PYTHONINSPECT", "PYTHONPLATLIBDIR",
         "PYTHONPYCACHEPREFIX", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONWARNINGS")  # fmt: skip
"""Variables by which Python finds or executes something else; an empty one is as good as none."""

_lock = threading.RLock()


def environment() -> dict[str, str]:
    """Variables with which a Python process searches the folders of this one, and no others."""
    folders = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": folders} | dict.fromkeys(UNSET, "")


def start_python(module: str, **settings: Any) -> "Popen[Any]":
    """``python -m module``, with the variables of ``env`` beside those of this process, and the settings of a Popen."""
    variables = os.environ | settings.pop("env", {}) | environment()
    return Popen([sys.executable, "-P", "-m", module], env=variables, **settings)


def read_line(pipe: IO[bytes], limit_s: float | None) -> bytes:
    """A process's next line; nothing that it wrote before may still be buffered.

    Raises:
        TimeoutError: none came within so many seconds; None = no limit.
        EOFError: the process has ended.
    """
    if not wait([pipe], limit_s):  # type: ignore[list-item]  # whatever has a fileno will do
        raise TimeoutError
    line = pipe.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line


@contextmanager
def safe_path() -> Iterator[None]:
    """Python processes that start meanwhile search what this one does, whoever starts them."""
    with _lock:
        safe = environment()
        before = variables(safe)
        os.environ.update(safe)
        try:
            yield
        finally:
            restore(before)


def variables(names: Iterable[str]) -> dict[str, str | None]:
    """What this process has of them; None = not set."""
    return {name: os.environ.get(name) for name in names}


def restore(before: dict[str, str | None]) -> None:
    for name, value in before.items():
        os.environ.pop(name, "") if value is None else os.environ.update({name: value})


class _SafeProcess(SpawnProcess):
    def start(self) -> None:
        with safe_path():
            super().start()


class SafeSpawn(SpawnContext):
    """The start method ``spawn``, whose processes search what this one does.

    Attributes:
        started: the processes, since a pool that breaks drops its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.started: list[SpawnProcess] = []
        with safe_path():
            resource_tracker.ensure_running()  # a process of its own, which the first lock would start

    def Process(self, *args: Any, **settings: Any) -> SpawnProcess:  # type: ignore[override]  # a class in typeshed
        self.started.append(_SafeProcess(*args, **settings))
        return self.started[-1]
