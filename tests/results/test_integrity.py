"""Nothing on disk is believed unchecked: finished runs, the cache of decoded data."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from simfl.api.result_objects import Result
from simfl.cli import simfl as group
from simfl.core.errors import IntegrityError, SimflError
from simfl.core.storage.data_folder import bypass_cache, load_cached
from simfl.core.storage.disk import sha256
from simfl.deployment.audit.reading import read
from simfl.report.live.watched_folder import WatchedFolder
from simfl.report.study import Run
from simfl.results.file_names import OWN
from simfl.results.folder import ResultsFolder
from simfl.results.sealed_files import seal_document, write_sealed
from simfl.runs.run import run, verify
from simfl.scenario import Scenario
from tests.support.damages import copied, damaged, reseal

TEXT = """
name: small
clients: 9
devices: {availability: {name: bernoulli, dropout: 0.2}}
selection: {name: random, k: 3}
training: {name: fedavg, rounds: 6}
learning: {name: none, parameters: 10}
trace: events
"""
HOME = {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
TABLES = ("rounds.csv", "participation.csv", "clients.csv", "latency.csv", "events.jsonl", "scenario.yaml")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two finished runs that differ in their seed."""
    out = tmp_path_factory.mktemp("runs")
    return [run(Scenario.parse(TEXT, "small", [f"seed={seed}"]), out).path for seed in (0, 1)]


def everything(folder):
    """What each reader makes of a folder: plain data, or the error."""
    opened, told = Result.open, Run.open
    readers = {
        "run": lambda: run(Scenario.parse(TEXT, "small", ["seed=0"]), folder.parent.parent).summary,
        "open": lambda: (found := opened(folder)).rounds.to_csv() + str(found.participation.toarray().tolist()),
        "report": lambda: (
            (found := told(folder)).rounds.to_csv()
            + found.text
            + found.clients_table.to_csv()
            + found.latency.to_csv()
            + found.events.read_text()
            + str(found.participation.toarray().tolist())
        ),
        "audit": lambda: read(folder).matrix.toarray().tolist(),
        "watch": lambda: [(r["state"], r["accuracy"], r["time_s"]) for r in WatchedFolder(folder).look()["runs"]],
    }
    found = {}
    for name, reader in readers.items():
        try:
            found[name] = reader()
        except SimflError as error:
            found[name] = error
    return found


def test_no_damage_is_believed(runs, tmp_path):
    """80 random damages: whoever reads what is damaged says so; whoever does not read it says what was true."""
    rng = np.random.default_rng(11)
    truth = everything(runs[0])
    assert not any(isinstance(value, SimflError) for value in truth.values())
    seen = 0
    for _ in range(80):
        folder = copied(runs[0], tmp_path / "r" / "small" / runs[0].name)
        if (what := damaged(folder, runs[1], rng)) is None or what[0].name == "machine.json":
            continue
        for reader, value in everything(folder).items():
            refused = isinstance(value, SimflError) or reader == "watch" and value[0][0] in ("failed", "waiting")
            assert refused or value == truth[reader] or what == (folder / "summary.json", "remove"), (what, reader)
            if isinstance(value, IntegrityError):
                seen += 1
                other = what == (folder / "summary.json", "swap")  # a summary that is sound: then all else differs
                assert value.exit_code == 4 and (other or str(what[0]) in str(value))
    assert seen > 40


@pytest.mark.parametrize("name", TABLES)
def test_every_reader_names_the_damaged_file(runs, tmp_path, name):
    folder = copied(runs[0], tmp_path / "r" / "small" / runs[0].name)
    (folder / name).write_bytes((folder / name).read_bytes()[:-3] + b"9\n")
    readers = {
        "rounds.csv": {"report", "audit", "export", "verify", "run"},
        "participation.csv": {"report", "audit", "export", "verify", "run"},
        "scenario.yaml": {"report", "verify", "run"},
    }.get(name, {"verify", "run"})
    (tmp_path / "s.yaml").write_text(TEXT)
    commands = {
        "report": ["report", folder],
        "audit": ["audit", folder],
        "export": ["export", folder, "--parquet", "--out", tmp_path / "x"],
        "verify": ["run", "--verify", folder],
        "run": ["run", tmp_path / "s.yaml", "--out", tmp_path / "r"],
    }
    for reader in readers - ({"audit"} if name == "rounds.csv" else set()):
        ended = CliRunner().invoke(group, [str(word) for word in commands[reader]])
        assert ended.exit_code == 4 and f"{folder / name}: damaged" in ended.stderr, (reader, ended.output)


def test_verify_is_not_fooled_by_a_consistent_forgery(runs, tmp_path):
    def forged(change):
        folder = copied(runs[0], tmp_path / "small" / runs[0].name)
        change(folder)
        return {name for name, same in verify(folder).items() if not same}

    assert forged(lambda folder: None) == set()
    assert forged(lambda folder: reseal(folder, mean_cardinality=3.5)) == {"summary.json"}

    def rounds(folder):
        text = (folder / "rounds.csv").read_text()
        (folder / "rounds.csv").write_text(text.replace(",3,", ",4,", 1))
        reseal(folder)

    def unnamed(folder):
        rounds(folder)
        document = json.loads((folder / "summary.json").read_bytes())
        files = {k: v for k, v in document.pop("sha256").items() if k not in ("rounds.csv", "summary.json")}
        (folder / "summary.json").write_bytes(seal_document(document, files)[1])

    def scenario(folder):
        (folder / "scenario.yaml").write_text("# mine\n" + (folder / "scenario.yaml").read_text())
        reseal(folder)

    assert forged(rounds) == forged(unnamed) == {"rounds.csv"}
    assert forged(scenario) == {"scenario.yaml"}
    assert forged(lambda folder: (folder / "jobs.csv").write_text("job\n")) == {"jobs.csv"}


def test_verify_takes_several_folders(runs, tmp_path):
    bad = copied(runs[1], tmp_path / "small" / runs[1].name)
    (bad / "rounds.csv").write_text("damaged")
    ended = CliRunner().invoke(group, ["run", "--verify", str(bad), str(runs[0])])
    assert ended.exit_code == 4 and f"{bad / 'rounds.csv'}: damaged" in ended.stderr
    assert f"{runs[0]}: verified" in ended.stdout
    ended = CliRunner().invoke(group, ["run", "--verify", str(runs[0]), str(runs[1]), "--json"])
    assert ended.exit_code == 0 and [one["identical"] for one in json.loads(ended.stdout)] == [True, True]


def test_another_run_in_the_folder_is_not_taken_for_this_one(runs, tmp_path):
    folder = copied(runs[1], tmp_path / "small" / runs[0].name)
    with pytest.raises(IntegrityError, match="summary.json: of another run"):
        run(Scenario.parse(TEXT, "small", ["seed=0"]), tmp_path)
    again = run(Scenario.parse(TEXT, "small", ["seed=0"]), tmp_path, force=True)
    assert again.path == folder and (folder / "rounds.csv").read_bytes() == (runs[0] / "rounds.csv").read_bytes()


def test_what_a_run_writes_is_its_own(runs):
    """Else ``--force`` would leave old files, and ``report -o`` could overwrite new ones."""
    for folder in runs:
        assert {path.name for path in folder.iterdir()} - {".lock"} <= set(OWN)
        assert ResultsFolder.open(folder).files.keys() == {p.name for p in folder.iterdir()} - {
            ".lock", "machine.json", "summary.json"}  # fmt: skip


def test_the_cache_is_checked_and_verify_goes_round_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMFL_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(80, 4)).astype(np.float32), rng.integers(0, 3, 80)
    np.savez(tmp_path / "d.npz", x_train=x[:60], y_train=y[:60], x_test=x[60:], y_test=y[60:])
    text = (
        "name: c\nclients: 3\nselection: {name: random, k: 2}\ntraining: {name: fedavg, rounds: 2}\n"
        "learning: {data: {name: npz, path: d.npz}, model: logistic}\n"
    )
    (tmp_path / "c.yaml").write_text(text)
    scenario = Scenario.load(tmp_path / "c.yaml")
    true = run(scenario, tmp_path / "true")
    (entry,) = (tmp_path / "cache").iterdir()
    labels = entry / "y_train.npy"
    shifted = (np.load(labels) + 1) % 3

    np.save(labels, shifted)  # damage: decoded again
    assert run(scenario, tmp_path / "again").summary == true.summary
    np.save(labels, shifted)  # a forgery that knows how: believed by runs, not by verify
    document = json.loads((entry / "complete").read_text())
    (entry / "complete").write_text(json.dumps(document | {"y_train": sha256(labels)}))
    forged = run(scenario, tmp_path / "forged")
    assert forged.summary != true.summary
    assert not all(verify(forged.path).values()) and all(verify(true.path).values())


def test_no_damage_to_the_cache_is_believed(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMFL_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(5)

    def decode():
        return {"x": np.arange(5000, dtype=np.float32), "y": np.arange(5000) % 7}

    def other():
        return {"x": np.zeros(5000, dtype=np.float32), "y": np.zeros(5000, dtype=np.int64)}

    load_cached("other v1", [], other)
    (twin,) = (tmp_path / "cache").iterdir()
    load_cached("some v1", [], decode)
    entry = next(path for path in (tmp_path / "cache").iterdir() if path != twin)
    whole = shutil.copytree(entry, tmp_path / "whole")
    for _ in range(30):
        what = damaged(copied(whole, entry), twin, rng)
        found = load_cached("some v1", [], decode)
        assert all((found[name] == value).all() for name, value in decode().items()), what
    with bypass_cache():
        assert load_cached("some v1", [], other)["y"].sum() == 0


PLUGIN = """
import numpy as np
from dataclasses import dataclass
from simfl.plugins.selection import POLICIES

@POLICIES("picky_NAME")
@dataclass(frozen=True)
class Picky:
    k: int = 2
    unit_size = 1

    def select(self, view, k, rng):
        return np.arange(k, dtype=np.int32).reshape(-1, 1) + FIRST
"""


@pytest.mark.parametrize("told", [True, False])
def test_verify_names_the_file_that_has_changed_since(tmp_path, told):
    """A plugin is edited, a data file is not; ``machine.json`` of older runs does not tell which."""
    name = f"{told}".lower()
    (tmp_path / "picky.py").write_text(PLUGIN.replace("NAME", name).replace("FIRST", "0"))
    (tmp_path / "times.csv").write_text("seconds\n1\n2\n")
    text = f"""
    clients: 6
    selection: picky_{name}
    devices: {{computation: {{name: trace, path: times.csv}}}}
    training: {{name: fedavg, rounds: 3}}
    learning: none
    plugins: [picky.py]
    """
    (tmp_path / "s.yaml").write_text(text)
    command = [sys.executable, "-m", "simfl", "run", "--verify", "--json", "--trust-plugins"]
    folder = run(Scenario.load(tmp_path / "s.yaml"), tmp_path / "results").path
    if not told:
        write_sealed(folder / "machine.json", {"simfl": "0.1.0"})

    def verified():
        done = subprocess.run([*command, folder], capture_output=True, text=True, env=os.environ | HOME)
        return done.returncode, done.stderr, json.loads(done.stdout)["changed"]

    assert verified() == (0, "", [])
    (tmp_path / "picky.py").write_text(PLUGIN.replace("NAME", name).replace("FIRST", "1"))
    code, said, found = verified()
    assert code == 4 and len(found) == 1 and found[0] in said
    assert ("plugins.0: ../../../picky.py has changed since the run" in said) is told
    assert "times.csv" not in said
    (tmp_path / "times.csv").write_text("seconds\n1\n3\n")
    code, said, found = verified()
    assert code == 4 and len(found) == (2 if told else 1)
    assert ("devices.computation.path: ../../../times.csv has changed since the run" in said) is told
