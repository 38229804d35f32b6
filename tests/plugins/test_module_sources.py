"""What runs of a module that a scenario names is what was hashed and shown: source alone, its helpers included."""

import compileall
import importlib.util
import marshal
import os
import shutil
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from simfl.learning.objects import handles
from simfl.learning.objects.module_sources import accept, module_sources
from simfl.scenario import InvalidScenario, Scenario
from simfl.scenario.plugin_files import NAMED, Trust

NUMBER = count()
NET = """
def network(in_features, num_classes):
    from torch import nn
    return nn.Linear(in_features, num_classes)
"""
WORLD = """
name: canary
clients: 4
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 2, batch_size: null}
learning:
  data: {name: synthetic, samples: 80, test_samples: 20, shape: [3], classes: 2}
  model: "MODULE:network"
trace: aggregates
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a scenario and its module ``nets``, of a name that no other test has; and that name."""
    monkeypatch.setenv("SIMFL_CACHE", str(tmp_path / "cache"))
    name = f"nets_{os.getpid()}_{next(NUMBER)}"
    (tmp_path / f"{name}.py").write_text(NET)
    (tmp_path / "world.yaml").write_text(WORLD.replace("MODULE", name))
    return tmp_path, name


def touching(mark):
    return f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"


def scenario(folder, trust=NAMED):
    return Scenario.load(folder / "world.yaml", trust=trust)


def planted_pyc(source, mark, unchecked):
    """A cache beside a source that runs something else: of the same time and size, or said to need no look."""
    code = marshal.dumps(compile(touching(mark) + NET, str(source), "exec"))
    status = source.stat()
    head = importlib.util.MAGIC_NUMBER
    if unchecked:
        head += (1).to_bytes(4, "little") + bytes(8)
    else:
        head += bytes(4) + int(status.st_mtime).to_bytes(4, "little") + status.st_size.to_bytes(4, "little")
    to = Path(importlib.util.cache_from_source(str(source)))
    to.parent.mkdir(exist_ok=True)
    to.write_bytes(head + code)


@pytest.mark.parametrize("unchecked", [False, True])
@pytest.mark.parametrize("whose", ["module", "helper", "package", "module in a package"])
def test_a_planted_cache_does_not_run(place, whose, unchecked):
    folder, name = place
    mark, helper, source = folder / "EXECUTED", f"helper_{name}", folder / f"{name}.py"
    if whose == "helper":
        source.write_text(f"import {helper}\n" + NET)
        (source := folder / f"{helper}.py").write_text("x = 1\n")
    elif whose != "module":
        (folder / helper).mkdir()
        (folder / helper / "__init__.py").write_text("x = 1\n")
        source.rename(folder / helper / "nets.py")
        source = folder / helper / ("__init__.py" if whose == "package" else "nets.py")
        (folder / "world.yaml").write_text(WORLD.replace("MODULE", f"{helper}.nets"))
    planted_pyc(source, mark, unchecked)
    whole = {"module": name, "helper": helper, "package": f"{helper}.nets", "module in a package": f"{helper}.nets"}
    plain = subprocess.run([sys.executable, "-c", f"import {whole[whose]}"], cwd=folder, check=False)
    assert plain.returncode == 0 and mark.exists()  # Python itself believes it
    mark.unlink()
    assert scenario(folder).learning.model.fingerprint and not mark.exists()


FORMS = {
    "import": "import {helper}",
    "as": "import {helper} as h",
    "from": "from {helper} import x",
    "all": "from {helper} import *",
    "in a function": "def late():\n    import {helper}",
    "in a try": "try:\n    import {helper}\nexcept ImportError:\n    pass",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_helper_needs_trust_and_counts(place, form):
    """A stranger's results: what the module imports is refused by its own name; changed, it is another run."""
    folder, name = place
    helper, mark = f"helper_{name}", folder / "EXECUTED"
    (folder / f"{name}.py").write_text(FORMS[form].format(helper=helper) + "\n" + NET)
    (folder / f"{helper}.py").write_text("x = 1\n" + touching(mark))
    sources = module_sources(name, folder)
    assert set(sources) == {name, helper}
    with pytest.raises(InvalidScenario, match=f"less .*{helper}.py"):
        scenario(folder, Trust(digests=frozenset({sources[name].mark})))
    assert not mark.exists()
    before = scenario(folder).digest
    for each in (name, helper):
        sys.modules.pop(each, None)
    (folder / f"{helper}.py").write_text("x = 1\n# other\n" + touching(mark))
    assert scenario(folder).digest != before


def test_helpers_of_helpers_and_of_packages(place):
    folder, name = place
    package = f"pack_{name}"
    (folder / package / "deep").mkdir(parents=True)
    files = {"__init__.py": "from . import a", "a.py": "from .deep.b import x", "deep/__init__.py": "",
             "deep/b.py": f"from ..c import x\nimport free_{name}", "c.py": "x = 1", "unused.py": "1 / 0"}  # fmt: skip
    for file, text in files.items():
        (folder / package / file).write_text(text)
    (folder / f"free_{name}.py").write_text("import numpy, os.path")
    (folder / "numpy.py").write_text("1 / 0")
    (folder / f"{name}.py").write_text(f"from {package} import a\n" + NET)
    found = {each.removeprefix(package) for each in module_sources(name, folder)}
    assert found == {name, "", ".a", ".deep", ".deep.b", ".c", f"free_{name}"}
    assert scenario(folder).learning.model.fingerprint


@pytest.mark.parametrize("form", ["pyc", "so", "neither source"])
def test_compiled_code_beside_a_scenario_is_not_imported(place, form):
    folder, name = place
    source = folder / f"{name}.py"
    if form == "pyc":
        compileall.compile_file(str(source), legacy=True, quiet=1)
        source.unlink()
    elif form == "so":
        (folder / f"{name}.abi3.so").write_bytes(b"\x7fELF")
    else:
        source.write_text(f"import importlib\nimportlib.import_module('dynamic_{name}')\n" + NET)
        (folder / f"dynamic_{name}.py").write_text(touching(folder / "EXECUTED"))
    with pytest.raises(InvalidScenario, match="is compiled code" if form != "neither source" else "No module named"):
        scenario(folder)
    assert not (folder / "EXECUTED").exists()


def test_a_pipe_and_a_long_file_are_one_line(place):
    folder, name = place
    (folder / f"{name}.py").write_text(f"import long_{name}\n" + NET)
    (folder / f"long_{name}.py").write_text("#" * (2**20 + 1))
    with pytest.raises(InvalidScenario, match=f"long_{name}.py.* is longer than"):
        scenario(folder)
    (folder / "world.yaml").write_text(WORLD.replace("MODULE:network", "_signal:pause"))
    with pytest.raises(InvalidScenario, match="built into Python"):
        scenario(folder)


def test_what_changes_between_the_look_and_the_import_is_not_executed(place):
    folder, name = place
    for source in module_sources(name, folder).values():
        accept(source)
    (folder / f"{name}.py").write_text(touching(folder / "EXECUTED") + NET)
    with pytest.raises(ValueError, match="has changed since it was looked at"):
        handles.load("learning.model", f"{name}:network", folder)
    assert not (folder / "EXECUTED").exists()


def test_what_changes_after_the_import_is_said(place):
    folder, name = place
    scenario(folder)
    (folder / f"{name}.py").write_text(NET + "x = 1\n")
    with pytest.raises(InvalidScenario, match="has changed since it was loaded: start Python anew"):
        scenario(folder)


def test_helpers_of_one_name_in_two_folders_are_refused(place):
    folder, name = place
    (folder / f"{name}.py").write_text(f"import helper_{name}\n" + NET)
    (folder / f"helper_{name}.py").write_text("x = 1")
    scenario(folder)
    other = folder / "other"
    other.mkdir()
    shutil.copy(folder / f"helper_{name}.py", other)
    (other / f"second_{name}.py").write_text(f"import helper_{name}\n" + NET)
    (other / "world.yaml").write_text(WORLD.replace("MODULE", f"second_{name}"))
    with pytest.raises(InvalidScenario, match=f"another module 'helper_{name}' has been imported already"):
        scenario(other)


def test_a_module_without_helpers_keeps_its_fingerprint(place):
    """Stored results of before name it."""
    folder, name = place
    known = scenario(folder).learning.model.fingerprint
    assert known == handles.fingerprint(vars(sys.modules[name])["network"])
