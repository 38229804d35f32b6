"""One run as a piece of work that can be sent to another process or machine; its folder says how far it has come."""

from dataclasses import dataclass
from pathlib import Path

from simfl.core.errors import IntegrityError
from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import make_folder
from simfl.results import file_names
from simfl.results.file_names import FAILURE, SUMMARY, is_finished
from simfl.results.folder import ResultsFolder
from simfl.results.sealed_files import write_failure

DONE, FAILED, PRUNED, OPEN = "done", "failed", "pruned", "open"
"""A run is complete, has failed (``failed.json`` says why), was stopped early by a search, or is none of these."""


def finished_summary(folder: Path) -> JsonObject | None:
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


def note_failure(folder: Path, error: str, **more: object) -> None:
    """Writes ``failed.json``."""
    make_folder(folder, folder.parent.parent)
    write_failure(folder, error, **more)


def clear_failure(folder: Path) -> None:
    """Removes ``failed.json``, and ``pruned.json`` of a search: the run goes on."""
    (folder / FAILURE).unlink(missing_ok=True)
    (folder / file_names.PRUNED).unlink(missing_ok=True)


@dataclass(frozen=True)
class Task:
    """A scenario to run.

    Attributes:
        scenario: resolved, as YAML.
        name, digest: of the scenario; they name the run's folder.
        folder: what its data files are relative to, absolute.
        out: root of all results, absolute.
        plugins: those that it uses and that the worker does not know, see
            :mod:`simfl.experiments.sweep.plugin_pickling`.
        objects: file with the Python objects that were handed in, absolute, and its SHA-256; empty where there are
            none, see :mod:`simfl.experiments.sweep.plugin_pickling`.
        stop: when to stop early, a :class:`simfl.experiments.sweep.stop_rule.StopRule` as JSON data; None = never.
        log: names of the trackers that log it, see :mod:`simfl.runs.tracking`.
        label: what they call it.
        tags: added to those of the run.
    """

    scenario: str
    name: str
    digest: str
    folder: str
    out: str
    plugins: str = ""
    objects: tuple[str, str] | tuple[()] = ()
    stop: JsonObject | None = None
    log: tuple[str, ...] = ()
    label: str = ""
    tags: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The run's folder."""
        return Path(self.out, self.name, self.digest)
