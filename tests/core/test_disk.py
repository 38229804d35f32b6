"""Files are written whole, under names of their own, by one process at a time, and never through links."""

import errno
import json
import os
import re
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

import pytest
from click.testing import CliRunner

from simfl.cli import simfl as group
from simfl.core.errors import SimflError
from simfl.core.storage.disk import write_atomically
from simfl.experiments.sweep.task import note_failure
from simfl.results.tables import TableWriter
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.support import forked

TEXT = """
name: small
clients: 9
devices: {computation: 0.1}
selection: {name: random, k: 3}
training: {name: fedavg, rounds: 40}
learning: {name: none, parameters: 10}
"""


@pytest.fixture
def scenario():
    return Scenario.parse(TEXT, "small")


def _write(path, letter):
    for _ in range(40):
        write_atomically(path, letter * 50_000)


def test_many_processes_write_one_file(tmp_path):
    context = get_context("fork")
    writers = [context.Process(target=_write, args=(tmp_path / "a", bytes([65 + i]))) for i in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 8
    data = (tmp_path / "a").read_bytes()
    assert len(data) == 50_000 and len(set(data)) == 1 and os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("played", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["complete", "missing"])
def test_eight_shards_started_at_once_all_succeed(tmp_path, played):
    (tmp_path / "s.yaml").write_text(TEXT)
    seeds = ",".join(map(str, range(8)))
    if played:
        for seed in range(8):
            run(Scenario.load(tmp_path / "s.yaml", [f"seed={seed}"]), tmp_path / "r")

    def shard(i):
        words = ["sweep", "s.yaml", f"seed={seeds}", "--out", "r", "--jobs", "1", "--shard", f"{i + 1}/8"]
        return forked.simfl(*words, cwd=tmp_path)

    with ThreadPoolExecutor(8) as pool:
        ended = list(pool.map(shard, range(8)))
    assert [one.returncode for one in ended] == [0] * 8, [one.stderr for one in ended]
    (index,) = (tmp_path / "r").glob("small/sweep-*/index.csv")
    assert index.read_text().count(",done,") == 8 and not list((tmp_path / "r").rglob("*.tmp"))


@pytest.mark.parametrize("name", [".lock", "rounds.csv.part", "participation.csv.part"])
def test_links_in_a_results_folder_are_not_followed(scenario, tmp_path, name):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    folder = tmp_path / "r" / "small" / scenario.digest
    folder.mkdir(parents=True)
    (folder / name).symlink_to(precious)
    with pytest.raises(SimflError, match="is a link"):
        run(scenario, tmp_path / "r")
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("name", ["", "checkpoint"])
def test_a_folder_that_is_a_link_is_refused_not_emptied(scenario, tmp_path, name):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "0000000001.ckpt").write_text("mine")
    link = tmp_path / "r" / "small" / scenario.digest / name
    link.parent.mkdir(parents=True)
    link.symlink_to(precious)
    for force in (True, False):
        with pytest.raises(SimflError, match="is a link"):
            run(scenario, tmp_path / "r", force=force)
    assert os.listdir(precious) == ["0000000001.ckpt"] and (precious / "0000000001.ckpt").read_text() == "mine"


def test_a_sweep_writes_through_no_link(tmp_path):
    (tmp_path / "s.yaml").write_text(TEXT)
    words = ["sweep", str(tmp_path / "s.yaml"), "seed=0", "--out", str(tmp_path / "r"), "--jobs", "1"]
    run(Scenario.load(tmp_path / "s.yaml"), tmp_path / "r")
    assert CliRunner().invoke(group, words).exit_code == 0
    (folder,) = (tmp_path / "r" / "small").glob("sweep-*")
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in (".lock", ".lock-index"):
        (folder / name).unlink()
        (folder / name).symlink_to(precious)
        ended = CliRunner().invoke(group, words)
        assert ended.exit_code == 2 and ended.stderr.count("\n") == 1 and "is a link" in ended.stderr
        (folder / name).unlink()
    assert precious.read_text() == "mine"


def test_an_interrupted_run_goes_on_by_default(scenario, tmp_path):
    class Stop(Exception):
        pass

    def stop(done, rounds, time_s):
        if done == 25:
            raise Stop

    with pytest.raises(Stop):
        run(scenario, tmp_path / "r", progress=stop)
    seen = []
    again = run(scenario, tmp_path / "r", progress=lambda done, rounds, time_s: seen.append(done))
    assert 1 < seen[0] <= 26 and seen[-1] == 40
    assert again.summary == run(scenario, tmp_path / "calm").summary
    seen.clear()
    run(scenario, tmp_path / "r", force=True, progress=lambda done, rounds, time_s: seen.append(done))
    assert seen[0] == 1


def test_force_leaves_what_is_not_the_runs(scenario, tmp_path):
    folder = run(scenario, tmp_path).path
    (folder / "notes.md").write_text("mine")
    (folder / "figures").mkdir()
    (folder / "rounds.csv.123-abc.tmp").write_text("left by a kill")
    note_failure(folder, "old")
    run(scenario, tmp_path, force=True)
    assert (folder / "notes.md").read_text() == "mine" and (folder / "figures").is_dir()
    assert not (folder / "failed.json").exists() and not list(folder.glob("*.tmp"))


@pytest.mark.parametrize(
    "words", [["report", "-o", "scenario.yaml"], ["plot", "--figure", "cardinality", "-o", "rounds.svg"]]
)
def test_results_are_not_overwritten(scenario, tmp_path, words):
    folder = run(scenario, tmp_path).path
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    ended = CliRunner().invoke(group, [words[0], str(folder), *words[1:-1], str(folder / words[-1])])
    assert ended.exit_code == 2 and "holds results" in ended.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_full_disk_names_the_file_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    table = TableWriter(tmp_path / "rounds.csv", ("a",))
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError) as caught:
        write_atomically(tmp_path / "summary.json", b"{}")
    assert caught.value.filename == str(tmp_path / "summary.json") and not list(tmp_path.glob("*.tmp"))
    with pytest.raises(OSError) as caught:
        table.finish()
    assert caught.value.filename == str(tmp_path / "rounds.csv.part")
    assert not (tmp_path / "summary.json").exists()


def test_a_file_limit_ends_with_one_line(tmp_path):
    """The system's own limit on a file's size, as a full disk would: exit 6, the file's name, nothing half-written."""
    (tmp_path / "s.yaml").write_text(TEXT + "trace: events\n")

    def run_with_a_limit():
        sys.dont_write_bytecode = True  # a compiled module would be cut off there without a word
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
        forked.command("run", "s.yaml")()

    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ended = forked.finish(forked.start(run_with_a_limit, cwd=tmp_path, **pipes))
    assert ended.returncode == 6 and ended.stderr.count("\n") == 1, ended.stderr
    assert re.fullmatch(r"results/small/\w+/\S+: File too large\n", ended.stderr)
    assert not list(tmp_path.rglob("*.tmp")) and not list(tmp_path.rglob("summary.json"))


def test_a_sweep_plays_again_what_is_damaged_and_says_so(tmp_path):
    (tmp_path / "s.yaml").write_text(TEXT)
    done = run(Scenario.load(tmp_path / "s.yaml"), tmp_path / "r")
    before = (done.path / "rounds.csv").read_bytes()
    (done.path / "rounds.csv").write_bytes(before.replace(b"3", b"4", 1))
    words = ["sweep", str(tmp_path / "s.yaml"), "seed=0", "--out", str(tmp_path / "r"), "--jobs", "1", "--json"]
    ended = CliRunner().invoke(group, words)
    assert ended.exit_code == 0 and f"warning: {done.path / 'rounds.csv'}: damaged" in ended.stderr
    assert json.loads(ended.stdout)["done"] == 1 and (done.path / "rounds.csv").read_bytes() == before
