"""``training.aggregations: n``: a run ends with its n-th sum, however many rounds are skipped on the way."""

import csv

import pytest
from click.testing import CliRunner

import simfl
from simfl.cli import simfl as main
from simfl.core.errors import SimflError
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from tests.support.kills import files, killed_at_time

BASE = """
name: sums
seed: 3
clients: 12
network: {name: star, latency_s: {name: uniform, low: 0.1, high: 0.4}}
devices:
  availability: {name: bernoulli, dropout: 0.5}
  computation: {name: random, distribution: {name: exponential, mean: 0.5}}
  failure: {name: bernoulli, probability: 0.1}
selection: {name: random, k: 6}
training: {name: fedavg, aggregations: 5, batch_size: 10, learning_rate: 0.2}
learning:
  data: {name: synthetic, samples: 240, test_samples: 60, shape: [4], classes: 3, separation: 1.0}
  model: logistic
privacy: none
"""
BUFFER = ["concurrency=4", "buffer=3"]
SERVERS = {
    "fedavg": [],
    "aborting": ["training.on_failure=abort"],
    "quorum": ["training.quorum=5", "training.deadline_s=0.8"],
    "serverless": ["training=serverless"],
    "gossip": ["training=gossip", "topology={name: gossip, graph: ring}"],
    "fedbuff": ["training=fedbuff:concurrency=4,buffer=3"],
    "fedasync": ["training=fedasync:concurrency=4"],
    "flsim": ["training=flsim:concurrency=4,buffer=3"],
    "tree": ["topology={name: tree, edges: 2}", "selection.k=3"],
    "edge rounds": ["topology={name: tree, edges: 2, edge_rounds: 3}", "selection.k=3"],
    "cloud buffer": ["topology={name: tree, edges: 3, cloud_buffer: 2}", "selection.k=2"],
    "servers": ["topology={name: servers, servers: 2}", "selection.k=3"],
}
"""Overrides of each kind of server."""


def parse(kind, *more):
    changes = SERVERS[kind]
    again = ["training.aggregations=5"] if any(change.startswith("training=") for change in changes) else []
    return Scenario.parse(BASE, "sums", overrides=[*changes, *again, *more])


def rows(path):
    with open(path / "rounds.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("kind", SERVERS)
def test_the_run_ends_with_the_last_of_so_many_sums(kind, tmp_path):
    """The same run by rounds, of as many, is the same round by round: nothing but the end is decided by it."""
    made = rows(run(parse(kind), tmp_path).path)
    assert [row["skipped"] for row in made].count("0") == 5 and made[-1]["skipped"] == "0"
    if kind in ("fedavg", "aborting", "quorum", "serverless", "gossip"):
        assert len(made) > 5, "rounds are skipped in this test"
    by_rounds = parse(kind, "training.aggregations=null", f"training.rounds={len(made)}")
    assert rows(run(by_rounds, tmp_path / "by").path) == made


@pytest.mark.parametrize("kind", SERVERS)
def test_a_run_that_was_killed_counts_on(kind, tmp_path):
    whole = run(parse(kind), tmp_path / "whole")
    time_s = 0.6 * float(rows(whole.path)[-1]["time_s"])
    assert killed_at_time(time_s, lambda: run(parse(kind), tmp_path / "killed"))
    assert files(run(parse(kind), tmp_path / "killed").path) == files(whole.path)


def test_a_finished_run_is_made_longer(tmp_path):
    file = tmp_path / "sums.yaml"
    file.write_text(BASE)
    short, whole = (run(Scenario.parse(BASE, "sums", overrides=[f"training.aggregations={n}"]), tmp_path / str(n))
                    for n in (4, 9))  # fmt: skip
    longer = simfl.run(short.path, {"training.aggregations": 9}, out=tmp_path / "longer")
    assert files(longer.path) == files(whole.path)
    with pytest.raises(SimflError, match=r"training.rounds: may end the run earlier"):
        simfl.run(short.path, {"training.aggregations": 3}, out=tmp_path / "shorter")


def test_rounds_beside_it_are_the_most_and_a_run_that_falls_short_says_so(tmp_path):
    file = tmp_path / "sums.yaml"
    file.write_text(BASE)
    never = ["devices.availability.dropout=0.99", "training.rounds=7"]
    ended = CliRunner().invoke(main, ["run", str(file), *never, "--out", str(tmp_path)])
    assert ended.exit_code == 0 and "0 of 5 aggregations in 7 rounds" in ended.stderr
    ended = CliRunner().invoke(main, ["run", str(file), "--out", str(tmp_path)])
    assert ended.exit_code == 0 and "aggregations in" not in ended.stderr


def test_a_policy_that_never_sums_ends_with_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("simfl.agents.servers.MAX_EMPTY_ATTEMPTS", 50)
    with pytest.raises(SimflError, match="50 rounds in a row have summed nothing"):
        run(Scenario.parse(BASE, "sums", overrides=["devices.availability.dropout=0.9999"]), tmp_path)


def test_what_needs_the_number_of_rounds_asks_for_it():
    """Who takes part decides how many rounds there are: no noise is amplified, no schedule of rounds is known."""
    noise = "privacy={stages: [{name: central_gaussian}], accountants: [{name: rdp, amplification: poisson}]}"
    chance = [
        "selection={name: bernoulli, k: 4, probability: 0.5}",
        "training.weighting=equal",
        "training.denominator=expected",
    ]
    with pytest.raises(InvalidScenario, match="who takes part decides when the run ends; give training.rounds"):
        Scenario.parse(BASE, "sums", overrides=[noise, *chance])
    with pytest.raises(InvalidScenario, match="training.rounds does not say how many there are"):
        Scenario.parse(BASE, "sums", overrides=["training.schedule=cosine"])
    with pytest.raises(InvalidScenario, match="nothing ends the run: give rounds or aggregations"):
        Scenario.parse(BASE, "sums", overrides=["training.aggregations=null"])
    with pytest.raises(InvalidScenario, match="aggregations"):
        Scenario.parse(BASE, "sums", overrides=["training.aggregations=0"])


def test_scenarios_that_do_not_say_it_keep_their_digest():
    text = BASE.replace("aggregations: 5", "rounds: 5")
    assert "aggregations" not in str(Scenario.parse(text, "sums").plain())
