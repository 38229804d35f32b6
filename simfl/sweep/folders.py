"""How far a run has come, read from its folder: the only memory of a sweep."""

import json
from pathlib import Path
from typing import Any

from simfl.disk import write_atomically
from simfl.errors import IntegrityError
from simfl.stored import SUMMARY, Stored, is_finished

__all__ = ["DONE", "FAILED", "OPEN", "clear_failure", "failure", "note_failure", "summary"]

DONE, FAILED, OPEN = "done", "failed", "open"
"""A run is complete, has failed (``failed.json`` says why), or is neither."""

FAILURE = "failed.json"


def summary(folder: Path) -> dict[str, Any] | None:
    """The summary of a complete run, None where there is none.

    Raises:
        IntegrityError: a file of the run is damaged, or the folder holds another run.
    """
    if not is_finished(folder):
        return None
    stored = Stored.open(folder)
    stored.check()
    if stored.summary["digest"] != folder.name:
        raise IntegrityError(f"{folder / SUMMARY}: of another run, {stored.summary['digest']}")
    return stored.summary


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


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
