"""``simfl ...`` in a forked process: its own signals, limits, pipes and exit code, and no second import.

A new interpreter takes 0.5 s of processor time to import simfl's commands and 2 s with torch, a fork milliseconds.
A test of imports, of the installed command or of an interpreter's start needs a new interpreter all the same.
"""

import gc
import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


def command(*words: object) -> Callable[[], None]:
    """The ``simfl`` command with these arguments, to be played by a forked process."""

    def main() -> None:
        from simfl.cli import main

        sys.argv = ["simfl", *map(str, words)]
        main()

    return main


def script(*words: object) -> Callable[[], None]:
    """A file of Python with these arguments, to be played by a forked process as ``python FILE ...`` would."""

    def main() -> None:
        sys.argv = [str(word) for word in words]
        sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
        runpy.run_path(sys.argv[0], run_name="__main__")

    return main


def start(action: Callable[[], None], *, env: dict[str, str] | None = None, **options: Any) -> subprocess.Popen:
    """A process that calls ``action`` and exits with its exit code; options as for ``Popen``.

    The action runs as the child's ``preexec_fn``, after its folder and its pipes are set up, and nothing is executed.
    """

    def play() -> None:
        code = 1
        try:
            os.closerange(3, 4096)  # also the pipe on which the parent waits for the execution of a program
            if env is not None:
                os.environ.clear()
                os.environ.update(env)
            for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # as an interpreter that starts
                signal.signal(number, signal.SIG_IGN)
            sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
            gc.enable()
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(1)  # the threads of the parent are gone
            action()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except (OSError, ValueError):
                    code = code or 1
            os._exit(code)

    return subprocess.Popen(["simfl"], preexec_fn=play, text=True, **options)


def simfl(*words: object, cwd: Path | None = None, timeout: float = 120, **options: Any) -> subprocess.CompletedProcess:
    """``simfl`` with these arguments, to its end."""
    return finish(start(command(*words), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options), timeout)


def finish(process: subprocess.Popen, timeout: float = 120) -> subprocess.CompletedProcess:
    """Waits for the end of a process with pipes."""
    with process:
        try:
            output, errors = process.communicate(timeout=timeout)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
