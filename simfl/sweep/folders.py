"""How far a run has come, read from its folder: the only memory of a sweep."""

from pathlib import Path
from typing import Any

from simfl.disk import make_folder
from simfl.errors import IntegrityError
from simfl.stored import FAILURE, SUMMARY, Stored, is_finished, read_sealed, write_sealed

__all__ = ["DONE", "FAILED", "OPEN", "clear_failure", "failure", "note_failure", "summary"]

DONE, FAILED, OPEN = "done", "failed", "open"
"""A run is complete, has failed (``failed.json`` says why), or is neither."""


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
    """What ``failed.json`` says, None where the run has not failed.

    Raises:
        IntegrityError: it is damaged.
    """
    return read_sealed(folder / FAILURE)


def note_failure(folder: Path, error: str, **more: Any) -> None:
    """Writes ``failed.json``."""
    make_folder(folder, folder.parent.parent)
    write_sealed(folder / FAILURE, {"error": error, **more})


def clear_failure(folder: Path) -> None:
    """Removes ``failed.json``."""
    (folder / FAILURE).unlink(missing_ok=True)
