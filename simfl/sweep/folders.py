"""How far a run has come, read from its folder: the only memory of a sweep."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simfl.errors import BusyError
from simfl.trace import write_atomically

__all__ = ["DONE", "FAILED", "OPEN", "clear_failure", "failure", "locked", "note_failure", "summary"]

DONE, FAILED, OPEN = "done", "failed", "open"
"""A run is complete, has failed (``failed.json`` says why), or is neither."""

FAILURE = "failed.json"


def summary(folder: Path) -> dict[str, Any] | None:
    """The summary of a complete run, None where there is none or it is damaged."""
    found = _read(folder / "summary.json")
    return found if found is not None and found.get("digest") == folder.name else None


def failure(folder: Path) -> dict[str, Any] | None:
    """What ``failed.json`` says, None where the run has not failed."""
    found = _read(folder / FAILURE)
    return found if found is not None and isinstance(found.get("error"), str) else None


def note_failure(folder: Path, error: str, **more: Any) -> None:
    """Writes ``failed.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FAILURE, (json.dumps({"error": error, **more}, indent=2) + "\n").encode())


def clear_failure(folder: Path) -> None:
    """Removes ``failed.json``."""
    (folder / FAILURE).unlink(missing_ok=True)


@contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Holds a lock file; it is free again when the process ends, however it ends.

    Args:
        path: the file, made if need be; its folder must exist.
        busy: message of the BusyError if another process holds it; None waits.
    """
    with open(path, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            raise BusyError(str(busy)) from None
        yield


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
