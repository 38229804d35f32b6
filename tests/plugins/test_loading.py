"""Plugins that travel: files, packages, notebooks; what they may do wrong; what they count for."""

import json
import os
import pickle
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
from click.testing import CliRunner

from simfl.api.result_objects import Result
from simfl.cli import simfl as command
from simfl.core.errors import PluginError
from simfl.core.registration import packages
from simfl.core.registration.family_index import FAMILIES
from simfl.core.registration.registry import Registry
from simfl.core.types import View
from simfl.devices.base import checked_available, checked_deaths, checked_durations_s
from simfl.network.base import checked_delays_s
from simfl.runs.run import run, verify
from simfl.scenario import InvalidScenario, Scenario
from simfl.selection.asking import ask, check_units
from simfl.selection.base import POLICIES
from simfl.selection.theory.expected_cardinality import theory
from tests.support import forked
from tests.support.policies import Blind

POLICY = '''
from dataclasses import dataclass

import numpy as np

from simfl.plugins.selection import POLICIES


@POLICIES("{name}")
@dataclass(frozen=True)
class Policy:
    """The available clients of smallest number."""

    k: int

    unit_size = 1
    example = {{"k": 2}}

    def select(self, view, k, rng):
        {body}
'''
LOWEST = """found = np.flatnonzero(view.available)[:k]
        return found.astype(np.int32).reshape(-1, 1) if len(found) == k else np.empty((0, 1), np.int32)"""
SMALL = """\
name: small
clients: 6
devices: {{availability: {{name: bernoulli, dropout: 0.1}}, computation: 0.1}}
selection: {{name: {name}, k: 2}}
training: {{name: fedavg, rounds: 4}}
learning: none
"""


@pytest.fixture(autouse=True)
def forgotten():
    """What a test registers is gone after it."""
    loaded = set(sys.modules)
    before = {family: dict(registry.imported_plugins()) for family, registry in FAMILIES.imported.items()}
    yield
    for family, registry in FAMILIES.imported.items():
        for name, cls in registry.imported_plugins():
            if not cls.__module__.startswith("simfl.") and before.get(family, {}).get(name) is not cls:
                del registry._plugins[name]
    for name in [name for name in sys.modules if name.startswith("simfl_plugin_") and name not in loaded]:
        del sys.modules[name]


def written(folder, name, body=LOWEST, extra="", plugins=True):
    """A scenario file and its plugin file in a folder; the scenario's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "my_policy.py").write_text(POLICY.format(name=name, body=body) + extra)
    (folder / "s.yaml").write_text(SMALL.format(name=name) + ("plugins: [my_policy.py]\n" if plugins else ""))
    return folder / "s.yaml"


def simfl(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


# -- files -----------------------------------------------------------------------------------------------


def test_a_plugin_file_counts_by_its_content_and_is_found_from_the_results(tmp_path):
    here, there = written(tmp_path / "a", "lowest"), written(tmp_path / "b" / "c", "lowest")
    scenario = Scenario.load(here)
    assert scenario.plugins == ("my_policy.py",) and scenario.digest == Scenario.load(there).digest
    finished = run(scenario, tmp_path / "results")
    assert "plugins: [../../../a/my_policy.py]" in (finished.path / "scenario.yaml").read_text()
    result = Result.open(finished.path)
    assert result.scenario.digest == scenario.digest and result.participation.shape == (4, 6)
    assert set(verify(finished.path).values()) == {True}
    classes = [cls for name, cls in POLICIES.items() if name == "lowest"]
    assert len(classes) == 1, "one content, one registration"


def test_other_code_is_another_run(tmp_path):
    first = forked.simfl("validate", written(tmp_path, "lowest"))
    second = forked.simfl("validate", written(tmp_path, "lowest", extra="# changed\n"))
    assert "valid" in first.stdout and "valid" in second.stdout
    assert first.stdout != second.stdout


def test_the_results_version_is_part_of_every_digest(monkeypatch):
    text = SMALL.format(name="random")
    before = Scenario.parse(text).digest
    monkeypatch.setattr("simfl.scenario.digest.RESULTS", 10**6)
    assert Scenario.parse(text).digest != before


def test_one_name_from_two_contents_is_an_error(tmp_path):
    Scenario.load(written(tmp_path / "a", "lowest"))
    with pytest.raises(InvalidScenario, match=r"my_policy.py:9: ValueError: selection 'lowest' is registered already"):
        Scenario.load(written(tmp_path / "b", "lowest", extra="# other\n"))
    with pytest.raises(InvalidScenario, match="has changed since it was loaded"):
        Scenario.load(written(tmp_path / "a", "lowest", extra="# other\n"))
    with pytest.raises(InvalidScenario, match="selection 'random' is registered already, by .*random.py"):
        Scenario.load(written(tmp_path / "c", "random"))


def test_a_scenario_must_name_the_file_that_it_uses(tmp_path):
    Scenario.load(written(tmp_path / "a", "lowest"))
    with pytest.raises(InvalidScenario, match="s.yaml:4:12: selection: 'lowest' is of a plugin file that this"):
        Scenario.load(written(tmp_path / "a", "lowest", plugins=False))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is no file|cannot be read: No such file"),
        ("import nowhere_at_all", "my_policy.py:1: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("x = 1\nx +\n", "my_policy.py:2: SyntaxError"),
        ("import sys\n\nsys.exit(0)", "my_policy.py:3: SystemExit"),
        ("def f():\n    return 1 / 0\n\nf()\n", "my_policy.py:2: ZeroDivisionError"),
        (POLICY.format(name="lame", body="pass").replace("def select", "def choose"), "'lame' lacks select"),
        (POLICY.format(name="lame", body="pass").replace("unit_size = 1", ""), "'lame' lacks unit_size"),
    ],
)
def test_a_broken_plugin_file_is_one_line_and_exit_2(tmp_path, content, message):
    path = written(tmp_path, "lowest")
    if content is None:
        (tmp_path / "my_policy.py").unlink()
    else:
        (tmp_path / "my_policy.py").write_text(content)
    done = simfl("validate", path)
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"{path}:7:11: plugins.0: ")
    with pytest.raises(InvalidScenario, match=message):
        Scenario.load(path)
    assert "lame" not in POLICIES


def test_plugins_are_files_of_python(tmp_path):
    (tmp_path / "s.yaml").write_text(SMALL.format(name="random") + "plugins: [data.csv]\n")
    with pytest.raises(InvalidScenario, match="s.yaml:7:11: plugins.0: "):
        Scenario.load(tmp_path / "s.yaml")
    (tmp_path / "s.yaml").write_text(SMALL.format(name="random") + "plugins: 7\n")
    with pytest.raises(InvalidScenario, match="plugins: Input should be a list"):
        Scenario.load(tmp_path / "s.yaml")


def test_the_commands_take_plugin_files(tmp_path, monkeypatch):
    path = written(tmp_path / "a", "lowest", plugins=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a" / "my_policy.py").rename(tmp_path / "mine.py")
    assert simfl("validate", path).exit_code == 2
    assert simfl("validate", path, "--plugin", "mine.py").exit_code == 0
    assert "plugins: [mine.py]" in simfl("show", path, "--plugin", "mine.py").stdout
    assert "plugins=[../mine.py]" not in simfl("show", path, "plugins=[../mine.py]").stderr
    said = simfl("theory", path, "--plugin", "mine.py").stdout
    assert "theory                not known: lowest declares no family of rows" in said and "\nguarantee  " not in said
    assert simfl("run", path, "--plugin", "mine.py", "-q").exit_code == 0
    wrong = simfl("run", path, "--plugin", "nowhere.py")
    assert wrong.exit_code == 2 and "'../nowhere.py' cannot be read" in wrong.stderr


def test_plugin_files_travel_to_the_workers_of_a_sweep(tmp_path):
    path = written(tmp_path / "a", "lowest")
    done = simfl("sweep", path, "selection=random,lowest", "--jobs", "1", "--out", tmp_path / "r", "-q")
    assert done.exit_code == 0, done.stderr
    done = simfl("run", path, "--out", tmp_path / "r")
    assert "complete already" in done.stderr


# -- plugins of a script -------------------------------------------------------------------------------

SCRIPT = """

def chosen(view, k):
    assert PLUGINS is POLICIES and "random" in PLUGINS
    found = np.flatnonzero(view.available)[:k] + SHIFT
    return found.astype(np.int32).reshape(-1, 1) if len(found) == k else np.empty((0, 1), np.int32)


SHIFT = 0
PLUGINS = POLICIES
if True:
    import simfl

    base = {"name": "small", "clients": 6, "selection": {"name": "mine", "k": 2}, "learning": "none"}
    base["training"] = {"name": "fedavg", "rounds": 3}
    result = simfl.sweep(base, {"selection": ["random", "mine"]}, out="results", jobs=1, progress=False)
    print(*result.runs.status, len(simfl.run(base, out="results").rounds), simfl.load(base).digest)
"""
SCRIPT = POLICY.format(name="mine", body="return chosen(view, k)") + SCRIPT


def script(folder, text):
    """Plays a script of its own; the words that it prints."""
    folder.mkdir(exist_ok=True)
    (folder / "script.py").write_text(text)
    done = subprocess.run([sys.executable, "script.py"], text=True, capture_output=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_registry_travels_by_its_name():
    assert pickle.loads(pickle.dumps(POLICIES)) is POLICIES  # noqa: S301  (its own)
    assert cloudpickle.loads(cloudpickle.dumps({"policies": POLICIES}))["policies"] is POLICIES


def test_a_policy_of_a_script_plays_in_a_sweep_and_counts_by_its_code(tmp_path):
    here = script(tmp_path / "a", SCRIPT)
    assert here[:3] == ["done", "done", "3"]
    guarded = "from __future__ import annotations\n" + SCRIPT.replace("if True:", 'if __name__ == "__main__":')
    assert script(tmp_path / "b", guarded)[:3] == ["done", "done", "3"], "also where annotations are texts"
    only = SCRIPT.partition("    result =")[0] + "    print(simfl.load(base).digest)\n"
    assert script(tmp_path / "c", "# a line more\n" + only) == here[3:], "neither place nor line matters"
    assert script(tmp_path / "d", only.replace("[:k] + SHIFT", "[-k:] + SHIFT")) != here[3:], "its helper counts"
    assert script(tmp_path / "e", only.replace("SHIFT = 0", "SHIFT = False")) != here[3:], "so does its global"


def test_the_processes_backend_explains_a_script_without_a_guard(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import simfl\n"
        "simfl.run(dict(clients=4, selection=dict(name='random', k=2), training=dict(name='fedavg', rounds=1),\n"
        "  learning=dict(data=dict(name='synthetic', samples=40, test_samples=10), model='mlp',\n"
        "                backend=dict(name='processes', workers=1))), out='r')\n"
    )
    done = subprocess.run([sys.executable, str(path)], text=True, capture_output=True, cwd=tmp_path)
    last = done.stderr.strip().splitlines()[-1]
    assert 'if __name__ == "__main__"' in last and "script.py" in last and "memory" not in last


def test_a_cell_that_is_run_again_defines_its_plugin_anew():
    made = []
    for _ in range(2):
        space = {"__name__": "__main__"}
        exec(POLICY.format(name="again", body="pass"), space)
        made.append(space["Policy"])
    assert POLICIES["again"] is made[1] is not made[0]


# -- packages ------------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installs packages, each one module with entry points."""

    def install(module, code, entries):
        site = tmp_path / "site"
        (site / f"{module}-1.5.dist-info").mkdir(parents=True)
        (site / f"{module}-1.5.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.5\n"
        )
        (site / f"{module}-1.5.dist-info" / "entry_points.txt").write_text(
            "".join(f"[{group}]\n{name} = {module}\n" for group, name in entries)
        )
        (site / f"{module}.py").write_text(code)
        return os.environ | {"PYTHONPATH": os.pathsep.join([str(site), *sys.path])}

    return install


def called(environment, *arguments):
    return subprocess.run([sys.executable, "-m", "simfl", *map(str, arguments)], text=True, capture_output=True,
                          env=environment)  # fmt: skip


BROKEN = {
    "leaving": "import sys\nsys.exit(0)",
    "unlicensed": "raise RuntimeError('no licence')",
    "importing": "import nowhere",
    "undefined": "x",
}


def test_broken_packages_hurt_only_those_who_use_them(package, tmp_path):
    for name, code in BROKEN.items():
        package(name, code, [("simfl.selection", name), ("simfl.figure", f"{name}_figure")])
    environment = package("sound", POLICY.format(name="lowest", body=LOWEST), [("simfl.selection", "lowest")])
    path = written(tmp_path / "s", "random", plugins=False)
    (tmp_path / "s" / "my_policy.py").unlink()
    done = called(environment, "run", path, "selection=lowest", "--out", tmp_path / "r", "--json")
    assert done.returncode == 0, done.stderr
    machine = json.loads((Path(json.loads(done.stdout)["path"]) / "machine.json").read_text())
    assert machine["sound"] == "1.5" and not BROKEN.keys() & machine.keys()
    files = [tmp_path / "s" / f"{name}.yaml" for name in BROKEN]
    for file in files:
        file.write_text(SMALL.format(name=file.stem))
    chosen = called(environment, "validate", *files)
    assert chosen.returncode == 2
    listed = called(environment, "list", "selection")
    assert listed.returncode == 0 and "lowest" in listed.stdout
    told = called(environment, "doctor").stdout
    for name in BROKEN:
        (line,) = [line for line in chosen.stderr.splitlines() if f"s/{name}.yaml:" in line]
        assert f"selection: '{name}' of the package {name} 1.5 does not load: " in line and f"{name}.py:" in line
        assert f"'{name}' of the package" in listed.stderr
        assert f"plugin simfl.selection '{name}' of the package {name} 1.5" in told
        assert f"plugin simfl.figure '{name}_figure' of the package {name} 1.5" in told


METRIC = """

from simfl.plugins import Column
from simfl.plugins.metrics import METRICS


@METRICS("one")
@dataclass(frozen=True)
class One:
    '''Always 1.'''

    columns = (Column("one", "One", "number", "Always 1."),)

    def after(self, snapshot, state):
        return {"one": 1}, state
"""


@pytest.mark.parametrize("second", [[("simfl.metric", "one")], []], ids=["each is named", "one is named"])
def test_a_package_brings_plugins_of_two_families(package, tmp_path, second):
    """Whichever is asked for first, and whether or not each of them has an entry point."""
    code = POLICY.format(name="lowest", body=LOWEST) + METRIC
    environment = package("twofold", code, [("simfl.selection", "lowest"), *second])
    path = written(tmp_path / "s", "random", plugins=False)
    for overrides in (["selection=lowest", "metrics=[one]"], ["metrics=[one]"], ["selection=lowest"]):
        done = called(environment, "run", path, *overrides, "--out", tmp_path / "r", "-q")
        assert done.returncode == 0, done.stderr
        assert ("one" in (Path(done.stdout.strip()) / "rounds.csv").read_text()) == ("metrics=[one]" in overrides)
    assert "one" in called(environment, "list", "metric").stdout
    assert "lowest" in called(environment, "list", "selection").stdout


def test_an_entry_point_of_a_wrong_name_hides_no_other_plugin_of_its_package(package, tmp_path):
    names = ["a_typo", "lowest"]
    environment = package(
        "misnamed", POLICY.format(name="lowest", body=LOWEST), [("simfl.selection", name) for name in names]
    )
    done = called(environment, "validate", *(written(tmp_path / name, name, plugins=False) for name in names))
    assert done.returncode == 2 and "misnamed registers nothing of this name" in done.stderr
    assert "lowest/s.yaml: valid" in done.stdout, done.stderr


def test_packages_bring_figures(package, tmp_path):
    code = (
        "from matplotlib.figure import Figure\nfrom pandas import DataFrame\n"
        "from simfl.plugins.figures import figure\n\n\n@figure('mine', 'Mine', 'other')\n"
        "def draw(study):\n    '''Nothing much.'''\n    return Figure(), DataFrame({'runs': [len(study.groups)]})\n"
    )
    environment = package("drawn", code, [("simfl.figure", "mine")])
    assert "mine" in called(environment, "plot", "--help").stdout


def test_an_entry_point_that_registers_nothing_is_broken(monkeypatch):
    registry = Registry("nothing of a test")
    try:
        entry = packages.EntryPoint("thing", "json", "simfl.nothing of a test")
        monkeypatch.setattr("simfl.core.registration.registry.packages", lambda group: [entry])
        assert list(registry) == [] and "registers nothing of this name" in str(registry.broken["thing"])
    finally:
        del FAMILIES["nothing of a test"]


# -- what a plugin does wrong --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return [[0], [1]]", "select must give int32 of shape (units, 1), not list"),
        ("return None", "not NoneType"),
        ("return np.array([[0.0], [1.0]])", "not float64 of shape (2, 1)"),
        ("return np.array([0, 1], np.int32)", "not int32 of shape (2,)"),
        ("return np.array([[0, 1]], np.int32)", "units of 2 clients; its unit_size is 1"),
        ("return np.array([[0], [6]], np.int32)", "selected client 6; clients are 0 to 5"),
        ("return np.array([[0], [-1]], np.int32)", "selected client -1"),
        ("return np.array([[0], [0]], np.int32)", "selected client 0 more than once"),
        ("return np.arange(3, dtype=np.int32)[:, None]", "selected 3 clients where 2 were asked for"),
    ],
)
@pytest.mark.parametrize("rule", ["fedavg", "fedbuff"])
def test_impossible_answers_are_refused_by_name(tmp_path, body, message, rule):
    path = written(tmp_path, "wrong", body)
    done = simfl("run", path, f"training={rule}", "training.rounds=4", "devices.availability=always",
                 "--out", tmp_path / "r")  # fmt: skip
    if "3 clients" in message and rule == "fedbuff":
        message = "selected 3 clients where"
    assert done.exit_code == 1 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("selection 'wrong': ") and message in done.stderr


def test_unavailable_clients_are_refused():
    policy = Blind()
    view = View(0, np.array([True, False, True]), np.zeros(3, np.int64))
    with pytest.raises(PluginError, match="selected client 1, who is not available"):
        check_units(np.array([[0], [1]], np.int32), view, 2, policy)
    assert check_units(np.empty((0, 1), np.int32), view, 2, policy).size == 0
    free = Blind()
    free.fixed_size = False
    assert check_units(np.array([[0], [2]], np.int32), view, 1, free).size == 2


def test_a_policy_cannot_edit_what_it_sees(tmp_path):
    done = simfl("run", written(tmp_path, "editor", "view.participation[0] = 5"), "--out", tmp_path / "r")
    assert done.exit_code == 1 and "plugin selection 'editor' failed" in done.stderr and "read-only" in done.stderr
    view = View(0, np.ones(3, bool), np.zeros(3, np.int64))
    policy = Blind()
    policy.select = lambda view, k, rng: view.available.fill(0)
    with pytest.raises(ValueError, match="read-only"):
        ask(policy, view, 1, np.random.default_rng(0))


@pytest.mark.parametrize("body", ["return 1 / 0", "raise SystemExit(0)", "return view.nothing"])
def test_a_plugins_own_failure_names_it_with_file_and_line(tmp_path, body):
    path = written(tmp_path, "failing", body)
    done = simfl("run", path, "--out", tmp_path / "r")
    assert done.exit_code == 1 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"plugin selection 'failing' failed: {tmp_path / 'my_policy.py'}:20: ")
    assert "please report" not in done.stderr
    swept = simfl("sweep", path, "seed=0,1", "--jobs", "1", "--out", tmp_path / "w")
    assert swept.exit_code == 3 and "plugin selection 'failing' failed" in swept.stderr


def test_delays_and_durations_are_checked():
    good = np.array([0.0, 1.5])
    assert checked_delays_s(good, 2, self) is good and checked_durations_s(good, 2, self) is good
    assert np.isnan(checked_deaths(np.array([np.nan, 0.5]), 2, self)[0])
    for bad in ([0.0, -1.0], [np.nan, 0.0], [np.inf, 0.0], [0.0], [[0.0, 1.0]]):
        for check in (checked_delays_s, checked_durations_s):
            with pytest.raises(PluginError):
                check(np.array(bad), 2, self)
    for bad in (None, [0.1, 0.2], np.array(["a", "b"])):
        with pytest.raises(PluginError):
            checked_durations_s(bad, 2, self)
    with pytest.raises(PluginError):
        checked_deaths(np.array([0.5, 1.5]), 2, self)
    with pytest.raises(PluginError, match="bool of shape"):
        checked_available(np.ones(3), 3, self)


def self():
    """Stands for a model that answered."""


# -- where an error belongs ----------------------------------------------------------------------------


def test_an_error_of_the_build_is_located_where_its_plugin_stands(tmp_path):
    text = SMALL.format(name="random").replace("dropout: 0.1", "dropout: {name: exponential, mean: 1.0e+9}")
    (tmp_path / "s.yaml").write_text(text)
    done = simfl("run", tmp_path / "s.yaml", "--out", tmp_path / "r")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"{tmp_path / 's.yaml'}:3:52: devices.availability.dropout: the distribution gave ")
    shards = ["learning={data: digits, model: mlp, partition: {name: shards, labels_per_client: 9000}}"]
    done = simfl("run", tmp_path / "s.yaml", *shards, "devices.availability=always", "--out", tmp_path / "r")
    assert done.exit_code == 2 and "learning.partition.labels_per_client: makes 54000 shards" in done.stderr
    done = simfl("run", tmp_path / "s.yaml", "learning={data: digits, model: lenet5}", "devices.availability=always")
    assert done.exit_code == 2 and "learning.model: lenet5 takes images" in done.stderr


def test_an_inner_plugins_error_is_found_deep_inside(tmp_path):
    extra = '''
from simfl.plugins.distributions import DISTRIBUTIONS
from simfl.plugins import ScenarioError


@DISTRIBUTIONS("moody")
@dataclass(frozen=True)
class Moody:
    """Refuses."""

    mood: float = 1.0

    mean = 1.0

    def sample(self, rng, size):
        raise ScenarioError("mood", "is bad")
'''
    path = written(tmp_path, "lowest", extra=extra)
    done = simfl("run", path, "network={name: star, latency_s: {name: moody, mood: 2}}", "--out", tmp_path / "r")
    assert done.exit_code == 2 and "network.latency_s.mood: is bad" in done.stderr


# -- dictionaries and paths ----------------------------------------------------------------------------


def test_scenarios_may_be_dictionaries(tmp_path):
    import simfl

    base = {"clients": 6, "selection": POLICIES["random"](k=2), "training": {"name": "fedavg", "rounds": np.int64(2)},
            "learning": "none", "name": "dicts"}  # fmt: skip
    result = simfl.run(base, out=tmp_path, seed=3)
    assert len(result.rounds) == 2 and result.scenario.seed == 3
    assert simfl.load(base).digest == Scenario.of(base).digest
    with pytest.raises(InvalidScenario, match="clients: Input should be greater"):
        simfl.load({**base, "clients": 0})
    swept = simfl.sweep(base, {"seed": [3, 4]}, out=tmp_path, progress=False, jobs=1)
    assert list(swept.runs.status) == ["done", "done"]


def test_paths_that_cannot_be_written_are_found_before_the_run(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(SMALL.format(name="random"))
    done = simfl("run", path, "--out", tmp_path / "r", "--timeline", tmp_path / "nowhere" / "t.json")
    assert done.exit_code == 2 and "there is no folder" in done.stderr and not (tmp_path / "r").exists()
    done = simfl("show", "data", path, "learning={data: digits, model: mlp}", "--out", tmp_path / "nowhere" / "d.svg")
    assert done.exit_code == 2 and "there is no folder" in done.stderr and not (tmp_path / "nowhere").exists()


def test_a_key_inside_a_choice_that_has_no_such_key(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(SMALL.format(name="random"))
    done = simfl("validate", path)
    assert done.exit_code == 0
    done = simfl("run", path, "learning={data: digits, model: mlp}", "learning.data.path=x.npy")
    assert done.exit_code == 2 and "internal" not in done.stderr and "path" in done.stderr
    path.write_text(SMALL.format(name="random").replace("learning: none\n", ""))
    done = simfl("run", path, "learning.data.path=x.npy")
    assert done.exit_code == 2 and "internal" not in done.stderr and "path" in done.stderr


# -- documentation ---------------------------------------------------------------------------------------


def test_the_documented_policy_works_and_has_theory_once_it_names_its_family(tmp_path):
    text = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "extend.md").read_text()
    policy = re.search(r"^```python\n(# lowest.py\n.*?)^```", text, re.M | re.S)[1]
    (tmp_path / "mine.py").write_text(policy[: policy.index("    def family")])
    scenario = SMALL.format(name="lowest") + "plugins: [mine.py]\n"
    unknown = theory(Scenario.parse(scenario, folder=tmp_path))
    assert unknown["guarantee"] is None and unknown["family_size"] is None
    assert len(Result.open(run(Scenario.parse(scenario, folder=tmp_path), tmp_path / "r").path).rounds) == 4
    (tmp_path / "with.py").write_text(policy.replace("lowest", "with"))
    known = theory(Scenario.parse(scenario.replace("lowest", "with").replace("mine", "with"), folder=tmp_path))
    assert known["family_size"] == 15 and known["guarantee"] == {"strong": 1, "semi_strong": 1, "weak": 1}
    assert known["expected_cardinality"] == pytest.approx(2 * (1 - 0.1**6 - 6 * 0.9 * 0.1**5))


# -- what a class must be ----------------------------------------------------------------------------------


def test_a_server_without_rounds_is_refused_when_it_is_registered():
    from simfl.plugins.servers import SERVERS, RoundServer, Server

    with pytest.raises(TypeError, match=r"server 'lazy' lacks round"):
        SERVERS("lazy")(dataclass(eq=False)(type("Lazy", (RoundServer,), {"__module__": __name__})))
    with pytest.raises(TypeError, match=r"server 'idle' lacks run"):
        SERVERS("idle")(dataclass(eq=False)(type("Idle", (Server,), {"__module__": __name__})))
    with pytest.raises(TypeError, match=r"server 'alone' does not inherit from simfl.plugins.servers.Server"):
        SERVERS("alone")(dataclass(eq=False)(type("Alone", (), {"play": lambda self: (yield), "__module__": __name__})))


def test_a_module_of_simfl_that_a_broken_package_imports_keeps_its_plugins():
    result = subprocess.run(
        [sys.executable, "-c", IMPORTED_AND_BROKEN], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.stdout.split() == ["constant", "fedbuff"], result.stderr


IMPORTED_AND_BROKEN = """
from contextlib import suppress
from simfl.core.registration.family_index import undone
with suppress(RuntimeError), undone():
    import simfl.plugins.training
    import simfl.training.fedbuff
    raise RuntimeError("a package that breaks after it has imported simfl's plugins")
from simfl.training.staleness import STALENESS
from simfl.training.base import RULES
print(STALENESS.of("constant").name, RULES.of("fedbuff").name)
"""
