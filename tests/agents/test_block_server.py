"""Blocks of arrivals as one event give what an event for every job gives: rounds, jobs, checkpoints, also resumed."""

import copy
from unittest import mock

import numpy as np
import pytest

from simfl.agents.buffered import block_server
from simfl.agents.buffered import server as buffered
from simfl.agents.buffered.block_server import BlockServer
from simfl.agents.buffered.server import BufferedServer
from simfl.agents.server_choice import make_server
from simfl.agents.world import World
from simfl.core.errors import SimflError
from simfl.runs.run import build, run
from simfl.scenario import Scenario
from tests.agents.test_buffered_runs import tables

TEXT = """
name: blocks
clients: 60
network: {name: star, latency_s: {name: log_normal, median: 0.05, sigma: 1}, bandwidth_bytes_per_s: 1.0e+4}
devices:
  availability: {name: bernoulli, dropout: 0.3}
  computation: {name: random, distribution: {name: half_normal, sigma: 3.0}}
  failure: {name: bernoulli, probability: 0.1}
selection: {name: random, k: 8}
training: {name: fedbuff, concurrency: 20, buffer: 8, rounds: 25, staleness: polynomial}
learning: {name: none, parameters: 100, samples: 5}
privacy: none
"""

TIES = [
    "network={name: star, latency_s: 0.25}",
    "devices.computation={name: random, distribution: {name: empirical, values: [0.0, 0.25, 0.5, 1.0]}}",
]
INSTANT = [
    "network={name: star}",
    "devices.computation={name: random, distribution: {name: empirical, values: [0.0, 1.0]}}",
]
CASES = {
    "as it is": [],
    "ties": TIES,
    "no time passes": INSTANT,
    "stale": ["training.max_staleness=1"],
    "ties and stale": [*TIES, "training.max_staleness=1", "training.buffer=3"],
    "lookahead": ["training.lookahead=45"],
    "nobody left to ask": ["clients=21", *TIES, "training.retry_s=0.25"],
    "buffer of all": ["training.buffer=20"],
    "buffer above concurrency": ["training.concurrency=5"],
    "one after another": ["training.concurrency=1", "training.buffer=1"],
    "most fail": ["devices.failure.probability=0.7"],
    "markov": ["devices.availability={name: markov, mean_on_rounds: 6, mean_off_rounds: 6}"],
    "by time": ["training.rounds=null", "training.stop={time_s: 12}"],
    "own": ["training.unit_weights=own"],
}


def played(overrides, make, state=None, tally=None):
    """Rounds, and the states and tallies after them, of a run in memory."""
    parts = build(Scenario.parse(TEXT, "s", overrides))
    rounds, states = [], []

    def on_round(done):
        rounds.append((done.number, done.row, done.clients.tolist(), done.weights.tolist(), done.jobs))
        if not done.last:
            states.append((copy.deepcopy(server.state()), copy.deepcopy(server.tally)))

    server = make(parts, World(0.0 if state is None else float(state["time_s"])), on_round)
    if state is not None:
        server.restore(state, tally)
    server.world.run(server.world.spawn(server.run()))
    return type(server), rounds, states


@pytest.mark.parametrize("overrides", CASES.values(), ids=CASES)
def test_blocks_give_what_single_events_give(overrides):
    kind, rounds, states = played(overrides, make_server)
    other_kind, other_rounds, other_states = played(overrides, BufferedServer)
    assert (kind, other_kind) == (BlockServer, BufferedServer)
    assert rounds == other_rounds and len(rounds) > 3
    for (one, _), (other, _) in zip(states, other_states, strict=True):
        assert one.keys() == other.keys()
        for name, values in one.items():
            np.testing.assert_array_equal(values, other[name], name)
            assert np.asarray(values).dtype == np.asarray(other[name]).dtype, name
    for at in (0, len(states) // 2, len(states) - 1):
        for make in (make_server, BufferedServer):
            assert played(overrides, make, *copy.deepcopy(states[at]))[1] == rounds[at + 1 :]


@pytest.mark.parametrize(
    "overrides",
    [
        ["training.deadline_s=2.0"],
        ["network.server={down_bytes_per_s: 1.0e+4, up_bytes_per_s: 1.0e+4}"],
        ["selection={name: batch_partition, k: 8, T: 4}"],
    ],
    ids=["deadline", "shared link", "units"],
)
def test_what_depends_on_single_events_has_them(overrides):
    assert type(make_server(build(Scenario.parse(TEXT, "s", overrides)), World(), lambda done: None)) is BufferedServer


def test_a_trace_changes_no_table(tmp_path):
    """A traced run has an event for every job."""
    one, other = (tables(run(Scenario.parse(TEXT, "s", [f"trace={to}"]), tmp_path).path) for to in ("rounds", "events"))
    traced = other.pop("events.jsonl")
    assert one == other and traced.count(b'"kind":"model"') == one["jobs.csv"].count(b"\n") - 1


def test_a_run_in_which_all_fail_ends_with_the_same_words():
    errors = []
    for make in (make_server, BufferedServer):
        limits = (mock.patch.object(module, "MAX_FAILED_JOBS", 30) for module in (block_server, buffered))
        with next(limits), next(limits), pytest.raises(SimflError, match="31 jobs in a row have failed") as caught:
            played(["devices.failure.probability=1"], make)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
