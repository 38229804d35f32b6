"""What lies in a results folder: runs, sweeps and comparisons, in which state, and in what they differ."""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from simfl.core.errors import SimflError, suggestion
from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import file_lock, open_regular
from simfl.report.axes import varying, words
from simfl.report.live.watched_folder import RoundsTail, scenario_of
from simfl.report.study_reader import index_of
from simfl.results.file_names import BEGUN, CONTENTS, FAILURE, SCENARIO, SUMMARY, is_finished, is_swept
from simfl.results.folder import ResultsFolder, no_such_folder
from simfl.results.notes import read_notes
from simfl.results.sealed_files import read_failure, read_sealed

MARKS = (SCENARIO, SUMMARY, BEGUN, FAILURE)
"""A folder with one of these holds a run."""

MIN_DIGITS = 4
"""Of a digest, to stand for it."""

SHOWN_MATCHES = 4


class NoResultsError(SimflError):
    """Nothing in a folder of results is called so (exit 2)."""


def holds_results(folder: Path) -> bool:
    """Whether a folder holds a run, a sweep or a comparison, sound or not."""
    return is_swept(folder) or any((folder / mark).exists() for mark in MARKS)


def results_folders(root: Path) -> Iterator[Path]:
    """Every folder of results below the root, or of one scenario; hidden ones are none."""
    for folder in (root, *root.glob("*/"), *root.glob("*/*/")):
        parts = folder.relative_to(root).parts
        if not any(part.startswith(".") for part in parts) and holds_results(folder):
            yield folder


def digest_of(folder: Path) -> str:
    """The digest of the results in a folder, by its name."""
    return folder.name.rpartition("-")[2]


def find_results(text: str, root: Path) -> Path:
    """The folder that a user means: by its path, by the name of the run, or by the first digits of its digest.

    Raises:
        NoResultsError: there is none.
        SimflError: there are several.
    """
    if Path(text).exists() or Path(text).is_symlink():
        return Path(text)
    names: set[str] = set()
    matches = []
    for folder in results_folders(root):
        try:
            name = read_notes(folder).name
        except SimflError:  # its notes are damaged, it has its digest
            name = ""
        names |= {name} - {""}
        if (
            name == text
            or len(text) >= MIN_DIGITS
            and text in (folder.name[: len(text)], digest_of(folder)[: len(text)])
        ):
            matches.append(folder)
    if len(matches) > 1:
        some = ", ".join(map(str, sorted(matches)[:SHOWN_MATCHES])) + (", ..." if len(matches) > SHOWN_MATCHES else "")
        raise SimflError(f"{text}: {len(matches)} folders of results are meant by that: {some}")
    if not matches:
        if text and next(results_folders(root / text), None) is not None:
            raise NoResultsError(f"{text}: is the scenario of several results, which simfl ls {root / text} lists")
        raise NoResultsError(f"{text}: no such run, sweep or comparison in {root}{suggestion(text, names)}")
    return matches[0]


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
    elif (failure := read_failure(path)) is not None:
        run.state, run.error = "failed", str(failure.get("error", ""))
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
        with open_regular(lock) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


REMOVED = ".removed-"
"""A folder whose name begins so is no longer one of results, and waits for the next removal."""

DIGEST_NAME = re.compile(r"((sweep|compare|search)-)?[0-9a-f]{12}")


def check_removable(folder: Path, root: Path) -> Path:
    """The folder's path below the root of the results, if it may be removed.

    Raises:
        SimflError: it is not of the form ROOT/NAME/FOLDER, a part of the way is a link, or no results are in it.
        BusyError: tasks of Slurm are queued for it.
    """
    bases = {os.path.abspath(root), os.path.realpath(root)}
    path = Path(os.path.abspath(folder))
    base = next((Path(base) for base in bases if path.is_relative_to(base)), None)
    if base is None:
        raise SimflError(f"{folder}: is not in {root}; --out names another folder of results")
    if len(path.relative_to(base).parts) != 2:
        raise SimflError(f"{folder}: is no run, sweep or comparison in {root}")
    for part in (path.parent, path):
        if part.is_symlink():
            raise SimflError(f"{part}: is a link; simfl removes nothing through links")
    if not path.is_dir():
        raise SimflError(f"{folder}: no such folder")
    if not _is_simfl(path):
        raise SimflError(f"{folder}: holds no run, sweep or comparison of simfl; nothing was removed")
    _check_not_queued(path)
    return path


def _is_simfl(folder: Path) -> bool:
    """Whether simfl made a folder: by its name, or by a file in it that fits its own digest."""
    if DIGEST_NAME.fullmatch(folder.name) and holds_results(folder):
        return True
    for name in (SUMMARY, BEGUN, FAILURE, CONTENTS):
        with suppress(SimflError):
            if read_sealed(folder / name) is not None:
                return True
    return False


def _check_not_queued(folder: Path) -> None:
    """Refuses the folder of a sweep that has tasks in Slurm's queue."""
    if is_swept(folder):
        from simfl.experiments.sweep.slurm import check_not_queued  # only here: it imports all that executes sweeps

        check_not_queued(folder)


def remove(folder: Path) -> None:
    """Removes a folder that :func:`check_removable` has given.

    It is renamed first: a kill afterwards leaves nothing that looks like results.

    Raises:
        BusyError: a process is at work in it, or will be: tasks of Slurm are queued.
    """
    gone = folder.with_name(f"{REMOVED}{folder.name}-{secrets.token_hex(4)}")
    with ExitStack() as stack:
        for lock in {folder / ".lock", *lock_files(folder)}:
            stack.enter_context(file_lock(lock, f"{folder}: a process is at work here; nothing of it was removed"))
        _check_not_queued(folder)  # once more: one could have been submitted meanwhile, and cannot be from now on
        os.rename(folder, gone)
    for left in [gone, *folder.parent.glob(f"{REMOVED}*")]:  # also by a removal that was killed, or is at work
        if not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
    with suppress(OSError):  # other results are in it
        folder.parent.rmdir()


def only_here(sweep: Entry, entries: Sequence[Entry]) -> list[Path]:
    """The runs of a sweep or comparison that are on disk and belong to no other one.

    Args:
        sweep: the sweep.
        entries: all of its scenario.

    Raises:
        SimflError: of another one it is not known which runs belong to it.
    """
    siblings = [entry for entry in entries if entry.kind != "run" and entry.path.name != sweep.path.name]
    if unknown := next((entry.path for entry in siblings if not entry.members), None):
        raise SimflError(f"{unknown}: which runs belong to it is not known; remove it first, or do not remove the runs")
    others = {digest for entry in siblings for digest in entry.members}
    mine = set(sweep.members) - others
    return [entry.path for entry in entries if entry.kind == "run" and entry.path.name in mine]
