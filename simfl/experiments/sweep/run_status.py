"""How far a run has come, read from its folder: the only memory of a sweep."""

from pathlib import Path

from simfl.core.errors import IntegrityError
from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import make_folder
from simfl.results import file_names
from simfl.results.file_names import FAILURE, SUMMARY, is_finished
from simfl.results.folder import ResultsFolder
from simfl.results.sealed_files import read_failure, write_failure

DONE, FAILED, PRUNED, OPEN = "done", "failed", "pruned", "open"
"""A run is complete, has failed (``failed.json`` says why), was stopped early by a search, or is none of these."""


def summary(folder: Path) -> JsonObject | None:
    """The summary of a complete run, None where there is none.

    Raises:
        IntegrityError: a file of the run is damaged, or the folder holds another run.
    """
    if not is_finished(folder):
        return None
    reader = ResultsFolder.open(folder)
    reader.check()
    if reader.summary["digest"] != folder.name:
        raise IntegrityError(f"{folder / SUMMARY}: of another run, {reader.summary['digest']}")
    return reader.summary


def failure(folder: Path) -> JsonObject | None:
    """What ``failed.json`` says, None where the run has not failed.

    Raises:
        IntegrityError: it is damaged, or of another run.
    """
    return read_failure(folder)


def note_failure(folder: Path, error: str, **more: object) -> None:
    """Writes ``failed.json``."""
    make_folder(folder, folder.parent.parent)
    write_failure(folder, error, **more)


def clear_failure(folder: Path) -> None:
    """Removes ``failed.json``, and ``pruned.json`` of a search: the run goes on."""
    (folder / FAILURE).unlink(missing_ok=True)
    (folder / file_names.PRUNED).unlink(missing_ok=True)
