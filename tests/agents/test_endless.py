"""Runs that something ends which never comes: given up with one line; those that merely wait are not."""

import pytest

from simfl.agents.aggregation import global_model
from simfl.core.errors import SimflError
from simfl.runs.run import run
from simfl.scenario import Scenario

WORLD = """
clients: 4
network: {name: star, latency_s: 0}
selection: {name: random, k: 2}
learning: none
privacy: none
"""
TIMELESS = {
    "fedavg": "{name: fedavg, stop: {time_s: 1}}",
    "fedbuff": "{name: fedbuff, stop: {time_s: 1}}",
    "drawn": "{name: fedbuff, stop: {time_s: 1}, arrivals: {name: uniform_staleness, seconds: 0}}",
    "no bytes": "{name: fedavg, stop: {traffic_bytes: 1}}",
}


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(global_model, "MAX_STAGNANT_ROUNDS", 50)


@pytest.mark.parametrize("training", TIMELESS.values(), ids=TIMELESS)
def test_a_run_that_never_ends_is_given_up(tmp_path, training):
    with pytest.raises(SimflError, match="stalls at 0 simulated seconds: 55 rounds in a row .* give training.rounds"):
        run(Scenario.parse(f"{WORLD}training: {training}"), tmp_path)


@pytest.mark.parametrize(
    "limit", ["rounds: 100", "stop: {client_updates: 200}", "stop: {time_s: 1, client_updates: 200}"]
)
def test_what_ends_is_played_to_its_end(tmp_path, limit):
    done = run(Scenario.parse(f"{WORLD}training: {{name: fedavg, {limit}}}"), tmp_path)
    assert (done.summary["rounds"], done.summary["time_s"]) == (100, 0)


def test_many_updates_may_fall_on_one_instant(tmp_path):
    """All 300 clients start at once and take a second each: 300 aggregations of one update, at one instant."""
    world = WORLD.replace("clients: 4", "clients: 300").replace("k: 2", "k: 1")
    rule = "{name: fedbuff, stop: {time_s: 2}, concurrency: 300, buffer: 1, lookahead: 300}"
    text = f"{world}devices: {{computation: {{name: constant, seconds: 1}}}}\ntraining: {rule}"
    done = run(Scenario.parse(text), tmp_path)
    assert (done.summary["rounds"], done.summary["time_s"]) == (301, 2)


def test_a_night_without_anybody_is_waited_for(tmp_path):
    night = "{name: trace, inline: [[0, 100, 200], [1, 100, 200]], period: 200, unit: seconds}"
    text = f"{WORLD}devices: {{availability: {night}}}\ntraining: {{name: fedavg, stop: {{client_updates: 4}}}}"
    done = run(Scenario.parse(text), tmp_path)
    assert (done.summary["rounds"], done.summary["skipped"], done.summary["time_s"]) == (102, 100, 100)
