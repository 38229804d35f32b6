"""How a command ends when it does not end well: one clear line on stderr and an exit code, never a traceback."""

import errno
import os
import signal
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import click

from simfl.core.errors import SimflError, printable

INTERNAL, USAGE, EXHAUSTED = 1, 2, 6
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM, errno.EMFILE}


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised where Ctrl-C would be."""


@contextmanager
def failures(context: click.Context, debug: bool = False) -> Iterator[None]:
    """Turns what is raised inside into a message and an exit code; SIGTERM interrupts like Ctrl-C.

    Args:
        context: of the running command, which is left with the exit code.
        debug: print the traceback of an internal error instead of writing it to a file.
    """
    try:
        with _terminable():
            yield
    except SimflError as error:
        _end(context, str(error), error.exit_code)
    except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except KeyboardInterrupt as interrupt:
        stopped = isinstance(interrupt, Terminated)
        _end(context, "terminated" if stopped else "interrupted", 143 if stopped else 130)
    except MemoryError:
        _end(context, "out of memory", EXHAUSTED)
    except OSError as error:
        if error.errno is None:
            _internal(context, error, debug)
        about = f"{error.filename}: " if error.filename else ""
        _end(context, about + (error.strerror or str(error)), EXHAUSTED if error.errno in FULL else USAGE)
    except SystemExit as error:  # a plugin does not end the command
        if _plugin_at_fault(error) is None:
            raise
        _internal(context, error, debug)
    except Exception as error:
        _internal(context, error, debug)


def _end(context: click.Context, message: str, code: int) -> NoReturn:
    click.echo("\n".join(map(printable, message.split("\n"))), err=True)
    context.exit(code)


def _internal(context: click.Context, error: Exception | SystemExit, debug: bool) -> NoReturn:
    if about := _plugin_at_fault(error):
        _end(context, ("".join(traceback.format_exception(error)) if debug else "") + about, INTERNAL)
    summary = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    if debug:
        where = "".join(traceback.format_exception(error))
        _end(context, f"{where}internal error ({summary}); please report it with the lines above", INTERNAL)
    try:
        handle, path = tempfile.mkstemp(prefix="simfl-error-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("".join(traceback.format_exception(error)))
        _end(context, f"internal error ({summary}); please report it with the file {path}", INTERNAL)
    except OSError:
        _end(context, f"internal error ({summary}); please report it with the output of simfl --debug", INTERNAL)


def _plugin_at_fault(error: BaseException) -> str | None:
    from simfl.core.registration.family_index import plugin_failure  # help needs no plugins

    return plugin_failure(error)


@contextmanager
def _terminable() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield
        return

    def raise_terminated(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated

    before = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
