"""What lies in a results folder: runs, sweeps and comparisons, in which state, and in what they differ."""

import fcntl
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from simfl.api.find_results import digest_of, results_folders
from simfl.core.errors import SimflError
from simfl.core.json_data import JsonObject
from simfl.report.axes import varying, words
from simfl.report.live.tail_reader import RoundsTail
from simfl.report.live.watched_folder import scenario_of
from simfl.report.study_reader import index_of
from simfl.results.file_names import is_finished, is_swept
from simfl.results.folder import ResultsFolder, no_such_folder
from simfl.results.notes import read_notes
from simfl.results.sealed_files import read_failure


@dataclass
class Entry:
    """A run, a sweep or a comparison on disk.

    Attributes:
        kind: run, sweep, comparison or search.
        name: of its scenario.
        path: its folder; ``digest`` is the end of its name.
        state: of a run ``done``, ``diverged``, ``running``, ``stopped`` (goes on when it is run again), ``failed``
            or ``damaged``; of the others too, ``failed`` where at least one run has.
        differs: in what it differs from the runs of the same name; what varies in a sweep.
        seed, rounds, accuracy: of a run; the final test accuracy.
        planned: rounds that its scenario asks for.
        runs: of a sweep or comparison, how many are done, failed and open.
        error: why it failed, or what is damaged.
        run_name, tags, note: what users have written about it.
    """

    kind: str
    name: str
    path: Path
    state: str
    differs: str = ""
    seed: int | None = None
    rounds: int | None = None
    planned: int | None = None
    accuracy: float | None = None
    runs: dict[str, int] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    error: str | None = None
    run_name: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""

    @property
    def digest(self) -> str:
        return digest_of(self.path)

    def document(self) -> JsonObject:
        """All of it as JSON data."""
        content = asdict(self) | {"path": str(self.path), "digest": self.digest}
        del content["members"]
        return content


def list_entries(folder: Path) -> dict[str, list[Entry]]:
    """What lies in a folder of results or of one scenario: entries by name, what changed last at the end.

    Raises:
        SimflError: there is no such folder.
    """
    if not folder.is_dir():
        raise SimflError(f"{folder}: {no_such_folder(folder)}")
    places = sorted(set(results_folders(folder)), key=lambda path: (path.stat().st_mtime_ns, path))
    content: dict[str, list[Entry]] = {}
    scenarios: dict[str, list[JsonObject]] = {}
    for path in places:
        if is_swept(path):
            entry = _sweep(path)
        else:
            try:
                scenario = scenario_of(path)
                entry = _run(path, scenario)
            except SimflError as error:
                scenario, entry = {}, Entry("run", path.resolve().parent.name, path, "damaged", error=str(error))
            scenarios.setdefault(entry.name, []).append(scenario)
        _add_notes(entry)
        content[entry.name] = [*content.pop(entry.name, ()), entry]  # the name that changed last comes last
    for name, known in scenarios.items():
        runs = [entry for entry in content[name] if entry.kind == "run"]
        for entry, label in zip(runs, words(*varying(known)), strict=True):
            entry.differs = label
    return content


def _run(path: Path, scenario: JsonObject) -> Entry:
    training = scenario.get("training")
    planned = training.get("rounds") if isinstance(training, dict) else None
    seed = scenario.get("seed")
    run = Entry("run", path.resolve().parent.name, path, "stopped", seed=seed if isinstance(seed, int) else None,
                planned=planned if isinstance(planned, int) else None)  # fmt: skip
    if is_finished(path):
        try:
            reader = ResultsFolder.open(path)
            reader.check()
        except SimflError as error:
            run.state, run.error = "damaged", str(error)
            return run
        summary = reader.summary
        run.state = "done" if summary.get("diverged_round") is None else "diverged"
        run.seed, run.rounds, run.accuracy = summary["seed"], summary["rounds"], summary.get("test_accuracy")
        return run
    table = RoundsTail(path)
    table.look()
    run.rounds, run.accuracy = table.rows, table.last("test_accuracy")
    if _is_locked(path):
        run.state = "running"
    elif (why := _failure(path)) is not None:
        run.state, run.error = "failed", why
    return run


def _add_notes(entry: Entry) -> None:
    try:
        notes = read_notes(entry.path)
    except SimflError as error:
        entry.error = entry.error or str(error)
    else:
        entry.run_name, entry.tags, entry.note = notes.name, notes.tags, notes.note


def _sweep(path: Path) -> Entry:
    kind = {"compare": "comparison", "search": "search"}.get(path.name.partition("-")[0], "sweep")
    entry = Entry(kind, path.resolve().parent.name, path, "stopped")
    try:
        axes, rows = index_of(path)
    except SimflError as error:
        entry.state = "running" if _is_locked(path) else "damaged"
        entry.error = str(error)
        return entry
    entry.members = tuple(row["digest"] for row in rows)
    for row in rows:
        entry.runs[row["status"]] = entry.runs.get(row["status"], 0) + 1
    values = {axis: list(dict.fromkeys(row[axis] for row in rows)) for axis in axes}
    several = {axis: each for axis, each in values.items() if len(each) > 1} or values
    entry.differs = " ".join(f"{axis}={','.join(each)}" for axis, each in several.items())
    if _is_locked(path):
        entry.state = "running"
    elif entry.runs.keys() <= {"done", "pruned"}:
        entry.state = "done"
    elif "failed" in entry.runs:
        entry.state = "failed"
    return entry


def _is_locked(path: Path) -> bool:
    """Whether a process is at work here: it holds a lock."""
    return any(_lock_is_taken(lock) for lock in lock_files(path))


def lock_files(path: Path) -> Iterator[Path]:
    """The locks of whoever is at work in a folder of results, held or not."""
    yield from (lock for lock in path.glob(".lock*") if lock.name != ".lock-index" and not lock.is_symlink())


def _lock_is_taken(lock: Path) -> bool:
    try:
        with open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _failure(path: Path) -> str | None:
    content = read_failure(path)
    return None if content is None else str(content.get("error", ""))
