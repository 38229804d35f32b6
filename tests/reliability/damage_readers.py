"""Who reads results: every command that does, called as the shell calls it, and the functions of the Python API."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from simfl.api import result_objects
from simfl.api.result_objects import Result
from simfl.cli import simfl
from simfl.core.errors import IntegrityError, SimflError
from simfl.experiments.sweep.task import finished_summary
from simfl.report.figures import figures
from simfl.report.live.watched_folder import WatchedFolder
from simfl.report.study import Run
from simfl.results.client_updates import UpdateReplay
from simfl.results.file_names import SCENARIO, is_finished, is_swept
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.reliability.damage_subjects import Subject

SOME, FEW = 10, 50
"""Of so many damages one is also asked of what takes longer, and of what takes long."""

FAILED_MEMBERS = 3


class Reader(NamedTuple):
    """Somebody who reads a folder, or goes on with it.

    Attributes:
        name: of the command, or of the functions behind it.
        ask: data that change where what is told changes; raises SimflError where it refuses.
        every: of so many damages it is asked about one.
    """

    name: str
    ask: Callable[[], object]
    every: int = 1


class Told(NamedTuple):
    """An answer that may say of some files that they are damaged.

    Attributes:
        errors: what it says so.
        data: the rest.
    """

    errors: frozenset[str]
    data: object


class InternalError(Exception):
    """A command ended with exit code 1 or a traceback."""


def command(*words: object) -> tuple[int, str]:
    """The exit code of a command, and what it prints.

    Args:
        words: behind ``simfl``.

    Raises:
        SimflError: it ends with an exit code for users' faults; 4 is an IntegrityError.
        InternalError: it ends with another.
    """
    ended = CliRunner().invoke(simfl, ["--debug", *map(str, words)])
    if ended.exit_code == IntegrityError.exit_code:
        raise IntegrityError(ended.stderr)
    if ended.exit_code in (1, 130, 143):
        raise InternalError(ended.output or repr(ended.exception))
    if ended.exit_code not in (0, FAILED_MEMBERS):
        raise SimflError(ended.stderr)
    return ended.exit_code, ended.stdout


def _written(to: Path, *words: object) -> object:
    """What a command writes into a file or folder, and prints."""
    shutil.rmtree(to, ignore_errors=True)
    to.unlink(missing_ok=True)
    said = command(*words)
    return said, {str(path): path.read_bytes() for path in (to, *to.rglob("*")) if path.is_file()}


def readers(subject: Subject, folder: Path, part: Path, number: int) -> Iterator[Reader]:
    """All that read a folder.

    Args:
        subject: what it is a copy of.
        folder: of the run, sweep or comparison.
        part: the folder in which a file is damaged: the same, or that of a member.
        number: of the case; it decides which figure is drawn.
    """
    home, to = folder.parent, folder.parent.parent / "written"
    to.mkdir(parents=True, exist_ok=True)
    drawn = figures()[number // SOME % len(figures())].name
    yield Reader("watch", lambda: _watched(folder))
    yield Reader("ls", lambda: _listed(home))
    yield Reader("open", lambda: _opened(folder))
    yield Reader("sweep's summary", lambda: _summary(part))
    yield Reader("export --rounds", lambda: _written(to / "r.csv", "export", folder, "--rounds", to / "r.csv"))
    yield Reader("export --parquet", lambda: _written(to / "p", "export", folder, "--parquet", "--out", to / "p"), SOME)
    yield Reader("export --tensorboard",
                 lambda: _written(to / "t", "export", folder, "--tensorboard", "--out", to / "t"), SOME)  # fmt: skip
    yield Reader("audit", lambda: command("audit", part, "--json"), SOME)
    yield Reader("attack", lambda: command("attack", part, "least_squares", "--json"), SOME)
    yield Reader(f"plot --figure {drawn}",
                 lambda: _written(to / "f.svg", "plot", folder, "--figure", drawn, "-o", to / "f.svg"),
                 SOME)  # fmt: skip
    yield Reader("watch --terminal", lambda: _watched(folder)._replace(data=command("watch", folder, "--terminal")),
                 SOME)  # fmt: skip
    yield Reader("report", lambda: _written(to / "r.html", "report", folder, "-o", to / "r.html"), FEW)
    yield Reader("verify", lambda: command("run", "--verify", part), FEW)
    if "served" in subject.name:
        yield Reader("serve --replay", lambda: _replayed(folder, subject, to), SOME)
    if not is_swept(subject.home / subject.folder):
        yield Reader("report's tables", lambda: _tables(folder))
    yield Reader("going on", lambda: subject.again(home.parent), SOME if is_swept(subject.home / subject.folder) else 1)


def _watched(folder: Path) -> Told:
    """The page of ``watch``, without the times of the real world."""
    state = WatchedFolder(folder).look()
    errors = frozenset(run["error"] for run in state["runs"] if run["error"])
    for one in state["clients"]:
        one.pop("seen_s", None)
    return Told(errors, json.dumps(state))


def _listed(home: Path) -> Told:
    _, printed = command("ls", home, "--json")
    entries = json.loads(printed)
    errors = frozenset(entry["error"] for entry in entries if entry["error"])
    return Told(errors, sorted(json.dumps(entry) for entry in entries))


def _opened(folder: Path) -> object:
    found = result_objects.open(folder)
    if isinstance(found, Result):
        return found.summary, found.rounds.to_csv(), found.participation.toarray().tolist(), found.scenario.digest
    tables = [found.runs, *((found.means, found.paired) if hasattr(found, "means") else ())]
    return [table.to_csv() for table in tables]


def _summary(part: Path) -> object:
    """What a sweep takes from the folder of a member."""
    if (found := finished_summary(part)) is None:
        raise SimflError(f"{part}: no run")
    return found


def _tables(folder: Path) -> object:
    """All that figures and the page may ask for."""
    found = Run.open(folder)
    frames = (found.rounds, found.jobs, found.phases, found.clients_table, found.accuracies, found.latency)
    events = found.events.read_bytes() if found.events else b""
    tables = [table.to_csv() for table in frames if table is not None]
    return tables, found.text, events, found.participation.toarray().tolist(), found.attack_findings, [*found.columns]


def _replayed(folder: Path, subject: Subject, to: Path) -> object:
    """What ``serve --replay`` plays from a finished run's updates."""
    source = next(iter(subject.twins))
    scenario = Scenario.load(subject.home / source / SCENARIO)
    target = to / "again"
    replay = UpdateReplay(folder, target / scenario.name / scenario.digest)
    path = run(scenario.using(remote_clients=replay), target, force=True).path
    return is_finished(path), {file.name: file.read_bytes() for file in path.iterdir()
                               if file.suffix in (".csv", ".npy")}  # fmt: skip
