"""Killed anywhere and resumed: the same bytes, over random scenarios and everybody's plugins.

Thousands of kills: ``benchmarks/reliability.py --size nightly --only 2``.
"""

import numpy as np
import pytest

from tests.plugins.test_public_interface import FEDAVG, FEDBUFF, USES, scenario
from tests.support.search import after_kills, impatient, killed, whole


@pytest.fixture(autouse=True)
def soon():
    with impatient():
        yield


@pytest.mark.parametrize("number", range(6))
def test_a_random_scenario_killed_twice_gives_the_same_bytes(tmp_path, number):
    _, wrong = killed(number, tmp_path, seed=2028)
    assert not wrong


@pytest.mark.parametrize("number", range(2))
def test_every_step_of_the_last_rounds_and_of_finishing(tmp_path, number):
    kills, wrong = killed(number, tmp_path, seed=2029, tries=0, last=60)
    assert not wrong and kills >= 30


@pytest.mark.parametrize("training", [FEDAVG, FEDBUFF], ids=["fedavg", "fedbuff"])
@pytest.mark.parametrize("plugin", USES)
def test_everybodys_plugins_killed_at_random_steps(tmp_path, plugin, training):
    made = scenario(plugin, training, "trace=events")
    expected, steps = whole(made, tmp_path / "whole")
    rng = np.random.default_rng(5)
    for kill, step in enumerate([int(rng.integers(steps)), steps - 3]):
        assert after_kills(made, tmp_path / str(kill), [step]) == (expected, 1)
