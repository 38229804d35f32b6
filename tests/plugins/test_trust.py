"""Plugin files that a results folder names are executed only by consent: canaries for every command and function."""

import os
import shutil
import sys
from hashlib import sha256
from itertools import count

import pytest
from click.testing import CliRunner

import simfl
from simfl.api.result_objects import Result, SweepResult
from simfl.api.results_index import list_entries
from simfl.cli import COMMANDS, INSIDE, others
from simfl.cli import simfl as group
from simfl.deployment.audit.reading import read as read_log
from simfl.experiments.attack.after_run import attack, likelihood
from simfl.learning.objects.module_sources import accepted_marks, module_sources
from simfl.report import read_study
from simfl.report.live.watched_folder import WatchedFolder
from simfl.results.run_files import all_rounds
from simfl.runs.run import changed_inputs, run, verify
from simfl.scenario import InvalidScenario, Scenario, plugin_files
from simfl.scenario.plugin_files import Trust
from tests.support.damages import reseal, reseal_sweep

WORLD = """
name: canary
clients: 4
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 2, batch_size: null}
learning:
  data: {name: synthetic, samples: 80, test_samples: 20, shape: [3], classes: 2}
  model: logistic
trace: aggregates
"""
NETWORK = """
def network(in_features, num_classes):
    from torch import nn
    return nn.Linear(in_features, num_classes)
"""
OUTSIDE = WORLD.replace("model: logistic", "model: logistic\n  backend: {name: external, clients: [0, 1]}")
NUMBER = count()


def canary(path, mark):
    """A plugin file of a content that no other test has: it makes a file when it is executed."""
    text = f"# {next(NUMBER)}\nfrom pathlib import Path\nPath({str(mark)!r}).touch()\n"
    path.write_text(text)
    return sha256(text.encode()).hexdigest()


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """The results root of a finished run without plugins."""
    out = tmp_path_factory.mktemp("honest")
    return run(Scenario.parse(WORLD, "canary"), out).path


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMFL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(params=["plugins", "extends", "module"])
def hostile(request, honest, tmp_path):
    """The same run, sealed anew, whose scenario brings a canary: by itself, in a scenario that it extends, or as
    the module of a model."""
    folder = tmp_path / "results" / "canary" / honest.name
    shutil.copytree(honest, folder)
    canary(folder / "evil.py", tmp_path / "CANARY")
    text = (folder / "scenario.yaml").read_text()
    if request.param == "extends":
        (folder / "base.yaml").write_text("plugins: [evil.py]\n")
        text = "extends: base.yaml\n" + "\n".join(line for line in text.splitlines() if line != "plugins: []")
    elif request.param == "module":
        text = text.replace("{name: logistic}", "evil:network")
        assert "evil" in text
        (folder / "evil.py").write_text((folder / "evil.py").read_text() + NETWORK)
        sys.modules.pop("evil", None)
    else:
        text = text.replace("plugins: []\n", "plugins: [evil.py]\n")
        assert "evil.py" in text
    (folder / "scenario.yaml").write_text(text)
    reseal(folder)
    return folder


def call(*words):
    return CliRunner().invoke(group, [str(word) for word in words])


READ = {
    "report": lambda d: ["report", d],
    "plot": lambda d: ["plot", d, "--figure", "accuracy", "-o", d.parent / "f.svg"],
    "watch": lambda d: ["watch", d, "--terminal"],
    "ls": lambda d: ["ls", d.parent.parent],
    "export": lambda d: ["export", d, "--rounds", d.parent / "all.csv"],
    "audit": lambda d: ["audit", d],
    "forecast": lambda d: ["forecast", d, "--futures", 2, "--horizon", 1, "--processes", 1],
    "advise": lambda d: ["advise", d, "--futures", 59, "--horizon", 1, "--processes", 1, "--grid", "random"],
    "tag": lambda d: ["ls", "tag", d, "--tag", "seen"],
    "show": lambda d: ["show", d],
    "rm": lambda d: ["ls", "rm", d, "--yes", "--out", d.parent.parent],
}
"""Commands that read results and say what is in them; they need no scenario object, so that they just work."""

PLAY = {
    "run": lambda d, mine: ["run", mine, "--out", d.parent.parent],
    "sweep": lambda d, mine: ["sweep", mine, "seed=0", "--out", d.parent.parent, "--jobs", 1],
    "compare": lambda d, mine: ["compare", mine, "selection=random,partition", "--replications", 2,
                                "--out", d.parent.parent, "--jobs", 1],
    "search": lambda d, mine: ["search", mine, "selection=random,partition", "--maximise", "mean_cardinality",
                               "--runs", 2, "--out", d.parent.parent, "--jobs", 1],
}  # fmt: skip
"""Commands that play the user's own scenario where results of it lie already."""

REFUSED = {
    "run": lambda d: ["run", d, "training.rounds=3", "--out", d.parent.parent],
    "verify": lambda d: ["run", "--verify", d],
    "attack": lambda d: ["attack", d, "least_squares"],
    "attack lira": lambda d: ["attack", d, "lira"],
}
"""Commands that play the folder's scenario."""

NAME_A_SCENARIO = {"validate", "theory"}
"""Commands whose scenario the user names, and that open no results."""

NO_RESULTS = {"new", "schema", "list", "data", "doctor"}

REMOTE = {"serve", "client", "calibrate"}
"""Below, and in tests/remote: a client refuses plugins of its server, and a calibration reads numbers only."""


def test_every_command_is_decided():
    decided = {word.split()[0] for word in (*READ, *PLAY, *REFUSED)} | NAME_A_SCENARIO | NO_RESULTS | REMOTE
    assert decided == {*COMMANDS, *INSIDE.values(), *(name.split()[-1] for name in others().entries)}


@pytest.mark.parametrize("name", READ)
def test_reading_results_executes_nothing(hostile, tmp_path, name, no_pictures):
    done = call(*READ[name](hostile))
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "CANARY").exists()


@pytest.mark.parametrize("value", ["5", "[5]", "null", "evil.py", "{evil.py: 1}", "[[evil.py]]"])
def test_plugins_that_are_no_list_of_files_are_one_line(hostile, tmp_path, no_pictures, value):
    text = "".join(
        f"plugins: {value}\n" if line.startswith("plugins:") else line
        for line in (hostile / "scenario.yaml").read_text().splitlines(keepends=True)
        if not line.startswith("extends:")
    )
    (hostile / "scenario.yaml").write_text(text if "plugins:" in text else f"{text}\nplugins: {value}\n")
    reseal(hostile)
    done = call("report", hostile)
    (line,) = done.stderr.splitlines()
    assert done.exit_code == 0 and line.startswith(f"{hostile / 'scenario.yaml'}: plugins: is no list of files (got ")
    assert (hostile / "report.html").is_file() and not (tmp_path / "CANARY").exists()
    done = call("run", "--verify", hostile)
    (line,) = done.stderr.splitlines()
    assert done.exit_code == 2 and f"{hostile / 'scenario.yaml'}:" in line and "plugins" in line and "Input" in line


@pytest.mark.parametrize("hostile", ["plugins"], indirect=True)
def test_a_report_speaks_of_plugin_files_only_where_figures_are_missing(hostile, no_pictures):
    assert call("report", hostile).stderr == ""
    evil = hostile / "evil.py"
    evil.write_text(evil.read_text() + "@figure('evil_figure', 'Evil', 'other')\n")
    done = call("report", hostile)
    assert done.exit_code == 0 and f"({os.path.relpath(evil)}); --plugin FILE adds the figures" in done.stderr
    evil.write_text(evil.read_text().replace("evil_figure", "accuracy"))
    assert call("report", hostile).stderr == ""
    evil.unlink()
    assert call("report", hostile).stderr == ""


@pytest.mark.parametrize("name", REFUSED)
def test_playing_a_folder_refuses_its_plugin_files_in_one_line(hostile, tmp_path, name):
    done = call(*REFUSED[name](hostile))
    assert done.exit_code == 2 and not (tmp_path / "CANARY").exists()
    (line,) = done.output.splitlines()
    evil = hostile / "evil.py"
    assert sha256(evil.read_bytes()).hexdigest() in line and f"less {evil}" in line and "--trust-plugins" in line
    assert str(hostile / "scenario.yaml") in line or str(hostile / "base.yaml") in line


@pytest.mark.parametrize("name", PLAY)
def test_playing_ones_own_scenario_beside_a_strangers_results_executes_nothing(hostile, tmp_path, name):
    mine = tmp_path / "canary.yaml"
    mine.write_text(WORLD)
    assert Scenario.load(mine).digest == hostile.name  # it finds the stranger's folder
    done = call(*PLAY[name](hostile, mine))
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "CANARY").exists()


def test_a_replay_executes_nothing(hostile, tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text(OUTSIDE)
    done = call("serve", mine, "--out", tmp_path / "again", "--replay", hostile)
    assert done.exit_code in (2, 3), done.output  # it holds no updates
    assert not (tmp_path / "CANARY").exists()


def test_completion_executes_nothing(hostile, tmp_path, monkeypatch):
    from click.shell_completion import BashComplete

    for words in (["run", str(hostile / "scenario.yaml")], ["report", str(hostile)], ["run", "--verify"]):
        BashComplete(group, {}, "simfl", "_SIMFL_COMPLETE").get_completions(words, "selection.")
    assert not (tmp_path / "CANARY").exists()


def test_python_reads_without_executing(hostile, tmp_path):
    found = simfl.open(hostile)
    assert len(found.rounds) == 2 and found.participation.shape == (2, 4) and found.summary["clients"] == 4
    assert "canary" in found._repr_html_()
    found.figure("accuracy")
    (
        read_study([hostile]),
        WatchedFolder(hostile).look(),
        list_entries(hostile.parent),
        read_log(hostile),
        all_rounds(hostile),
    )
    (hostile.parent / "sweep-0").mkdir()
    (hostile.parent / "sweep-0" / "index.csv").write_text(f"digest,seed,status\n{hostile.name},0,done\n")
    reseal_sweep(hostile.parent / "sweep-0")
    (one,) = SweepResult.open(hostile.parent / "sweep-0").results()
    assert not (tmp_path / "CANARY").exists()
    refused = (
        lambda: found.scenario,
        lambda: one.scenario,
        lambda: Result.open(hostile).scenario,
        lambda: simfl.run(hostile, {"training.rounds": 3}, out=tmp_path / "longer"),
        lambda: verify(hostile),
        lambda: changed_inputs(hostile),
        lambda: attack(hostile, "least_squares"),
        lambda: likelihood(hostile),
    )
    for ask in refused:
        with pytest.raises(InvalidScenario, match="trust_plugins=True"):
            ask()
    assert not (tmp_path / "CANARY").exists()


@pytest.mark.parametrize(
    "ask",
    [
        lambda folder: simfl.open(folder, trust_plugins=True).scenario,
        lambda folder: next(SweepResult.open(folder.parent / "sweep-0", trust_plugins=True).results()).scenario,
        lambda folder: verify(folder, trust_plugins=True),
        lambda folder: changed_inputs(folder, trust_plugins=True),
        lambda folder: attack(folder, "least_squares", trust_plugins=True),
        lambda folder: call("run", "--verify", folder, "--trust-plugins"),
        lambda folder: call("attack", folder, "least_squares", "--trust-plugins"),
    ],
)
def test_with_consent_it_is_executed_and_not_remembered(hostile, tmp_path, cache, ask):
    (hostile.parent / "sweep-0").mkdir()
    (hostile.parent / "sweep-0" / "index.csv").write_text(f"digest,seed,status\n{hostile.name},0,done\n")
    reseal_sweep(hostile.parent / "sweep-0")
    ask(hostile)
    assert (tmp_path / "CANARY").exists()
    evil = hostile / "evil.py"
    marks = {sha256(evil.read_bytes()).hexdigest(), module_sources("evil", evil.parent).get("evil").mark}
    assert marks & (plugin_files.executed_digests() | accepted_marks())
    assert not any((cache / "plugins" / mark).exists() for mark in marks)


def forgotten(monkeypatch, digest):
    """As in another process: nothing of this content has been executed in this one."""
    monkeypatch.delitem(plugin_files.sys.modules, plugin_files.PREFIX + digest)


def test_what_the_user_has_played_himself_is_remembered_by_its_content(tmp_path, cache, monkeypatch):
    mark = tmp_path / "MARK"
    digest = canary(tmp_path / "mine.py", mark)
    (tmp_path / "canary.yaml").write_text(WORLD + "plugins: [mine.py]\n")
    done = call("run", tmp_path / "canary.yaml", "--out", tmp_path / "results", "--quiet")
    assert done.exit_code == 0 and (cache / "plugins" / digest).exists()
    folder = done.output.strip()
    forgotten(monkeypatch, digest)
    mark.unlink()
    assert call("run", "--verify", folder).exit_code == 0 and mark.exists()

    forgotten(monkeypatch, digest)
    mark.unlink()
    (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text() + "# changed since\n")
    assert call("run", "--verify", folder).exit_code == 2 and not mark.exists()

    (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text().replace("# changed since\n", ""))
    monkeypatch.setenv("SIMFL_CACHE", "")  # nothing is remembered
    assert call("run", "--verify", folder).exit_code == 2 and not mark.exists()


def test_a_file_that_fails_and_somebody_elses_note_count_for_nothing(tmp_path, cache, monkeypatch):
    bad = tmp_path / "bad.py"
    bad.write_text("1 / 0")
    with pytest.raises(ValueError, match="does not load"):
        plugin_files.load(bad)
    assert not (cache / "plugins").exists()
    digest = canary(tmp_path / "good.py", tmp_path / "MARK")
    (cache / "plugins").mkdir(parents=True)
    (cache / "plugins" / digest).touch()
    monkeypatch.setattr("os.geteuid", lambda: 4711)
    with pytest.raises(ValueError, match="not executed here before"):
        plugin_files.load(tmp_path / "good.py", Trust())
    monkeypatch.undo()
    assert not (tmp_path / "MARK").exists()


def test_workers_execute_the_contents_that_the_command_has_executed_and_no_others(tmp_path):
    digest = canary(tmp_path / "one.py", tmp_path / "MARK")
    plugin_files.load(tmp_path / "one.py", Trust(digests=frozenset({digest})))
    assert (tmp_path / "MARK").exists()
    canary(tmp_path / "two.py", tmp_path / "OTHER")
    with pytest.raises(ValueError, match="not executed here before"):
        plugin_files.load(tmp_path / "two.py", Trust(digests=frozenset({digest})))
    assert not (tmp_path / "OTHER").exists()
