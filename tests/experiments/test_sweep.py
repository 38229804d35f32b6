"""Sweeps whose workers die, hang and meet bad members, in one process or many: always the same index, byte for byte."""

import csv
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import simfl
from simfl.cli import simfl as group
from simfl.core.errors import BusyError, MissingError, SimflError
from simfl.core.http.bounded_server import check_scheduler
from simfl.experiments.sweep import processes, worker_process
from simfl.experiments.sweep.execution import How, execute
from simfl.experiments.sweep.plan import plan_sweep
from simfl.experiments.sweep.task import note_failure
from tests.support.slot_here import SlotHere
from tests.support.swept_axes import axes, axes_of

HERE = Path(__file__).resolve().parents[2]

TINY = """
name: tiny
clients: 30
devices: {availability: {name: bernoulli, dropout: 0.3}}
selection: {name: random, k: 6}
training: {name: fedavg, rounds: 4}
learning: {name: none, parameters: 1000}
privacy: none
"""

GRID = {"selection": ["random", "batch_partition:T=3,mode=fair"], "selection.k": [3, 6]}

PLUGIN = """
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from simfl.plugins.devices import AVAILABILITY
from simfl.devices.random_availability import Bernoulli, IndependentDropout
from simfl.plugins import ScenarioError

class Held(IndependentDropout):
    def draw(self, round, now_s):
        while round == 50 and Path(__file__).with_name("hold").exists():
            time.sleep(0.02)
        return super().draw(round, now_s)

@AVAILABILITY("faulty")
@dataclass(frozen=True)
class Faulty:
    '''As often as number / 100; never answers at 13, cannot be built at 17; waits where a file says hold.'''
    number: int

    def build(self, scenario, streams, names=None):
        if self.number == 13:
            open(f"{__file__}.hung-{os.getpid()}", "w").close()
            threading.Event().wait()
        if self.number == 17:
            raise ScenarioError("number", "is 17")
        return Held(**vars(Bernoulli(self.number / 100).build(scenario, streams, names)))
"""


@pytest.fixture
def tiny(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    return tmp_path / "tiny.yaml"


@pytest.fixture
def faulty(tmp_path):
    folder = installed(tmp_path / "installed")
    yield folder
    (folder / "hold").unlink(missing_ok=True)  # what a failed test leaves behind may end


def installed(folder):
    """Makes a folder for PYTHONPATH with an installed plugin that hangs and fails on demand."""
    (folder / "faulty-1.dist-info").mkdir(parents=True)
    (folder / "faulty_plugin.py").write_text(PLUGIN)
    (folder / "faulty-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1\n")
    (folder / "faulty-1.dist-info" / "entry_points.txt").write_text("[simfl.availability]\nfaulty = faulty_plugin\n")
    return folder


def start(*arguments, path=()):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [HERE, *path])), "COLUMNS": "200"}
    return subprocess.Popen([sys.executable, "-m", "simfl", *map(str, arguments)], env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip


def workers(parent):
    """Process ids of the workers that a process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            if (
                int(stat[1]) == parent
                and stat[0] != "Z"
                and b"simfl.experiments.sweep.worker" in (entry / "cmdline").read_bytes()
            ):
                found.append(int(entry.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def index_of(out, name="tiny"):
    (path,) = (Path(out) / name).glob("sweep-*/index.csv")
    return path


def done(out, name="tiny"):
    return len(list((Path(out) / name).glob("*/summary.json")))


def disturbed_sweep(tmp_path, faulty, numbers, replications, kills, limit_s):
    """The same faulty sweep twice at once, in one of them a worker stalls and others are killed."""
    grid = ["devices.availability=" + ",".join(f"faulty:number={number}" for number in numbers)]
    options = ["--replications", replications, "--jobs", 2, "--time-limit-s", limit_s]
    calm, beset = (
        start("sweep", tmp_path / "tiny.yaml", *grid, *options, "--out", tmp_path / name, path=[faulty])
        for name in ("calm", "beset")
    )
    rng = np.random.default_rng(0)
    killed, seen, spacing = set(), 0, 3
    while beset.poll() is None and len(killed) < kills:
        now = done(tmp_path / "beset")
        hung = {int(path.name.rpartition("-")[2]) for path in faulty.glob("*.hung-*")}  # they end by the time limit
        fresh = [worker for worker in workers(beset.pid) if worker not in killed | hung]
        if now >= seen + spacing and fresh:  # what was killed is being played again by now
            victim = int(rng.choice(fresh))
            os.kill(victim, signal.SIGKILL if killed else signal.SIGSTOP)  # the first one only stalls
            killed.add(victim)
            seen = now
        time.sleep(0.05)
    ends = [process.communicate() for process in (calm, beset)]
    assert (calm.returncode, beset.returncode) == (3, 3), ends
    assert len(killed) == kills
    for name in ("calm", "beset"):
        files = (tmp_path / name).glob("tiny/*/*")
        whole = [path.parent for path in files if path.name in ("summary.json", "index.csv")]
        assert len(whole) > 20 and not [path for folder in whole for path in folder.glob("*.tmp")]
    first, second = (index_of(tmp_path / name).read_bytes() for name in ("calm", "beset"))
    assert first == second
    return rows(index_of(tmp_path / "calm")), ends[0]


def test_killed_and_stalled_workers_a_hung_run_and_a_bad_one_leave_the_same_index(tiny, tmp_path, faulty):
    found, (stdout, stderr) = disturbed_sweep(tmp_path, faulty, [*range(10, 18), *range(20, 36)], 1, kills=3, limit_s=5)
    assert len(found) == 24
    failed = {row["devices.availability"]: row["error"] for row in found if row["status"] == "failed"}
    assert failed == {
        "faulty:number=13": "passed the time limit of 5 s 2 times",
        "faulty:number=17": "devices.availability.number: is 17",
    }
    assert sum(row["status"] == "done" for row in found) == 22
    assert "22 done, 2 failed, 0 open" in stderr and "faulty:number=17 seed=0: devices" in stderr
    assert Path(stdout.strip()) == index_of(tmp_path / "calm")


@pytest.mark.slow
def test_two_hundred_runs_with_ten_workers_killed(tiny, tmp_path, faulty):
    found, _ = disturbed_sweep(tmp_path, faulty, [*range(10, 60)], 4, kills=10, limit_s=6)
    assert len(found) == 200 and sum(row["status"] == "failed" for row in found) == 8


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Twelve runs, one after another."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "tiny.yaml").write_text(TINY)
    return simfl.sweep(folder / "tiny.yaml", GRID, replications=3, out=folder, jobs=1)


def test_two_jobs_and_merged_shards_write_the_same_index_as_one_job(swept, tiny, tmp_path, monkeypatch):
    one = (swept.path / "index.csv").read_bytes()

    def index(out, **how):
        return simfl.sweep(tiny, GRID, replications=3, out=tmp_path / out, **how).path / "index.csv"

    assert list(swept.runs.status) == ["done"] * 12
    two = index("two", jobs=2).read_bytes()
    assert two == one
    monkeypatch.setattr(processes, "Slot", SlotHere)  # who executes the runs of a shard has been compared
    for shard in (1, 2):  # on machines of their own: the folders are copied together
        part = index(f"shard{shard}", shard=(shard, 3), jobs=1)
        states = [row["status"] for row in rows(part)]
        assert states == ["done" if i % 3 == shard - 1 else "open" for i in range(12)]
        shutil.copytree(tmp_path / f"shard{shard}", tmp_path / "merged", dirs_exist_ok=True)
    last = index("merged", shard=(3, 3), jobs=1)  # into one folder: the last shard completes the index
    assert last.read_bytes() == one and index("merged").read_bytes() == one


def test_the_index_repeats_what_the_runs_say(swept):
    assert len(swept.runs) == len(list(swept.results())) == 12
    for row in swept.runs.to_dict("records"):
        result = swept.result(row["digest"])
        assert result.scenario.selection.name == row["selection"].partition(":")[0]
        assert (result.scenario.selection.k, result.scenario.seed) == (row["selection.k"], row["seed"])
        assert result.scenario.digest == row["digest"]
        for name in ("mean_cardinality", "fairness_gap", "bytes_up", "time_s", "expected_cardinality"):
            assert row[name] == result.summary[name]


def test_finished_runs_are_kept_failed_ones_are_retried_when_asked(tiny, tmp_path):
    swept = simfl.sweep(tiny, {"seed": [0, 1]}, out=tmp_path / "r", jobs=1)
    runs, index = swept.path.parent, swept.path / "index.csv"
    before = index.read_bytes()
    digests = list(swept.runs.digest)
    times = {path: path.stat().st_mtime_ns for path in runs.glob("*/summary.json")}
    # a failure on record is kept, though the run would work
    shutil.rmtree(runs / digests[0])
    note_failure(runs / digests[0], "out of memory")
    runner = CliRunner()
    arguments = ["sweep", str(tiny), "seed=0,1", "--jobs", "1", "--out", str(tmp_path / "r")]
    ended = runner.invoke(group, arguments)
    assert ended.exit_code == 3 and "failed: seed=0: out of memory" in ended.stderr, ended.output
    assert [row["error"] for row in rows(index)] == ["out of memory", ""]
    # a damaged summary is no complete run
    (runs / digests[1] / "summary.json").write_text('{"digest": "')
    ended = runner.invoke(group, [*arguments, "--retry-failed", "--json"])
    assert ended.exit_code == 0, ended.output
    document = json.loads(ended.stdout)
    assert (document["done"], document["failed"]) == (2, 0) and [run["seed"] for run in document["runs"]] == [0, 1]
    assert index.read_bytes() == before and not list(runs.glob("*/failed.json"))
    untouched = {path: path.stat().st_mtime_ns for path in runs.glob("*/summary.json")}
    simfl.sweep(tiny, {"seed": [0, 1]}, out=tmp_path / "r")
    assert {path: path.stat().st_mtime_ns for path in runs.glob("*/summary.json")} == untouched
    assert untouched.keys() == times.keys()


def held(tiny, folder, faulty, *options):
    """Two runs that both begin and, as long as the file that comes with the process exists, do not end."""
    grid = ("devices.availability=faulty:number=30", "training.rounds=100,101")
    hold = faulty / "hold"
    hold.touch()
    return start("sweep", tiny, *grid, "--jobs", 2, *options, "--out", folder, path=[faulty]), hold


def test_ctrl_c_ends_the_children_and_the_same_command_goes_on(tiny, tmp_path, faulty):
    process, hold = held(tiny, tmp_path / "r", faulty)
    until(lambda: len({path.parent for path in (tmp_path / "r" / "tiny").glob("*/checkpoint/*.ckpt")}) == 2)
    children = workers(process.pid)
    assert len(children) == 2
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    _, stderr = process.communicate()
    assert time.monotonic() - begin < 5
    assert process.returncode == 130
    again = "devices.availability=faulty:number=30 training.rounds=100,101 --jobs 2"
    assert f"to continue: simfl sweep {tiny} {again} --out {tmp_path / 'r'}" in stderr
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert {row["status"] for row in rows(index_of(tmp_path / "r"))} == {"open"}
    assert not list(index_of(tmp_path / "r").parent.glob("*.tmp")) and not done(tmp_path / "r")
    resumed, calm = (held(tiny, tmp_path / name, faulty)[0] for name in ("r", "calm"))
    hold.unlink()
    for process in (resumed, calm):
        _, stderr = process.communicate()
        assert process.returncode == 0, stderr
    index = index_of(tmp_path / "calm")
    assert index_of(tmp_path / "r").read_bytes() == index.read_bytes()
    assert len(rows(index)) == 2
    for row in rows(index):
        once, twice = (tmp_path / name / "tiny" / row["digest"] for name in ("calm", "r"))
        for table in ("rounds.csv", "participation.csv"):
            assert (once / table).read_bytes() == (twice / table).read_bytes()


def test_a_sweep_is_not_played_twice_at_once_and_no_worker_outlives_it(tiny, tmp_path):
    process = start("sweep", tiny, "training.rounds=1000000000", "--out", tmp_path)
    until(lambda: list(tmp_path.glob("tiny/*/rounds.csv.part")))
    with pytest.raises(BusyError, match="another process is running this sweep"):
        simfl.sweep(tiny, {"training.rounds": 1000000000}, out=tmp_path)
    (child,) = workers(process.pid)
    process.kill()
    process.communicate()
    until(lambda: not Path(f"/proc/{child}").exists(), 5)


def test_a_run_that_another_process_plays_is_waited_for(tiny, tmp_path):
    (member,) = plan_sweep(tiny, axes(["seed=3"])).members
    folder = tmp_path / "tiny" / member.digest
    folder.mkdir(parents=True)
    swept = threading.Thread(target=simfl.sweep, args=(tiny, {"seed": 3}), kwargs={"out": tmp_path})
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        swept.start()
        swept.join(2.5)
        assert swept.is_alive() and not (folder / "summary.json").exists()
    swept.join(30)
    assert (folder / "summary.json").exists() and not (folder / "failed.json").exists()


def test_workers_have_one_thread_and_what_they_print_is_no_result(tiny, tmp_path, faulty):
    """The plugin prints at import and leaves its environment behind."""
    (faulty / "faulty_plugin.py").write_text(
        "import os\nprint('noise on stdout')\n"
        f"open({str(tmp_path / 'seen')!r}, 'a').write(os.environ.get('OMP_NUM_THREADS', 'unset') + ' ')\n" + PLUGIN
    )
    process = start("sweep", tiny, "devices.availability=faulty:number=20", "--out", tmp_path / "r", path=[faulty])
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert stdout.splitlines()[-1].endswith("index.csv")
    assert (tmp_path / "seen").read_text().split()[-1] == "1"


def test_nothing_runs_before_every_member_is_valid(tiny, tmp_path):
    ended = CliRunner().invoke(group, ["sweep", str(tiny), "selection.k=6,31", "--out", str(tmp_path / "r")])
    assert ended.exit_code == 2 and "member selection.k=31" in ended.stderr and not (tmp_path / "r").exists()
    for options in (["--shard", "0/2"], ["--shard", "3/2"], ["--shard", "2"], ["--scheduler", "127.0.0.1:1"],
                    ["--jobs", "0"], ["--time-limit-s", "0"]):  # fmt: skip
        assert CliRunner().invoke(group, ["sweep", str(tiny), "seed=1", *options]).exit_code == 2, options


def test_workers_that_do_not_start_are_no_fault_of_the_runs(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(SimflError, match="no worker process starts: exit status 1; 2 runs are left open, and the same"):
        simfl.sweep(tiny, {"seed": [0, 1]}, out=tmp_path, jobs=2)
    assert {row["status"] for row in rows(index_of(tmp_path))} == {"open"}


@pytest.mark.parametrize("start", [1, 2], ids=["its first", "its second, after its run's process died"])
def test_a_worker_that_does_not_start_leaves_its_run_to_the_others(tiny, tmp_path, monkeypatch, capsys, start):
    """Of two jobs one never gets a worker (again): the sweep goes on with one, and says so; nothing is lost."""
    begin, starts, unlucky = worker_process.Slot._start, Counter(), []

    def started(self):
        unlucky.append(self) if not unlucky else None
        starts[self] += 1
        if self is unlucky[0] and starts[self] >= start:
            raise worker_process.NoWorker("no worker process starts: exit status 1")
        worker = begin(self)
        if self is unlucky[0]:
            worker.kill()
        return worker

    monkeypatch.setattr(worker_process.Slot, "_start", started)
    seen = []
    plan = plan_sweep(tiny, axes_of({"seed": [0, 1, 2, 3]}))
    index = execute(plan, tmp_path, tmp_path / "tiny" / "sweep-0", How(jobs=2), seen.append)
    assert [index.status(member.digest) for member in plan.members] == ["done"] * 4
    assert capsys.readouterr().err.count("warning: no worker process starts: exit status 1; continuing with 1") == 1
    assert (seen[-1].done, seen[-1].running, seen[-1].left) == (4, 0, 0) and all(now.running <= 2 for now in seen)
    assert starts[unlucky[0]] == start and len(starts) == 2


def test_how_is_checked_for_python_too():
    for wrong in (
        {"jobs": 0},
        {"time_limit_s": 0.0},
        {"time_limit_s": float("inf")},
        {"time_limit_s": float("nan")},
        {"shard": (3, 2)},
        {"engine": "ray"},
        {"scheduler": "x"},
    ):
        with pytest.raises(SimflError):
            How(**wrong)


# -- dask ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address", ["tcp://10.0.0.1:8786", "10.0.0.1:8786", "tcp://node7:8786", "ucx://127.0.0.1:1", "tcp://[2001:db8::1]:8786",
                "tcp://127.0.0.1.example.org:1", "0.0.0.0:8786"]  # fmt: skip
)  # fmt: skip
def test_a_scheduler_elsewhere_is_refused_without_tls(address):
    with pytest.raises(SimflError, match="tls://"):
        check_scheduler(address)
    check_scheduler(address, insecure=True)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "localhost:8786", "tcp://[::1]:8786", "tls://node7:8786"])
def test_a_scheduler_here_or_with_tls_is_accepted(address):
    check_scheduler(address)


def test_without_dask_the_extra_is_named(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    ended = CliRunner().invoke(group, ["sweep", str(tiny), "seed=1", "--engine", "dask", "--out", str(tmp_path)])
    assert ended.exit_code == MissingError.exit_code == 5 and 'pip install "simfl[cluster]"' in ended.stderr


def listening(process):
    """Local addresses, in the kernel's hexadecimal, on which a process accepts connections."""
    sockets = set()
    for fd in Path("/proc", str(process), "fd").iterdir():
        with suppress(FileNotFoundError):
            sockets.add(os.readlink(fd))
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return {cells[1].partition(":")[0] for cells in lines if cells[3] == "0A" and f"socket:[{cells[9]}]" in sockets}


def test_dask_writes_the_same_index_and_listens_to_nobody_else(tiny, tmp_path, faulty):
    pytest.importorskip("distributed")
    dask, hold = held(tiny, tmp_path / "dask", faulty, "--engine", "dask")
    until(lambda: len(workers(dask.pid)) == 2)
    assert listening(dask.pid) == {"0100007F"}
    calm, _ = held(tiny, tmp_path / "here", faulty)
    hold.unlink()
    for process in (dask, calm):
        _, stderr = process.communicate()
        assert process.returncode == 0, stderr
    assert index_of(tmp_path / "dask").read_bytes() == index_of(tmp_path / "here").read_bytes()


@pytest.mark.slow
def test_a_dask_cluster_whose_workers_die_writes_the_same_index(tiny, tmp_path):
    pytest.importorskip("distributed")
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    ready = tmp_path / "scheduler.json"
    here = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(ready)]

    def dask(*arguments):
        command = [sys.executable, "-m", "dask", *arguments]
        return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)

    cluster = [dask("scheduler", "--port", "0", *here)]
    try:
        until(ready.exists)
        cluster += [dask("worker", "--nthreads", "1", *here) for _ in range(2)]
        address = json.loads(ready.read_text())["address"]
        grid = "training.rounds=" + ",".join(map(str, range(300, 312)))
        process = start("sweep", tiny, grid, "--engine", "dask", "--scheduler", address, "--out", tmp_path / "dask")
        until(lambda: done(tmp_path / "dask") >= 2)
        os.killpg(cluster[1].pid, signal.SIGKILL)  # a machine lost, with all that ran on it
        _, stderr = process.communicate()
        assert process.returncode == 0, stderr
    finally:
        for member in cluster:
            os.killpg(member.pid, signal.SIGKILL)
            member.wait()
    calm = simfl.sweep(tiny, {"training.rounds": range(300, 312)}, out=tmp_path / "calm")
    assert index_of(tmp_path / "dask").read_bytes() == (calm.path / "index.csv").read_bytes()


def test_tls_without_certificates_is_one_line(tiny, tmp_path):
    pytest.importorskip("distributed")
    address = ["--engine", "dask", "--scheduler", "tls://127.0.0.1:1"]
    ended = CliRunner().invoke(group, ["sweep", str(tiny), "seed=1", *address, "--out", str(tmp_path)])
    assert ended.exit_code == 2 and "TLS needs certificates" in ended.output


@pytest.mark.slow
def test_a_lost_scheduler_is_one_line(tiny, tmp_path):
    """Dask itself takes 20 s to give up."""
    pytest.importorskip("distributed")
    here = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(tmp_path / "here.json")]
    scheduler = subprocess.Popen([sys.executable, "-m", "dask", "scheduler", *here], stderr=subprocess.DEVNULL)
    try:
        while not (tmp_path / "here.json").exists():
            time.sleep(0.1)
        address = json.loads((tmp_path / "here.json").read_text())["address"]
        process = start("sweep", tiny, "seed=1,2", "--engine", "dask", "--scheduler", address, "--out", tmp_path / "o")
        time.sleep(8)  # no worker will ever come
        scheduler.kill()
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 2 and b"the connection was lost" in stderr.encode()
    finally:
        scheduler.kill()
