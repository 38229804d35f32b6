"""Processes that simfl starts import what simfl itself imports, and nothing that lies in the current folder."""

import ast
import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import simfl
from simfl.core.children import UNSET, SafeSpawn, environment, start_python
from simfl.core.errors import SimflError
from tests.support.fake_slurm import FakeSlurm

TINY = """
name: tiny
clients: 12
plugins: [own_policy.py]
selection: {name: own, k: 4}
training: {name: fedavg, rounds: 2}
network: {name: star, latency_s: 0.1}
learning: {data: digits, model: logistic}
privacy: none
"""
OWN = """
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simfl.plugins.selection import POLICIES, DisjointUnits


@POLICIES("own")
@dataclass(frozen=True)
class Own:
    k: int

    unit_size = 1
    uniform = True
    sampling = "fixed_size"
    example = {"k": 4}

    def family(self, clients):
        return DisjointUnits(clients, self.k)

    def select(self, view, k, rng):
        return rng.permutation(np.flatnonzero(view.available))[:k, None].astype(np.int32)
"""
STARTING = {"parts", "worker_process", "after_run", "process_engine", "dask_engine", "cluster", "slurm"}
"""Modules that start processes; each has a command below."""
COMMANDS = {
    "forecast": ["forecast log.csv --futures 80 --horizon 4 --processes 2"],
    "verify": ["run tiny.yaml --out runs", "run --verify runs/tiny/*"],
    "run, processes": ["run tiny.yaml learning.backend=processes:workers=2"],
    "run, dask": ["run tiny.yaml learning.backend=dask:workers=2"],
    "sweep": ["sweep tiny.yaml seed=0,1 learning=none --jobs 2"],
    "sweep, dask": ["sweep tiny.yaml seed=0,1 learning=none --jobs 2 --engine dask"],
    "compare": ["compare tiny.yaml selection=random:k=4,own:k=4 learning=none --replications 2 --jobs 2"],
    "search": ["search tiny.yaml training.rounds=1..3 learning=none --minimise time_s --runs 2 --jobs 2"],
    "attack": ["run tiny.yaml --out runs", "attack runs/tiny/* lira --jobs 2"],
}


@pytest.fixture
def trapped(tmp_path):
    """A folder with a module of the name of each one that may be imported; what is executed leaves a mark."""
    names = sys.stdlib_module_names | packages_distributions().keys() | {"simfl", "usercustomize", "sitecustomize"}
    marks = tmp_path / "executed"
    marks.mkdir()
    place = tmp_path / "here"
    place.mkdir()
    for name in names:
        if name.isidentifier() and name != "__main__":
            (place / f"{name}.py").write_text(f"open({str(marks / name)!r}, 'w').close()\n")
    (place / "tiny.yaml").write_text(TINY)
    (place / "own_policy.py").write_text(OWN)
    rows = [f"{t},{(t + i) % 8}" for t in range(20) for i in range(3)]
    (place / "log.csv").write_text("\n".join(["round,client", *rows]) + "\n")
    return place


def executed(place: Path) -> list[str]:
    return sorted(os.listdir(place.parent / "executed"))


def call(place: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """``simfl`` as it is installed, in this folder."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    command = [str(Path(sys.executable).parent / "simfl"), *words]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", COMMANDS)
def test_files_of_the_current_folder_are_not_executed(trapped, name):
    for line in COMMANDS[name]:
        words = [str(path) for word in line.split() for path in (sorted(trapped.glob(word)) if "*" in word else [word])]
        done = call(trapped, *words)
        assert executed(trapped) == [], line
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_a_task_of_a_job_array_executes_no_file_of_the_current_folder(trapped, monkeypatch):
    pytest.importorskip("submitit", reason="needs the extra slurm")
    monkeypatch.chdir(trapped)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    slurm = FakeSlurm.install(trapped.parent, monkeypatch)
    done = call(trapped, *"sweep tiny.yaml seed=0,1 learning=none --slurm --jobs=1".split())
    assert done.returncode == 0, done.stderr
    task = slurm.start(slurm.jobs[0], 0)
    output, _ = task.communicate()
    assert executed(trapped) == []
    assert task.returncode == 0, output


def seen() -> dict[str, str]:
    """What a child has of the variables that Python reads; it prints them where it is executed as a module."""
    return {name: value for name, value in os.environ.items() if name in {*UNSET, "PYTHONPATH", "PYTHONSAFEPATH"}}


@pytest.fixture
def strange(tmp_path, monkeypatch):
    """Variables of others, which name files and folders that this process does not search; what a child is to see."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(Path(simfl.__file__).parents[1])
    for name in ("PYTHONPATH", *UNSET):
        monkeypatch.setenv(name, str(tmp_path / "strange"))
    return environment()


def test_children_have_no_variables_of_others(strange):
    worker = start_python("tests.core.test_children", stdout=subprocess.PIPE, env={"PYTHONPATH": "stranger"})
    assert json.loads(worker.communicate()[0]) == strange
    with ProcessPoolExecutor(1, SafeSpawn()) as pool:
        assert pool.submit(seen).result() == strange


def test_workers_of_dask_have_no_variables_of_others(strange):
    engine = pytest.importorskip("simfl.learning.backends.dask_engine")
    from simfl.core.scenario_view import RuntimeOptions

    before, kept = dict(os.environ), engine.own_variables()
    client = engine._connect(1, RuntimeOptions())
    try:
        assert client.submit(seen).result() == strange
        client.restart()  # a worker that has died is started again, long after the first
        assert client.submit(seen, pure=False).result() == strange
    finally:
        engine._close(client, "none", kept)
    os.environ.pop("__DASK_PARENT_PID", None)  # Dask's own
    assert dict(os.environ) == before  # though Dask sets its workers' here


def test_a_forecast_waits_for_no_process_that_does_not_start(monkeypatch):
    from simfl.deployment.forecasting import parts

    started = []

    def sleep(module, **pipes):
        started.append(subprocess.Popen(["sleep", "60"], **pipes))
        return started[-1]

    monkeypatch.setattr(parts, "start_python", sleep)
    monkeypatch.setattr(parts, "START_LIMIT_S", 0.2)
    tasks = [parts.PartTask(0, first, first + parts.PART) for first in (0, parts.PART)]
    with pytest.raises(SimflError, match="has not started for"):
        list(parts._simulate(None, tasks, 2, None))
    assert [process.returncode for process in started] == [-9, -9]


def test_what_the_traps_see(trapped):
    """The same folder, where Python does search it."""
    subprocess.run([sys.executable, "-c", "import numpy, simfl"], cwd=trapped, check=False)
    assert {"numpy", "simfl"} <= set(executed(trapped))


def test_modules_that_start_processes_are_known():
    """Each one that names what starts a Python process is among those whose commands are tried above."""
    starts = {"ProcessPoolExecutor", "LocalCluster", "SpawnContext", "get_context", "set_start_method", "SlurmExecutor",
              "start_python", "SafeSpawn", "execv", "execve", "fork"}  # fmt: skip
    found, executable = set(), set()
    for path in Path(simfl.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        if starts & {node.id if isinstance(node, ast.Name) else getattr(node, "attr", None) for node in nodes}:
            found.add(path.stem)
        if any(isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable" for node in nodes):
            executable.add(path.stem)
    assert found - {"children"} == STARTING
    assert executable == {"children"}


if __name__ == "__main__":
    print(json.dumps(seen()))
