"""Killed anywhere and resumed: the same bytes, over random scenarios and everybody's plugins."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from kills import counted, files, killed_at
from random_scenarios import random_scenario
from test_seams import FEDAVG, FEDBUFF, USES, scenario

from simfl.agents import buffered, drawn
from simfl.errors import SimflError
from simfl.run import run

PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr("simfl.agents.asking.PATIENCE", 300)
    for server in (buffered, drawn):
        monkeypatch.setattr(server, "FRUITLESS", 300)


def whole(made, out):
    """The files of an undisturbed run and its number of steps; None if it stalls."""
    try:
        with counted() as steps:
            folder = run(made, out).path
    except SimflError:
        return None
    return files(folder), steps.done


def after_kills(made, out, steps):
    """The files of a run that dies at each of these steps, counted from where it was resumed."""
    for step in steps:
        if not killed_at(step, lambda: run(made, out)):
            break
    return files(run(made, out).path)


@pytest.mark.parametrize("number", range(20))
def test_a_random_scenario_killed_twice_gives_the_same_bytes(tmp_path, number):
    rng = np.random.default_rng([2028, number])
    found = None
    while found is None:
        made, _ = random_scenario(rng, PLUGINS)
        found = whole(made, tmp_path / "whole")
    expected, steps = found
    for kill in range(2):
        again = after_kills(made, tmp_path / str(kill), rng.integers(steps, size=2).tolist())
        assert again == expected


@pytest.mark.parametrize("number", range(6))
def test_every_step_of_the_last_rounds_and_of_finishing(tmp_path, number):
    rng = np.random.default_rng([2029, number])
    found = None
    while found is None:
        made, _ = random_scenario(rng, PLUGINS)
        found = whole(made, tmp_path / "whole")
    expected, steps = found
    for step in range(max(0, steps - 60), steps):
        assert killed_at(step, lambda: run(made, tmp_path / "again"))
        assert files(run(made, tmp_path / "again").path) == expected, step
        shutil.rmtree(tmp_path / "again")


@pytest.mark.parametrize("training", [FEDAVG, FEDBUFF], ids=["fedavg", "fedbuff"])
@pytest.mark.parametrize("plugin", USES)
def test_everybodys_plugins_killed_at_random_steps(tmp_path, plugin, training):
    made = scenario(plugin, training, "trace=events")
    expected, steps = whole(made, tmp_path / "whole")
    rng = np.random.default_rng(5)
    for kill, step in enumerate([*rng.integers(steps, size=2).tolist(), steps - 3]):
        assert after_kills(made, tmp_path / str(kill), [step]) == expected
