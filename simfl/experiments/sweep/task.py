"""One run as a piece of work that can be sent to another process or machine."""

from dataclasses import dataclass
from pathlib import Path

from simfl.core.json_data import JsonObject


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
            none, see :mod:`simfl.experiments.sweep.object_files`.
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
