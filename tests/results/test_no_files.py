"""What lies in a results folder where a file should be: a pipe, a device, a socket, a folder, a link."""

import json
import os
import resource
import shutil
import signal
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from simfl.cli import simfl as group
from simfl.experiments.sweep.execution import execute
from simfl.experiments.sweep.plan import plan_sweep
from simfl.report import svg
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.reliability.damage_subjects import Here
from tests.support import forked
from tests.support.damages import unfinish
from tests.support.swept_axes import axes

TEXT = """
name: small
clients: 6
selection: {name: random, k: 3}
training: {name: fedavg, rounds: 4}
learning: {name: none, parameters: 5}
trace: events
"""
PATIENCE_S, MEMORY_BYTES = 20, 6 * 2**30


def pipe(path):
    os.mkfifo(path)


def unix_socket(path):
    here = os.getcwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(here)


KINDS = {
    "pipe": pipe,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "itself": lambda path: path.symlink_to(path.name),
    "socket": unix_socket,
    "folder": lambda path: path.mkdir(),
    "nothing": lambda path: path.symlink_to("/nowhere/at/all"),
}
READERS = {
    "ls": lambda f: ["ls", f.parent.parent],
    "watch": lambda f: ["watch", f, "--terminal"],
    "report": lambda f: ["report", f, "-o", f.parents[2] / "r.html"],
    "plot": lambda f: ["plot", f, "--figure", "timeline", "-o", f.parents[2] / "f.svg"],
    "export": lambda f: ["export", f, "--rounds", f.parents[2] / "r.csv"],
    "export --tensorboard": lambda f: ["export", f, "--tensorboard", "--out", f.parents[2] / "t"],
    "audit": lambda f: ["audit", f],
    "forecast": lambda f: ["forecast", f, "--futures", 2, "--horizon", 1, "--processes", 1],
    "show": lambda f: ["show", f],
    "tag": lambda f: ["ls", "tag", f, "--tag", "seen"],
    "verify": lambda f: ["run", "--verify", f],
    "calibrate": lambda f: ["serve", "calibrate", f],
    "run": lambda f: ["run", f.parents[2] / "small.yaml", "--out", f.parent.parent, "-q"],
}
SLOW = (READERS["report"], READERS["forecast"])
OF_SWEEPS = {name: READERS[name] for name in ("ls", "watch", "report", "plot", "export", "tag")} | {
    "sweep": lambda f: ["sweep", f.parents[2] / "small.yaml", "seed=0,1", "--out", f.parent.parent, "--jobs", "1"],
    "sweep file": lambda f: ["sweep", f / "sweep.yaml", "--out", f.parent.parent, "--jobs", "1"],
}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Folders of a finished run, of one in progress and of a sweep, each in results of its own; by their names."""
    home = tmp_path_factory.mktemp("places")
    made = {}
    for name in ("finished", "begun", "swept"):
        (place := home / name).mkdir()
        (place / "small.yaml").write_text(TEXT)
        if name == "swept":
            plan = plan_sweep(str(place / "small.yaml"), axes(["seed=0,1"]))
            made[name] = place / "results" / "small" / f"sweep-{plan.digest}"
            execute(plan, place / "results", made[name], Here())
            continue
        made[name] = run(Scenario.load(place / "small.yaml"), place / "results").path
        if name == "begun":
            unfinish(made[name], 2)
    return made


def ends(place: Path, command, report: Path) -> None:
    """In a process of its own: each file of the folder in turn is something else, and the command is called."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES + _size(), resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, lambda number, frame: (_ for _ in ()).throw(TimeoutError("hangs")))
    svg.picture = lambda fig, format: b'<svg viewBox="0 0 1 1"></svg>'
    before, said = place.parents[2] / "before", []
    shutil.copytree(place.parents[1], before)
    names = sorted(path.relative_to(place) for path in (*place.glob("*"), *place.glob("*/*")) if path.is_file())
    for name in [*names, *map(Path, (".lock", "failed.json", "pruned.json", "tags.json", "notes.json"))]:
        others = sorted(KINDS.keys() - {"pipe"})
        for kind in ("pipe", *([] if command in SLOW else [others[len(said) // 2 % len(others)]])):
            shutil.rmtree(place.parents[1])
            shutil.copytree(before, place.parents[1])
            (place / name).unlink(missing_ok=True)
            KINDS[kind](place / name)
            signal.alarm(PATIENCE_S)
            done = CliRunner().invoke(group, [str(word) for word in command(place)])
            signal.alarm(0)
            said.append((str(name), kind, done.exit_code, repr(done.exception), done.stderr))
    report.write_text(json.dumps(said))


def _size() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


CASES = [(place, name) for place in ("finished", "begun") for name in READERS] + [("swept", name) for name in OF_SWEEPS]


@pytest.mark.parametrize(("place", "name"), CASES)
def test_a_command_ends_and_names_what_is_no_file(places, tmp_path, place, name):
    home = shutil.copytree(places[place].parents[2], tmp_path / "home", symlinks=True)
    folder, report = home / places[place].relative_to(places[place].parents[2]), tmp_path / "report.json"
    command = (READERS | OF_SWEEPS)[name]
    done = forked.finish(forked.start(lambda: ends(folder, command, report), stderr=-1, stdout=-1), 500)
    assert done.returncode == 0, done.stderr
    wrong = [
        each
        for each in json.loads(report.read_text())
        if each[2] not in (0, 2, 3, 4, 5) or "Traceback" in each[4] or "internal error" in each[4]
    ]
    assert wrong == []
