"""The simulator stands without its rims: a copy of it, without the packages that nothing inside imports."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import simfl
from simfl.core.registration.packages import all_packages, is_rim
from tests.whole.test_architecture import RIMS

HERE = Path(simfl.__file__).parents[1]
FEDBUFF = ["training=fedbuff", "training.concurrency=4", "training.buffer=2", "training.rounds=2"]
SCENARIOS = {
    "accountant": [
        "training.weighting=equal",
        "privacy.stages=[{name: central_gaussian, clip_norm: 1.0, noise_multiplier: 1.0}]",
        "privacy.accountants=[rdp]",
    ],
    "agents": ["agents.client=dozing:online_s=2,offline_s=1"],
    "aggregate": ["training.aggregate=shrunk"],
    "arrivals": [*FEDBUFF, "training.arrivals=clock"],
    "attack": ["attacks=[least_squares]"],
    "availability": ["devices.availability=markov:mean_on_rounds=5,mean_off_rounds=2"],
    "backend": ["learning.backend=sequential"],
    "client": ["training.client=scaffold"],
    "compression": ["compression=top_k:share=0.1"],
    "computation": ["devices.computation=constant"],
    "data": ["learning.data=synthetic"],
    "distribution": ["network.latency_s={name: exponential, mean: 0.1}"],
    "failure": ["devices.failure=none"],
    "learning": ["learning=none"],
    "metric": ["metrics=[model_change]"],
    "model": ["learning.model=logistic"],
    "network": ["network=ring"],
    "partition": ["learning.partition=dirichlet:beta=1"],
    "personal": ["training.personal=fine_tune"],
    "privacy": ["privacy=none"],
    "schedule": ["training.schedule=cosine"],
    "secagg": ["secagg=secagg"],
    "selection": ["selection=batch_partition:T=2"],
    "server_optimiser": ["training.server_optimiser=adam"],
    "stage": ["privacy.stages=[{name: clipping, norm: 1.0}]"],
    "staleness": [*FEDBUFF, "training.staleness=polynomial"],
    "topology": ["topology=tree:edges=2"],
    "training": [*FEDBUFF],
    "transform": ["learning.transform=rotation"],
}
"""For each family what a small run has of one of its plugins."""
SMALL = ["clients=8", "selection.k=4", "training.rounds=2"]

IMPORTED = """
import importlib, pkgutil, sys
import simfl
names = [module.name for module in pkgutil.walk_packages(simfl.__path__, "simfl.") if "__main__" not in module.name]
for name in names:
    try: importlib.import_module(name)
    except ModuleNotFoundError as error:  # an extra's library
        if error.name.startswith("simfl"): raise
print(len(names))
"""
PLAYED = """
import json, sys
from pathlib import Path
import simfl.scenario.model
from simfl.core.registration.family_index import FAMILIES, broken
from simfl.runs.run import run
from simfl.scenario import Scenario
scenarios = json.loads(sys.argv[1])
assert not broken() and set(FAMILIES) - {"server"} == set(scenarios), set(FAMILIES) ^ set(scenarios)
for family, words in scenarios.items():
    assert (run(Scenario.load("quickstart", words), Path(family)).path / "summary.json").is_file(), family
"""

ONLY_HERE = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in finder.__module__]
"""
"""What an editable install adds would find the deleted packages in the checkout."""


WORDS = RIMS | {word for entry in all_packages() if is_rim(entry) for word in entry.name.split()} - {"client"}
NAMED = re.compile(rf"(?<![a-z])({'|'.join(sorted(WORDS))})(?![a-z])")
"""Names a rim, or a plugin or command of one."""
OF_THE_WHOLE = (
    "test_the_page_about_columns_is_the_list|test_every_role_leads_somewhere|test_pages_say_what_their_evidence_carries"
)
"""Tests of pages about the rims, too."""
LEFT_OUT = f"""
import re

def pytest_collection_modifyitems(items):
    items[:] = [each for each in items if not re.search({f"{NAMED.pattern}|{OF_THE_WHOLE}"!r}, each.nodeid)]
"""


@pytest.fixture(scope="module")
def without_rims(tmp_path_factory):
    """Calls Python on a copy of the checkout in which they are deleted; its metadata still name what they have."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("simfl", "tests", "scenarios", "docs", "results", "benchmarks"):
        shutil.copytree(HERE / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "README.md", "CHANGELOG.md"):
        shutil.copy(HERE / name, copy / name)
    for rim in RIMS:
        shutil.rmtree(copy / "simfl" / rim)
    for file in (copy / "scenarios").glob("*.yaml"):
        if NAMED.search(file.stem):  # a scenario of theirs
            file.unlink()
    (copy / "sitecustomize.py").write_text(ONLY_HERE)
    (copy / "left_out.py").write_text(LEFT_OUT)

    def call(*words):
        done = subprocess.run([sys.executable, "-P", *words], cwd=copy, text=True, capture_output=True,
                              env=os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"})  # fmt: skip
        return done

    return call


def test_every_other_module_is_imported(without_rims):
    done = without_rims("-c", IMPORTED)
    assert done.returncode == 0 and int(done.stdout) > 400, done.stderr


def test_a_run_of_each_family_is_played(without_rims):
    done = without_rims("-c", PLAYED, json.dumps({family: [*SMALL, *words] for family, words in SCENARIOS.items()}))
    assert done.returncode == 0, done.stderr


def test_the_architecture_holds(without_rims):
    done = without_rims("-m", "pytest", "-q", "-p", "no:xdist", "-o", "addopts=", "tests/whole/test_architecture.py")
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["audit", "log.csv"], "simfl audit is of simfl.deployment, which no installed package offers"),
        (["run", "quickstart", "secagg=oblivious"], "unknown secagg"),
        (["validate", "quickstart", "training.personal=fedltn"], "unknown personal"),
    ],
)
def test_what_they_have_is_missing_in_one_line(without_rims, words, line):
    done = without_rims("-m", "simfl", *words)
    assert done.returncode in (2, 5) and line in done.stderr and "Traceback" not in done.stderr
    assert "simfl.deployment" not in without_rims("-m", "simfl", "--help").stdout


@pytest.mark.slow
def test_the_suite_passes_but_for_the_tests_of_rims(without_rims):
    """What names a rim, or a plugin or command of one, or imports such a file of tests, is about it."""
    files = [*(HERE / "tests").rglob("*.py"), *(HERE / "benchmarks").glob("*.py")]
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(files)}
    about = {path for path, text in texts.items() if NAMED.search(text)}
    for _ in range(3):  # who imports one that imports one
        modules = "|".join(path.stem for path in about)
        imports = re.compile(rf"^from (tests\.[\w.]*)?\b({modules})\b", re.M)
        about |= {path for path, text in texts.items() if imports.search(text)}
    tests = [path for path in texts if path.stem.startswith("test_") and path not in about]
    done = without_rims("-m", "pytest", "-q", "-p", "left_out", *(str(path.relative_to(HERE)) for path in tests))
    assert len(tests) > 80 and done.returncode == 0, done.stdout
