"""Attackers beside personal models: every plugin of both families together works, or is refused in a line."""

import csv
import json

import numpy as np
import pytest

from simfl.clients.base import PERSONAL
from simfl.clients.client_agents import CLIENT_AGENTS
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario

SCENARIO = """
name: personal
clients: 8
seed: 2
network: {name: star, latency_s: {name: uniform, low: 0.1, high: 0.4}}
selection: {name: random, k: 6}
training: {name: fedavg, rounds: 2, batch_size: 8, learning_rate: 0.2, weighting: equal, deadline_s: 100}
learning:
  data: {name: synthetic, samples: 320, test_samples: 60, shape: [1, 8, 8], classes: 3}
  model: {name: mlp, hidden: [6]}
  holdout: {validation: 0.25}
  evaluate: {every: 2, per_client: true}
privacy: none
metrics: [attackers]
"""
NORMED = "learning.model={name: resnet8, width: 4}"
"""Of a personal plugin that keeps norm layers."""
PERSONALS = [name for name, cls in PERSONAL.items() if cls.__module__.startswith("simfl.") and name != "none"]
ATTACKERS = [name for name, cls in CLIENT_AGENTS.items() if cls.attacks and cls.__module__.startswith("simfl.")]
QUIET = "liar", "cutter"
"""Attackers whose updates are what they have trained."""


def chosen(registry, name):
    return json.dumps({"name": name, **registry[name].example})


def parse(personal, agent, clients):
    group = f'agents.client={{name: mixed, groups: [{{agent: {chosen(CLIENT_AGENTS, agent)}, clients: "{clients}"}}]}}'
    personally = f"training.personal={chosen(PERSONAL, personal)}"
    return Scenario.parse(SCENARIO, "personal", [personally, group, *([NORMED] if personal == "fedbn" else [])])


def play(scenario, folder):
    path = run(scenario, folder).path
    with open(path / "rounds.csv", newline="") as lines:
        return np.load(path / "model.npy"), list(csv.DictReader(lines))


def test_there_are_plugins_of_both_families():
    assert len(PERSONALS) >= 4 and len(ATTACKERS) == 12


@pytest.mark.parametrize("agent", ATTACKERS)
@pytest.mark.parametrize("personal", PERSONALS)
def test_an_attacker_beside_personal_models_works_or_is_refused_in_a_line(personal, agent, tmp_path):
    try:
        scenario = parse(personal, agent, "0-2")
    except InvalidScenario as refused:
        reasons = [line for line in str(refused).splitlines() if line.strip()]
        assert reasons and all(": " in line for line in reasons) and "Traceback" not in str(refused)
        return
    model, rows = play(scenario, tmp_path / "attacked")
    honest, wanted = play(parse(personal, "liar", "0-2"), tmp_path / "honest")
    assert np.isfinite(model).all() and len(rows) == 2
    assert [row["cardinality"] for row in rows] == [row["cardinality"] for row in wanted] or agent == "cutter"
    nothing_sent = not any(part.kind in ("update", "model") for part in scenario.training.algorithm.sends)
    if agent not in QUIET and not nothing_sent:
        assert not np.array_equal(model, honest), "the attack reaches the global model"
    if nothing_sent:
        assert np.array_equal(model, honest)
    assert sum(int(row["attackers"]) for row in rows) > 0 or nothing_sent or agent == "cutter"
