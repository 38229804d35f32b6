"""The program that is written by hand and simfl's run of the same scenario, row by row."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

from simfl.core.registration.family_index import undone
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.support.page import blocks

EXAMPLES = Path(__file__).resolve().parents[2] / "docs/examples"
SCRIPT = EXAMPLES / "fedavg_by_hand.py"


@pytest.fixture(scope="module")
def by_hand():
    variables = {"__name__": "by_hand"}
    exec(compile(SCRIPT.read_text(), SCRIPT, "exec"), variables)
    return variables["rounds"]()


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    loaded = set(sys.modules)
    with undone():
        yield run(Scenario.load(EXAMPLES / "fedavg_by_hand.yaml"), tmp_path_factory.mktemp("results")).path
    for name in [name for name in sys.modules if name.startswith("simfl_plugin_") and name not in loaded]:
        del sys.modules[name]


def test_the_script_imports_nothing_of_simfl():
    imported = set()
    for node in ast.walk(ast.parse(SCRIPT.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        assert not isinstance(node, ast.ImportFrom)
    assert imported == {"numpy", "simpy"}


def test_every_round_ends_at_the_same_time_with_the_same_clients(by_hand, played):
    table = pandas.read_csv(played / "rounds.csv")
    members = pandas.read_csv(played / "participation.csv").groupby("round").client.agg(list)
    assert table["round"].tolist() == [row[0] for row in by_hand]
    np.testing.assert_allclose(table["time_s"], [row[1] for row in by_hand], rtol=0, atol=1e-9)
    assert members.tolist() == [row[2] for row in by_hand]


def test_some_rounds_end_with_the_last_update_and_some_at_the_deadline(by_hand):
    ends = np.array([0.0, *(row[1] for row in by_hand)])
    lasted = np.diff(ends)
    assert (lasted == 3.0).any() and (lasted < 2.9).any() and len({tuple(row[2]) for row in by_hand}) >= 4


def test_every_round_measures_the_same(by_hand, played):
    table = pandas.read_csv(played / "rounds.csv")
    assert table["test_accuracy"].tolist() == [row[3] for row in by_hand]
    np.testing.assert_allclose(table["test_loss"], [row[4] for row in by_hand], rtol=2e-6)


def test_the_models_are_equal_up_to_rounding(by_hand, played):
    np.testing.assert_allclose(np.load(played / "model.npy"), by_hand[-1][5], rtol=0, atol=5e-6)
    assert np.abs(by_hand[-1][5]).max() > 0.5, "it has learned something"


def test_the_page_shows_what_the_script_prints(by_hand):
    said = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True).stdout
    page = (EXAMPLES.parent / "tutorials/by-hand.md").read_text()
    assert len(said.splitlines()) == len(by_hand)
    assert said in [code for language, code, _ in blocks(page) if language == "text"]
