"""Scenarios by name, and scenarios that say only what differs from another."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import simfl
from simfl.scenario import InvalidScenario, Scenario
from simfl.scenario.builtin import FOLDER, builtins, find

HERE = Path(__file__).resolve().parents[2]

BASE = """\
name: base
clients: 40
network: {name: star, latency_s: {name: log_normal, median: 0.08, sigma: 0.5}}
devices: {availability: {name: bernoulli, dropout: 0.2}}
selection: {name: random, k: 8}
training: {name: fedavg, rounds: 6, batch_size: 20}
learning: {name: none, parameters: 10, samples: 1}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text(BASE)
    return tmp_path


def wrong(file):
    with pytest.raises(InvalidScenario) as caught:
        Scenario.load(file)
    return str(caught.value)


# -- by name --------------------------------------------------------------------------------------


def test_every_scenario_of_the_checkout_is_built_in_once():
    assert builtins() == sorted(path.stem for path in (HERE / "scenarios").glob("*.yaml"))
    assert FOLDER.resolve() == HERE / "scenarios", "one copy"


def test_a_file_of_the_working_directory_wins(folder):
    assert simfl.load("quickstart").clients == 40 and simfl.load("quickstart").name == "quickstart"
    (folder / "quickstart").mkdir()  # a folder is no scenario
    assert simfl.load("quickstart").clients == 40
    for name, clients in (("quickstart.yml", 7), ("quickstart.yaml", 8)):
        (folder / name).write_text(BASE.replace("clients: 40", f"clients: {clients}").replace("k: 8", "k: 2"))
        assert simfl.load("quickstart").clients == clients
    (folder / "quickstart").rmdir()
    (folder / "quickstart").write_text(BASE.replace("clients: 40", "clients: 9"))
    assert simfl.load("quickstart").clients == 9


def test_files_of_overrides_of_a_built_in_are_sought_in_the_working_directory(folder):
    assert find("quickstart").folder == Path()
    (folder / "mine.py").write_text("")
    assert simfl.load("quickstart", {"plugins": ["mine.py"]}).file("mine.py").is_file()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("quickstrat", "quickstrat: no such file; did you mean 'quickstart'?"),
        ("bsae", "bsae: no such file; did you mean 'base'?"),
        ("bsae.yaml", "bsae.yaml: no such file; did you mean 'base.yaml'?"),
        ("./base", "base: no such file; did you mean 'base.yaml'?"),
        ("scenarios/fedbuff.yaml", "scenarios/fedbuff.yaml: no such file; did you mean 'fedbuff'?"),
        ("xyzzy", "xyzzy: no such file; built in are cities, "),
    ],
)
def test_unknown_names_suggest_the_nearest(folder, name, message):
    assert wrong(name).startswith(message)


def test_a_link_to_nowhere_is_no_such_file_and_is_not_suggested(folder):
    (folder / "gone.yaml").symlink_to("nowhere")
    for name in ("gone.yaml", "./gone", "gone"):
        said = wrong(name)
        assert said.startswith(f"{Path(name)}: no such file") and "mean 'gone" not in said


def test_mistakes_in_overrides_of_a_built_in_say_where(folder):
    with pytest.raises(InvalidScenario, match=r"^built-in quickstart:13:30: selection.k: "):
        Scenario.load("quickstart", ["clients=4"])


@pytest.mark.slow
def test_built_ins_are_in_the_wheel(tmp_path):
    tree = tmp_path / "tree"  # building leaves its traces
    for name in ("simfl", "scenarios"):
        shutil.copytree(HERE / name, tree / name, symlinks=True)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(HERE / name, tree)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, tree],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    code = (
        "import simfl; from simfl.scenario.builtin import builtins; print(*builtins(), simfl.load('quickstart').digest)"
    )
    unpacked = tmp_path / "installed"
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(unpacked)], check=True)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(unpacked)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [*builtins(), simfl.load("quickstart").digest]


# -- extends --------------------------------------------------------------------------------------


def test_what_extends_is_what_it_says_over_what_it_extends(folder):
    Path("mine.yaml").write_text(
        "extends: base.yaml\nselection: {name: batch_partition, T: 4}\ntraining: {rounds: 3}\n"
        "devices: {failure: 0.1}\nnetwork: {latency_s: {median: 0.5}}\nseed: 4\n"
    )
    flat = BASE.replace("name: base", "name: mine\nseed: 4").replace("rounds: 6", "rounds: 3")
    flat = flat.replace("{name: random, k: 8}", "{name: batch_partition, k: 8, T: 4}").replace(
        "median: 0.08", "median: 0.5"
    )
    flat = flat.replace("dropout: 0.2}}", "dropout: 0.2}, failure: 0.1}")
    mine, whole = Scenario.load("mine.yaml"), Scenario.parse(flat, "mine")
    assert mine == whole and mine.digest == whole.digest and mine.to_yaml() == whole.to_yaml()
    assert "extends" not in mine.to_yaml()


def test_the_same_as_by_overrides(folder):
    texts = [
        "selection=partition",
        "network.latency_s.sigma=0.1",
        "devices.computation=per_sample:seconds=1",
        "learning=none",
    ]
    Path("mine.yaml").write_text(
        "extends: base\nname: base\nselection: partition\nnetwork: {latency_s: {sigma: 0.1}}\n"
        "devices: {computation: {name: per_sample, seconds: 1}}\nlearning: none\n"
    )
    assert Scenario.load("mine").digest == Scenario.load("base", texts).digest


def test_chains_and_built_ins(folder):
    Path("first.yaml").write_text("extends: quickstart\ntraining: {rounds: 7, learning_rate: 0.3}\n")
    Path("inner").mkdir()
    Path("inner/second.yaml").write_text("extends: ../first.yaml\ntraining: {rounds: 9}\n")
    found = Scenario.load("inner/second.yaml")
    assert (found.training.rounds, found.training.learning_rate, found.training.batch_size) == (9, 0.3, 20)
    assert found.name == "second" and Scenario.load("inner/second.yaml", ["training.rounds=2"]).training.rounds == 2


def test_what_is_wrong_in_another_file_names_the_one_that_extends_it(folder):
    Path("near.yaml").write_text("extends: base\nname: base\n")
    Path("mine.yaml").write_text("extends: near\nclients: 4\n")
    line = wrong("mine.yaml")
    assert line.startswith("base.yaml:5:30: selection.k: ") and line.endswith(" (extended by mine.yaml)")
    Path("base.yaml").write_text(BASE.replace("k: 8", "kk: 8").replace("clients: 40", "clients: 40\nclients: 41"))
    lines = wrong("mine.yaml").splitlines()
    assert len(lines) > 1 and all(line.endswith(" (extended by mine.yaml)") for line in lines)


def test_a_mapping_extends_too(folder):
    assert simfl.load({"extends": "base.yaml", "clients": 80}).clients == 80


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": "extends: a.yaml"}, "a.yaml:1:10: extends: a circle: a.yaml extends a.yaml"),
        ({"a": "extends: b.yaml", "b": "seed: 1\nextends: c", "c": "extends: b.yaml"},
         "c.yaml:1:10: extends: a circle: b.yaml extends c.yaml extends b.yaml"),
        ({"a": "extends: bsae.yaml"}, "a.yaml:1:10: extends: 'bsae.yaml': no such file; did you mean 'base.yaml'?"),
        ({"a": "extends: quickstrat"}, "a.yaml:1:10: extends: 'quickstrat': no such file; did you mean 'quickstart'?"),
        ({"a": "extends: /dev/zero"}, "a.yaml:1:10: extends: '/dev/zero': cannot be read: is a device"),
        ({"a": f"extends: {300 * 'x'}"}, "...: cannot be read: File name too long"),
        ({"a": "extends: ."}, "a.yaml:1:10: extends: '.': is a folder, not a scenario file"),
        ({"a": 'extends: cities\nnetwork: {server: "\\uFEFF"}'}, "a.yaml:2:19: network.server: unknown city '\\ufeff'"),
        ({"a": "extends: [base]"}, "a.yaml:1:10: extends: the name of a scenario file or of a built-in"),
        ({"a": "extends: b", "b": "- 1"}, "a.yaml:1:10: extends: 'b' is no mapping"),
        ({"a": "extends: b", "b": "x: ["}, "b.yaml:2:1: x.0: not valid YAML"),
        ({"a": "extend: base"}, "a.yaml:1:1: extend: unknown key 'extend'; did you mean 'extends'?"),
        ({"a": "clients: 5\ntraining: {name: fedavg, extends: base}"}, "a.yaml:2:26: training.extends: unknown key"),
    ],
)  # fmt: skip
def test_what_cannot_be_extended(folder, files, message):
    for name, text in files.items():
        Path(f"{name}.yaml").write_text(text + "\n")
    assert message in wrong("a.yaml")


def test_a_key_is_found_in_the_file_that_holds_it(folder):
    Path("base.yaml").write_text(BASE.replace("rounds: 6", "rounds: 0").replace("dropout: 0.2", "dropout: 7"))
    Path("mine.yaml").write_text("extends: base.yaml\nselection: {k: 900}\ndevices:\n  failure: 3\ntrainin: 4\n")
    lines = wrong("mine.yaml").splitlines()
    assert sorted(line.split(": ")[:2] for line in lines if line) == [
        ["base.yaml:4:52", "devices.availability.dropout"],
        ["base.yaml:6:34", "training.rounds"],
        ["mine.yaml:4:12", "devices.failure"],
        ["mine.yaml:5:1", "trainin"],
    ]
    Path("base.yaml").write_text(BASE)
    Path("mine.yaml").write_text("extends: base.yaml\nselection: {k: 900}\n")
    assert wrong("mine.yaml").startswith("mine.yaml:2:16: selection.k: ")
    Path("mine.yaml").write_text("extends: base.yaml\nclients: 4\n")
    assert wrong("mine.yaml").startswith("base.yaml:5:30: selection.k: ")


def test_files_of_the_other_scenario_are_found_from_here(folder):
    Path("far").mkdir()
    Path("far/own.py").write_text(
        "from dataclasses import dataclass\nfrom simfl.plugins.selection import POLICIES\n"
        "from simfl.plugins.selection import RandomSelection\n@POLICIES('own_of_far')\n@dataclass(frozen=True)\n"
        "class Own(RandomSelection):\n    'Its own.'\n"
    )
    Path("far/delays.csv").write_text("server,c0,0.1\n")
    Path("far/base.yaml").write_text(
        BASE.replace("name: random, k: 8", "name: own_of_far, k: 8") + "plugins: [own.py]\n"
    )
    Path("near.py").write_text("near = 1\n")
    Path("mine.yaml").write_text("extends: far/base.yaml\nplugins: [near.py]\nselection: {k: 4}\n")
    found = Scenario.load("mine.yaml")
    assert found.plugins == ("near.py", "far/own.py") and found.selection.k == 4
    assert found.digest == Scenario.parse(found.to_yaml(), "mine").digest


def test_a_link_leads_to_no_circle_of_names(folder):
    Path("a.yaml").write_text("extends: link.yaml\n")
    Path("link.yaml").symlink_to("a.yaml")
    assert "a circle" in wrong("link.yaml")
