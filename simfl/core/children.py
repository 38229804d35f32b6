"""Fresh Python processes: they import what this one does, and nothing more that lies in the current folder.

Python puts the current folder at the head of the search path of ``python -c`` and ``python -m``, and so of most ways to
start a process; a file ``numpy.py`` there would be executed by a child though its parent never looks there.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from subprocess import Popen
from typing import Any

SAFE = {"PYTHONSAFEPATH": "1"}
_lock = threading.RLock()


def search_path() -> dict[str, str]:
    """Variables of the environment with which a Python process searches the folders of this one, and no others."""
    return SAFE | {"PYTHONPATH": os.pathsep.join(os.path.abspath(folder) for folder in sys.path)}


def start_python(module: str, **settings: Any) -> "Popen[Any]":
    """``python -m module``, with the variables of ``env`` beside those of this process, and the settings of a Popen."""
    environment = os.environ | settings.pop("env", {}) | search_path()
    return Popen([sys.executable, "-P", "-m", module], env=environment, **settings)


@contextmanager
def safe_path() -> Iterator[None]:
    """Python processes that start meanwhile do not search the current folder before they are told what to search."""
    with _lock:
        before = {name: os.environ.get(name) for name in SAFE}
        os.environ.update(SAFE)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


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
