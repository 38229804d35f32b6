"""A model, data set or partition that a scenario file names as module:attribute."""

import shutil
import sys
from itertools import count

import pytest
from click.testing import CliRunner

from simfl.cli import simfl as group
from simfl.scenario import Scenario
from simfl.scenario.schema import schema

NUMBER = count()

MODULE = """
import numpy as np
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.layer = nn.Linear(3, num_classes)

    def forward(self, x):
        return self.layer(x)

class Nested:
    net = Net

def load():
    x = np.random.default_rng(0).standard_normal((60, 3))
    return x, (x[:, 0] > 0).astype(int)

def split(labels, clients, rng):
    return np.array_split(rng.permutation(len(labels)), clients)

number = 3
"""

WORLD = """
name: named
clients: 4
devices: {computation: {name: per_sample, seconds: 0.001}}
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 2}
learning:
  data: MINE:load
  partition: MINE:split
  model: MINE:Net
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A scenario file beside a module of a name that no other test has; the working directory is elsewhere."""
    monkeypatch.setenv("SIMFL_CACHE", str(tmp_path / "cache"))
    name, folder = f"mine{next(NUMBER)}", tmp_path / "project"
    folder.mkdir()
    (folder / f"{name}.py").write_text(MODULE)
    (folder / "world.yaml").write_text(WORLD.replace("MINE", name))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return folder / "world.yaml", name


def call(*words):
    return CliRunner().invoke(group, [str(word) for word in words])


def test_a_scenario_names_its_objects_and_its_results_are_verified(world, tmp_path):
    file, name = world
    out = tmp_path / "results"
    done = call("run", file, "-q", "--out", out)
    assert done.exit_code == 0, done.output
    (path,) = (out / "named").iterdir()
    stored = Scenario.load(path / "scenario.yaml")
    assert stored.learning.model.object == f"{name}:Net" and stored.learning.model.fingerprint
    assert stored.learning.model.folder == "../../../project" and stored.digest == path.name
    assert call("run", "--verify", path).exit_code == 0
    assert call("run", path / "scenario.yaml", "-q", "--out", tmp_path / "again").exit_code == 0
    again = tmp_path / "again" / "named" / path.name
    assert (again / "model.npy").read_bytes() == (path / "model.npy").read_bytes()
    assert call("show", "data", file).exit_code == call("validate", "--deep", file).exit_code == 0
    nested = Scenario.load(file, [f"learning.model={name}:Nested.net"])
    assert nested.learning.model.fingerprint == stored.learning.model.fingerprint


def test_a_new_choice_keeps_nothing_of_the_stored_object(world, tmp_path):
    file, name = world
    stored = tmp_path / "stored.yaml"
    stored.write_text(Scenario.load(file).to_yaml(tmp_path))
    plain = Scenario.load(stored, ["learning.model=mlp"])
    assert plain.learning.model.hidden == (64,)
    other = Scenario.load(stored, [f"learning.model={name}:Nested.net"])
    assert other.learning.model.object == f"{name}:Nested.net"
    base = tmp_path / "project" / "child.yaml"
    base.write_text(f"extends: world.yaml\nlearning: {{model: '{name}:Nested.net'}}\n")
    assert Scenario.load(base).learning.model.fingerprint == other.learning.model.fingerprint


def test_code_that_has_changed_is_another_run_and_is_named(world, tmp_path):
    file, name = world
    stored = tmp_path / "stored.yaml"
    before = Scenario.load(file)
    stored.write_text(before.to_yaml(tmp_path))
    other = f"other_{name}"
    module = file.with_name(f"{name}.py")
    file.with_name(f"{other}.py").write_text(module.read_text().replace("x[:, 0] > 0", "x[:, 0] > 1"))
    stored.write_text(stored.read_text().replace(f"{name}:", f"{other}:"))
    done = call("run", stored, "-q", "--out", tmp_path / "out")
    assert done.exit_code == 2 and "learning.data.fingerprint: " in done.stderr and " has changed: " in done.stderr
    assert Scenario.load(file, [f"learning.data={other}:load"]).digest != before.digest
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("model", "MINE:Ned", "module 'MINE' has no 'Ned'; did you mean 'Net'?"),
        ("model", "MINE:Net.fit", "has no 'Net.fit'"),
        ("model", "MINE_x:Net", "no module 'MINE_x' in "),
        ("model", "MINE.nets:Net", "no module 'MINE.nets' in "),
        ("model", "MINE:number", "MINE:number: a torch.nn.Module, or a class or function that gives one, is needed"),
        ("data", "MINE:number", "MINE:number: a pair (X, y) of arrays or tensors"),
        ("partition", "MINE:number", "MINE:number: a list of arrays of positions, one a client"),
        ("model", "broken_MINE:Net", "module 'broken_MINE' does not load: "),
        ("model", "lacking_MINE:Net", "module 'lacking_MINE' does not load: No module named 'no_such_library'"),
        ("model", "{name: python, object: Net}", "is written module:attribute (got Net)"),
        ("model", "{name: python, object: Net, handed_in: true}", "is missing: it says which object was passed"),
    ],
)  # fmt: skip
def test_what_cannot_be_found_is_one_line_with_file_line_and_key(world, key, value, said):
    file, name = world
    (file.parent / f"broken_{name}.py").write_text("x = 1\nraise KeyError('no')\n")
    (file.parent / f"lacking_{name}.py").write_text("import no_such_library\n")
    lines = file.read_text().splitlines()
    (number,) = (i for i, line in enumerate(lines) if line.startswith(f"  {key}:"))
    lines[number] = f"  {key}: {value.replace('MINE', name)}"
    file.write_text("\n".join(lines))
    done = call("run", file)
    assert done.exit_code == 2 and said.replace("MINE", name) in done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{file}:{number + 1}:") and f" learning.{key}" in line


def test_two_modules_of_one_name_are_refused(world, tmp_path):
    file, name = world
    assert call("validate", file).exit_code == 0
    other = tmp_path / "other"
    shutil.copytree(file.parent, other)
    done = call("validate", other / "world.yaml")
    assert done.exit_code == 2 and f"another module '{name}' has been imported already" in done.stderr


def test_a_package_on_the_path_and_modules_that_import_neighbours(world, tmp_path, monkeypatch):
    file, name = world
    package = tmp_path / "site" / f"pack_{name}"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "nets.py").write_text(f"from pack_{name}.base import Net\n")
    (package / "base.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path / "site")
    before = list(sys.path)
    assert call("validate", file).exit_code == 0
    assert call("run", file, f"learning.model=pack_{name}.nets:Net", "-q", "--out", tmp_path / "out").exit_code == 0
    assert sys.path == before


def test_sweeps_take_names(world, tmp_path):
    file, name = world
    done = call("sweep", file, f"learning.model={name}:Net,logistic", "-q", "--jobs", 1, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    (index,) = (tmp_path / "out").glob("*/sweep-*/index.csv")
    assert index.read_text().count(",done,") == 2


def test_editors_accept_names():
    import jsonschema

    document = {"clients": 2, "selection": {"name": "random", "k": 1}, "training": {"name": "fedavg", "rounds": 1},
                "learning": {"data": "mine:load", "model": "mine:Net"}}  # fmt: skip
    jsonschema.validate(document, schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"learning": {"data": "mine:load", "model": "mine.Net"}}, schema())
