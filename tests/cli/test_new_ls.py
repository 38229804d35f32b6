"""``simfl new`` writes scenarios that can be played; ``simfl ls`` says what is there, truly."""

import fcntl
import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from simfl.cli import simfl
from simfl.results.sealed_files import write_failure
from simfl.scenario import Scenario
from simfl.scenario.builtin import about, builtins
from tests.support.damages import unfinish

pytestmark = pytest.mark.usefixtures("sweeps_here")


def call(*words):
    return CliRunner().invoke(simfl, list(map(str, words)))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# -- new ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("builtin", builtins())
def test_what_is_written_is_the_built_in_under_another_name(builtin):
    assert call("new", "mine", "--from", builtin).stdout == "mine.yaml\n"
    assert Scenario.load("mine").digest == Scenario.load(builtin, ["name=mine"]).digest
    text = Path("mine.yaml").read_text()
    lines = [line.removeprefix("# ") for line in text.splitlines()]
    for key in Scenario.__dataclass_fields__.keys() - {"source"}:
        assert sum(line.startswith(f"{key}:") for line in lines) == 1, f"{key} is explained once"
    assert max(map(len, text.splitlines())) <= 120


def test_defaults_that_stand_as_comments_are_true():
    call("new", "mine")
    lines = Path("mine.yaml").read_text().splitlines()
    keys = tuple(f"# {key}:" for key in ("secagg", "attacks", "plugins", "trace"))
    text = "\n".join(line.removeprefix("# ") if line.startswith(keys) else line for line in lines)
    assert text.count("# ") < "\n".join(lines).count("# ")
    assert Scenario.parse(text, "mine").digest == Scenario.load("mine").digest


@pytest.mark.parametrize("data", ["digits", "nothing"])
def test_four_questions_make_a_scenario_and_what_compares(data):
    """The answers are its keys; the line at its head runs as it is."""
    answers = f"{data}\n16\nsticky\nrandom,batch_partition:T=4\nmine\n"
    done = CliRunner().invoke(simfl, ["new"], input=answers)
    assert done.exit_code == 0 and done.stdout.endswith("mine.yaml\n"), done.output
    scenario = Scenario.load("mine.yaml")
    assert scenario.clients == 16 and scenario.devices.availability.name == "markov"
    assert getattr(getattr(scenario.learning, "data", None), "name", "nothing") == data
    (line,) = re.findall(r"^# Compare: simfl (.*)$", Path("mine.yaml").read_text(), re.M)
    assert f"simfl {line}\n" in done.stderr
    assert call(*shlex.split(line), "training.rounds=2", "--replications", "1").exit_code == 0
    assert CliRunner().invoke(simfl, ["new"], input="").exit_code == 1
    again = CliRunner().invoke(simfl, ["new"], input=f"{data}\n16\nsticky\nbogus\nrandom\nagain\n")
    assert again.exit_code == 0 and "bogus" in again.stderr and "selection=random" in Path("again.yaml").read_text()


def test_nothing_is_overwritten_and_mistakes_are_named():
    Path("mine.yaml").write_text("mine")
    ended = call("new", "mine")
    assert ended.exit_code == 2 and ended.stderr == "mine.yaml: is there already; choose another name\n"
    assert Path("mine.yaml").read_text() == "mine"
    assert "did you mean 'fedbuff'?" in call("new", "x", "--from", "fedbuf").stderr
    assert call("new", "a b").exit_code == 2 and call("new", "no/such/x").exit_code == 2
    assert sorted(os.listdir()) == ["mine.yaml"]
    assert call("new", "other.yml").stdout == "other.yml\n"


# -- ls -------------------------------------------------------------------------------------------


@pytest.fixture
def results(comparison, tmp_path):
    shutil.copytree(comparison.parent.parent, tmp_path / "results")
    return tmp_path / "results" / "sample"


def entries(*words):
    return {entry["digest"]: entry for entry in json.loads(call("ls", "--json", *words).stdout)}


def test_every_state_is_told(results, comparison):
    runs = sorted(path.parent.name for path in results.glob("*/summary.json"))
    damaged, failed, stopped, running, diverged = runs[:5]
    (results / damaged / "rounds.csv").write_text("round\n")
    for digest in (failed, stopped, running):
        unfinish(results / digest, 5)
    write_failure(results / failed, "no luck")
    with open(results / running / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = entries()
    assert len(found) == 10
    states = {digest: entry["state"] for digest, entry in found.items() if entry["kind"] == "run"}
    assert states == dict.fromkeys(runs, "done") | {
        damaged: "damaged", failed: "failed", stopped: "stopped", running: "running"}  # fmt: skip
    assert "rounds.csv" in found[damaged]["error"] and found[failed]["error"] == "no luck"
    assert (found[stopped]["rounds"], found[stopped]["planned"]) == (5, 14)
    done = json.loads((results / runs[-1] / "summary.json").read_text())
    assert found[runs[-1]]["accuracy"] == done["test_accuracy"] and found[runs[-1]]["seed"] == done["seed"]
    (made,) = (entry for entry in found.values() if entry["kind"] == "comparison")
    assert made["differs"] == "selection=batch_partition:T=2,partition,random" and made["runs"] == {"done": 9}


def test_it_says_in_what_runs_differ(results):
    told = {entry["differs"] for entry in entries("results").values() if entry["kind"] == "run"}
    assert told == {f"selection={name}" for name in ("random", "batch_partition", "partition")}


def test_runs_of_a_comparison_are_one_line_and_all_fit(results, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = call("ls").stdout.splitlines()
    assert len(lines) == 3 and lines[0] == "sample" and " comparison selection=batch" in lines[2]
    every = call("ls", "--all", "results/sample").stdout.splitlines()
    assert len(every) == 12 and max(map(len, every)) <= 80
    assert sum(line.startswith("done ") for line in every) == 10
    one = call("ls", next(results.glob("*/summary.json")).parent)
    assert len(one.stdout.splitlines()) == 3


def test_what_changed_last_comes_last(results):
    runs = sorted(path.parent for path in results.glob("*/summary.json"))
    for age, path in enumerate(runs):
        os.utime(path, (age, age))
    shown = [line.split()[-1] for line in call("ls", "--all").stdout.splitlines() if line.startswith("done ")]
    assert shown[: len(runs)] == [path.name[:6] for path in runs]


def test_rubbish_ends_nothing(tmp_path):
    assert call("ls").exit_code == 2 and "no such folder" in call("ls").stderr
    for name, file, text in (
        ("a", "summary.json", "{"), ("b", "scenario.yaml", "\x00"), ("sweep-c", "index.csv", "x"),
        ("d", "failed.json", "[]"),
    ):  # fmt: skip
        folder = tmp_path / "results" / "x" / name
        folder.mkdir(parents=True)
        (folder / file).write_text(text)
    (tmp_path / "results/x/sweep-c/sweep.yaml").write_text("")
    (tmp_path / "results/x/loop").symlink_to(tmp_path / "results")
    ended = call("ls")
    assert ended.exit_code == 0 and ended.stdout.count("\ndamaged ") == 4 and "Traceback" not in ended.output


def test_looking_keeps_no_run_from_starting(results):
    """A lock that is looked at for a moment is not taken for one that is held."""
    import threading

    from simfl.core.storage.disk import file_lock

    lock = next(results.glob("*/summary.json")).parent / ".lock"
    file = open(lock, "wb")
    fcntl.flock(file, fcntl.LOCK_SH)
    threading.Timer(0.01, file.close).start()
    with file_lock(lock, "busy"):
        pass


def test_the_scenarios_that_come_with_simfl_are_listed_with_what_they_show():
    shown = call("list", "scenarios")
    assert shown.exit_code == 0
    assert [line.partition(":")[0] for line in shown.output.splitlines()] == builtins()
    assert "quickstart: Federated averaging on the built-in digits" in shown.output
    assert json.loads(call("list", "scenarios", "--json").output).keys() == {*builtins()}
    assert all(20 < len(about(name)) < 260 for name in builtins())
