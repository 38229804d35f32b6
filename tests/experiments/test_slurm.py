"""A sweep as a job array: a fake Slurm executes its tasks, and the table is that of the same sweep without it."""

import json
import os
import re
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from simfl.cli import simfl

pytest.importorskip("submitit", reason="needs the extra slurm")

from simfl.api.results_index import check_removable  # noqa: E402
from simfl.experiments.sweep.slurm import _minutes, _parameters  # noqa: E402
from tests.support.fake_slurm import FakeSlurm  # noqa: E402

SMALL = """
name: small
clients: 30
selection: {name: random, k: 6}
training: {name: fedavg, rounds: 4}
learning: {name: none, parameters: 10}
privacy: none
"""


HOLDING = """
name: small
clients: 30
plugins: [holding.py]
selection: {name: holding, k: 6}
training: {name: fedavg, rounds: 4}
learning: {name: none, parameters: 10}
privacy: none
"""

HOLDING_PLUGIN = """
from dataclasses import dataclass
from pathlib import Path
from time import sleep

import numpy as np

from simfl.plugins.selection import POLICIES, DisjointUnits

FOLDER = Path({folder!r})


@POLICIES("holding")
@dataclass(frozen=True)
class Holding:
    k: int

    unit_size = 1
    uniform = True
    sampling = "fixed_size"
    example = {"k": 4}

    def family(self, clients):
        return DisjointUnits(clients, self.k)

    def select(self, view, k, rng):
        while view.round == 60 and not (FOLDER / "released").exists():
            (FOLDER / "holds").touch()
            sleep(0.01)
        return rng.permutation(np.flatnonzero(view.available))[:k, None].astype(np.int32)
"""


def call(*words):
    return CliRunner().invoke(simfl, list(map(str, words)))


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    return FakeSlurm.install(tmp_path, monkeypatch)


def index_of(out):
    (path,) = Path(out).glob("small/sweep-*/index.csv")
    return path.read_bytes()


def end(process):
    said = process.communicate(timeout=120)[0]
    return process.returncode, said


def test_tasks_execute_what_is_left_and_one_that_is_preempted_goes_on(slurm):
    Path("holding.py").write_text(HOLDING_PLUGIN.replace("{folder!r}", repr(str(Path().resolve()))))
    Path("small.yaml").write_text(HOLDING)  # a long run waits in its middle until the task has been preempted
    grid = ["small.yaml", "seed=0,1", "training.rounds=4,100"]
    call("run", "small.yaml", "seed=1", "-q")  # one of them is there already
    sent = call("sweep", *grid, "--jobs", 2, "--tag", "night", "--slurm", "-p cpu --time=2:00:00 --mem 2G")
    assert (sent.exit_code, sent.stdout) == (0, "77\n"), sent.output
    assert sent.stderr == "submitted array 77: 2 tasks for 3 runs\n"
    script = slurm.script(77)
    for line in ("array=0-1%2", "partition=cpu", "time=120", "mem=2G", "requeue", "job-name=simfl-small"):
        assert f"\n#SBATCH --{line}\n" in script

    first = slurm.start(77, 0)
    slurm.preempt(0, signal.SIGUSR1, Path("holds").exists)
    code, said = end(first)
    Path("released").touch()
    assert code != 0 and slurm.requeued() == ["77_0"], said
    (stopped,) = Path().glob("results/small/*/checkpoint")
    assert not (stopped.parent / "summary.json").exists() and not list(Path().glob("results/*/*/failed.json"))

    for task in (1, 0):  # the second as Slurm begins it again
        code, said = end(slurm.start(77, task))
        assert code == 0, said
    assert len(list(Path().glob("results/small/*/summary.json"))) == 4
    tagged = json.loads(call("ls", "--json", "--tag", "night").stdout)
    assert sorted(entry["kind"] for entry in tagged) == ["run"] * 4 + ["sweep"]

    again = call("sweep", *grid, "--slurm", "-p cpu")
    assert again.exit_code == 0 and again.stdout.endswith("index.csv\n") and slurm.jobs == [77]
    call("sweep", *grid, "--out", "plain", "-q", "--jobs", 1)
    assert index_of("results") == index_of("plain")


def test_an_array_is_not_submitted_twice_and_a_later_one_has_what_is_left(slurm):
    sent = call("sweep", "small.yaml", "seed=0:9:1", "--slurm", "", "--jobs", 4)
    assert sent.stderr == "submitted array 77: 4 tasks for 10 runs\n"
    (slurm.spool / "queue").write_text("77_2\n77_3\n")
    busy = call("sweep", "small.yaml", "seed=0:9:1", "--slurm", "", "--jobs", 4, "--json")
    assert busy.exit_code == 0 and slurm.jobs == [77]
    assert json.loads(busy.stdout).items() >= {"job": "77", "tasks": 2, "runs": None}.items()
    (slurm.spool / "queue").write_text("")  # Slurm no longer knows it
    call("sweep", "small.yaml", "seed=0:6:1", "-q")
    left = call("sweep", "small.yaml", "seed=0:9:1", "--slurm", "", "--jobs", 8)
    assert left.stderr == "submitted array 78: 3 tasks for 3 runs\n" and "array=0-2%3" in slurm.script(78)


def test_runs_are_divided_among_the_tasks_each_once(slurm, tmp_path):
    from submitit.core.utils import DelayedSubmission

    call("sweep", "small.yaml", "seed=0:6:1", "--slurm", "--cpus-per-task=2", "--jobs", 3)
    parts = [DelayedSubmission.load(path).function for path in tmp_path.glob("results/small/sweep-*/slurm/*.pkl")]
    shares = [set(part.how.only) for part in parts]
    assert sorted(map(len, shares)) == [2, 2, 3] and len(set.union(*shares)) == 7
    assert len({part.how.lock for part in parts}) == 3
    assert parts[0].checkpoint().function == parts[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--array=3", "--slurm: --array is not for a sweep: --jobs says how many tasks the array has"),
        ("--time=soon", "--slurm: --time=soon: write minutes, H:MM:SS or D-HH:MM:SS"),
        ("cpu", "--slurm: 'cpu' is no option of sbatch; e.g. --partition=cpu --time=4:00:00"),
        ("-Z 3", "--slurm: -Z: write the option with its long name, --name=value"),
        ("--mem='2G", '--slurm "--mem=\'2G": No closing quotation'),
    ],
)
def test_wrong_options_are_one_line_and_nothing_is_submitted(slurm, options, message):
    done = call("sweep", "small.yaml", "seed=0,1", "--slurm", options)
    assert (done.exit_code, done.stderr) == (2, message + "\n")
    assert not slurm.jobs and not Path("results").exists()


def test_what_slurm_refuses_is_one_line(slurm, monkeypatch):
    (slurm.spool / "refuses").write_text("")
    done = call("sweep", "small.yaml", "seed=0,1", "--slurm", "-p gpu")
    assert done.exit_code == 2 and done.stderr.endswith("--slurm: sbatch: error: invalid partition specified: gpu\n")
    monkeypatch.setenv("PATH", "/nowhere")
    done = call("sweep", "small.yaml", "seed=0,1", "--slurm", "-p gpu")
    assert done.exit_code == 2 and "srun" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("time", "minutes"),
    [("90", 90), ("90:01", 91), ("1:30:00", 90), ("1-12", 36 * 60), ("1-12:30", 36 * 60 + 30), ("0-0:0:1", 1)],
)
def test_time_limits_as_sbatch_reads_them(time, minutes):
    """The forms of ``man sbatch``: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S."""
    assert _minutes(time) == minutes


def test_options_with_and_without_values():
    assert _parameters("-c4 --exclusive --gres=gpu:1 -A lab --mail-type END") == {
        "cpus-per-task": "4", "exclusive": True, "gres": "gpu:1", "account": "lab", "mail-type": "END",
    }  # fmt: skip


def test_submitit_is_named_where_it_is_missing(slurm, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "submitit", None)
    done = call("sweep", "small.yaml", "seed=0,1", "--slurm", "")
    assert done.exit_code == 5 and re.search(r'pip install "simfl\[slurm\]"', done.stderr)


def test_a_sweep_whose_array_is_only_queued_is_not_removed(slurm, monkeypatch):
    call("sweep", "small.yaml", "seed=0:9:1", "--slurm", "", "--jobs", 4)
    (folder,) = Path("results/small").glob("sweep-*")
    single = call("run", "small.yaml", "seed=20", "-q").stdout.strip()
    (slurm.spool / "queue").write_text("77_0\n77_1\n77_2\n77_3\n")
    done = call("ls", "rm", single, folder, "-y")
    assert done.exit_code == 2 and Path(single, "summary.json").exists() and (folder / "sweep.yaml").exists()
    text = f"{folder.resolve()}: 4 tasks of it are queued or running in Slurm; stop them with: scancel 77\n"
    assert done.output == text
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if not part.endswith("slurm-bin"))
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("PATH", path)  # copied to a machine without Slurm
        check_removable(folder, Path("results"))
    (slurm.spool / "queue").write_text("")
    assert call("ls", "rm", single, folder, "-y").exit_code == 0 and not folder.exists()
