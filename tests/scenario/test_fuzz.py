"""Damaged scenarios, overrides and command lines: a clean scenario error or a scenario, and nothing else.

A million scenarios and a hundred thousand overrides: ``benchmarks/reliability.py --size nightly --only 4``.
"""

from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from simfl.cli import simfl
from simfl.scenario import InvalidScenario, Scenario
from simfl.scenario.yaml import reader
from tests.support.mutations import mutated
from tests.support.scenario_samples import GOOD

HOME = Path(__file__).resolve().parents[2]
TEXTS = [path.read_text() for path in sorted((HOME / "scenarios").glob("*.yaml"))]
TEXTS += [GOOD, Scenario.parse(GOOD, "full").to_yaml()]

OVERRIDES = """training.rounds=50 seed=3 selection=batch_partition:k=4,T=2 selection=random:k=3 selection.name=weighted
network.latency_s=0.3 network.latency_s=log_normal:median=1,sigma=0.2 network={name:\x20star} network.names=[a,b]
devices.failure=bernoulli:probability=0.1 devices.availability.dropout={choices:\x20[0.1,0.2]} network.names.0=c
training.decay_at=[1,2] training.decay_at.1=3 learning=none learning.model=mlp:hidden=[3,4] learning.evaluate=5
learning.partition.name=dirichlet name=x trace=events privacy=none devices.computation.speed.sigma=0.5 a.b.c=1
learning.none.x=1 devices= 0=1 selection.0=1 secagg.name=plain training.batch_size=null""".split()


def outcome(text, overrides=()):
    """Whether the scenario is valid; its error must be clean."""
    try:
        Scenario.parse(text, "fuzz", overrides)
    except InvalidScenario as error:
        assert error.problems and str(error).replace("\n", "").isprintable()
        return False
    return True


def test_damaged_scenarios():
    rng = np.random.default_rng(20261)
    valid = sum(outcome(mutated(TEXTS[rng.integers(len(TEXTS))], rng)) for _ in range(1_500))
    assert 15 < valid < 750, "the damage must leave some scenarios valid and break most"


def test_damaged_scenarios_and_the_parser_in_pure_python(monkeypatch):
    monkeypatch.setattr(reader, "Loader", yaml.SafeLoader)
    rng = np.random.default_rng(20262)
    for _ in range(80):
        outcome(mutated(TEXTS[rng.integers(len(TEXTS))], rng))


def test_damaged_overrides():
    rng = np.random.default_rng(20263)
    valid = 0
    for _ in range(400):
        chosen = [OVERRIDES[at] for at in rng.integers(len(OVERRIDES), size=rng.integers(1, 4))]
        valid += outcome(GOOD, [mutated(one, rng) if rng.random() < 0.6 else one for one in chosen])
    assert 13 < valid < 270


@pytest.mark.parametrize("command", ["validate", "show"])
def test_damaged_files_through_the_command_line(tmp_path, command):
    rng = np.random.default_rng(20264)
    file = tmp_path / "fuzz.yaml"
    codes = set()
    for _ in range(100):
        damaged = mutated(TEXTS[rng.integers(len(TEXTS))], rng)
        file.write_bytes(damaged.encode("utf-8", errors="surrogateescape"))
        result = CliRunner().invoke(simfl, [command, str(file)])
        assert result.exit_code in (0, 2, 5), (result.output, damaged)
        assert "Traceback" not in result.output and not isinstance(result.exception, (ValueError, TypeError, KeyError))
        if result.exit_code == 2:
            assert result.stderr.startswith(str(file))
        codes.add(result.exit_code)
    assert codes - {5} == {0, 2}


@pytest.mark.slow
def test_a_hundred_thousand_damaged_scenarios():
    rng = np.random.default_rng(20265)
    for _ in range(100_000):
        outcome(mutated(TEXTS[rng.integers(len(TEXTS))], rng))
