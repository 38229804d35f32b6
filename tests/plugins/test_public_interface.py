"""The seams: what somebody else's protocol, stage, accountant, observer, client variant or peer rule can do.

Each is one file in tests/support/plugins, written against the public interface, and named by a scenario's ``plugins``;
beside them the attacks that are built in.
"""

import csv
import dataclasses
import io
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from simfl.agents.aggregation.components import Components
from simfl.agents.servers import SERVERS
from simfl.agents.world import World
from simfl.core.rng import Streams
from simfl.report.html_page import page
from simfl.report.study_reader import read_study
from simfl.results import checkpoint
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from simfl.training.fedavg import FedAvg
from simfl.training.fedbuff import FedBuff
from tests.support.scripted import Recorder, Script

PLUGINS = Path(__file__).resolve().parents[1] / "support" / "plugins"

BASE = """
name: seams
clients: 12
network: {name: star, latency_s: {name: log_normal, median: 0.1, sigma: 0.4}, bandwidth_bytes_per_s: 1.0e+6,
          jitter_s: {name: exponential, mean: 0.02}}
devices:
  availability: {name: bernoulli, dropout: 0.1}
  computation: {name: random, distribution: {name: half_normal, sigma: 1.0}}
  failure: {name: bernoulli, probability: 0.05}
selection: {name: batch_partition, k: 4, T: 2}
learning: {data: digits, model: logistic, evaluate: {every: 2, per_client: true}}
"""
FEDAVG = "training: {name: fedavg, rounds: 6, batch_size: 50}\n"
FEDBUFF = "training: {name: fedbuff, rounds: 6, concurrency: 6, batch_size: 50, staleness: polynomial}\n"
USES = {
    "three_phases": "secagg: three_phases\n",
    "gaussian": "privacy: {stages: [{name: gaussian_sum, clip_norm: 2.0, z: 0.01}], accountants: [zcdp]}\n",
    "recorder": "attacks: [recorder]\nsecagg: plain\n",
    "personal": "",
    "attacks": """
attacks:
- least_squares
- {name: least_squares, view: public, estimator: ridge, forget: 0.1}
- {name: inversion, method: analytic, window: 3}
- {name: inversion, label: matched, clients: [1], steps: 3}
- {name: membership, clients: [0, 1]}
- {name: membership, label: own, game: in_client, others: alike, window: 2}
- {name: membership, label: taught, statistic: logits}
- {name: membership, label: ranks, game: in_client, statistic: fedmia}
- {name: membership, label: slopes, game: in_client, statistic: fedmia_gradient, clients: [2], view: public}
- collusion
""",
}
"""What a scenario says to use each file of tests/support/plugins, or of the attacks that are built in, all of them."""


def scenario(plugin, training, *overrides):
    text = BASE + training + USES[plugin] + named(plugin)
    if plugin == "personal":
        overrides = ("training.client=private_head", *overrides)
    return Scenario.parse(text, "seams", overrides, PLUGINS)


def named(plugin):
    """The scenario's line of plugins."""
    return f"plugins: [{plugin}.py]\n" if (PLUGINS / f"{plugin}.py").exists() else ""


def tables(folder):
    files = [*Path(folder).glob("*.csv"), *Path(folder).glob("findings.json"), Path(folder) / "model.npy"]
    return {path.name: path.read_bytes() for path in sorted(files)}


def rows(folder, name):
    with open(folder / name, newline="") as file:
        return list(csv.DictReader(file))


class _Killed(Exception):
    pass


def killed_and_resumed(scenario, out, monkeypatch, at):
    """The run's folder after it died just before its checkpoint number ``at`` was followed by anything."""
    saved = []

    def save(*arguments):
        checkpoint_save(*arguments)
        saved.append(arguments[1])
        if len(saved) == at:
            raise _Killed

    checkpoint_save = checkpoint.save
    monkeypatch.setattr(checkpoint, "save", save)
    with pytest.raises(_Killed):
        run(scenario, out)
    monkeypatch.setattr(checkpoint, "save", checkpoint_save)
    return run(scenario, out, resume=True).path


@pytest.mark.parametrize("training", [FEDAVG, FEDBUFF], ids=["fedavg", "fedbuff"])
@pytest.mark.parametrize("plugin", USES)
def test_a_killed_run_goes_on_to_the_same_bytes(plugin, training, tmp_path, monkeypatch):
    made = scenario(plugin, training)
    whole = tables(run(made, tmp_path / "whole").path)
    for at in (1, 4):
        assert tables(killed_and_resumed(made, tmp_path / str(at), monkeypatch, at)) == whole


@pytest.mark.parametrize("training", [FEDAVG, FEDBUFF], ids=["fedavg", "fedbuff"])
def test_no_attack_moves_anything(training, tmp_path):
    """With all attacks, and with none: the same files but for what the attacks say."""
    made = scenario("attacks", training)
    asked, left = tables(run(made, tmp_path).path), tables(run(dataclasses.replace(made, attacks=()), tmp_path).path)
    told = {"attacks.csv", "findings.json", "rounds.csv"}
    assert {name: data for name, data in asked.items() if name not in told} == {
        name: data for name, data in left.items() if name not in told
    }
    mine, theirs = (list(csv.DictReader(io.StringIO(data["rounds.csv"].decode()))) for data in (asked, left))
    assert [{name: row[name] for name in theirs[0]} for row in mine] == theirs and len(mine[0]) > len(theirs[0])


@pytest.mark.parametrize("plugin", USES)
def test_processes_of_a_sweep_give_the_same_bytes(plugin, tmp_path, one_worker):
    import simfl

    file = tmp_path / "seams.yaml"
    if line := named(plugin):
        (tmp_path / f"{plugin}.py").write_text((PLUGINS / f"{plugin}.py").read_text())
    file.write_text(BASE + FEDAVG + USES[plugin] + line)
    fixed = {"training.client": "private_head"} if plugin == "personal" else {}
    seeds = [1] if plugin == "attacks" else [0, 1]  # all attacks take two seconds a run
    swept = simfl.sweep(file, {"seed": seeds, "training.rounds": 3, **fixed}, out=tmp_path / "out", jobs=1)
    assert swept.failed.empty
    for result in swept.results():
        overrides = [f"seed={result.scenario.seed}", "training.rounds=3", *(f"{k}={v}" for k, v in fixed.items())]
        alone = run(Scenario.load(file, overrides), tmp_path / "alone").path
        assert tables(alone) == tables(result.path)


# -- the protocol -----------------------------------------------------------------------------------------

LEAVES = ("never", "advertise", "share", "work", "unmask")


class Fates(Script):
    """Clients that leave in a phase of their choice."""

    def __init__(self, fates, units):
        super().__init__([[1.0 + 0.1 * i] for i in range(len(fates))], units=units, latency=0.5)
        self.fates = fates

    def draw(self, first, second, phase="work"):
        if isinstance(first, int):
            return super().draw(first, second)
        return np.array([0.5 if self.fates[int(c)] == phase else np.nan for c in first])


def play(fates, rule, units):
    from simfl.secagg.base import PROTOCOLS

    Scenario.parse("clients: 4\nselection: {name: random, k: 2}\ntraining: {name: fedavg, rounds: 1}\n"
                   "plugins: [three_phases.py]", folder=PLUGINS)  # fmt: skip
    script = Fates(fates, units)
    learner = Recorder(100, np.full(4, 5), delta=lambda client, version: 0.1 * (client + 1) ** 2)
    parts = Components(4, Streams(0), script, script, script, script, script, rule, learner, 0,
                  PROTOCOLS.of("three_phases"))  # fmt: skip
    rounds, world = [], World()
    server = SERVERS[rule.server](parts, world, rounds.append)
    world.run(world.spawn(server.run()))
    return server, rounds


def in_words(fates, units):
    """Who must be in the sum, or why there is none: worked out from the fates alone."""
    if all(fate == "advertise" for fate in fates):
        return "advertise: nobody answered"
    going = [unit for unit in units if all(fates[c] not in ("advertise", "share") for c in unit)]
    if not going:
        return "share: no unit is whole"
    uploads = [c for unit in going for c in unit if fates[c] != "work"]
    kept = [unit for unit in going if all(c in uploads for c in unit)]
    if not kept:
        return "upload: no unit is whole"
    if all(fates[c] == "unmask" for c in uploads):
        return "unmask: nobody answered"
    return sorted(c for unit in kept for c in unit)


@pytest.mark.parametrize("units", [[[0], [1], [2], [3]], [[0, 1], [2, 3]]], ids=["singles", "pairs"])
def test_every_fate_of_four_clients_is_an_exact_sum_or_a_named_failure(units):
    for fates in itertools.product(LEAVES, repeat=4):
        server, (only,) = play(fates, FedAvg(rounds=1, weighting="equal"), units)
        expected = in_words(fates, units)
        failures = [phase.failure for phase in only.phases if phase.failure is not None]
        if isinstance(expected, str):
            assert (only.clients.tolist(), failures, float(server.model[0])) == ([], [expected], 0.0), fates
            continue
        assert only.clients.tolist() == expected and not failures, fates
        whole = [np.rint(np.float64(np.float32(0.1 * (c + 1) ** 2)) * 2**16) for c in expected]
        assert server.model[0] == np.float32(sum(whole) / 2**16 / len(expected)), fates


def test_phases_pay_for_their_way_and_their_bytes():
    """Latency 1/2 s each way: 1 s to advertise, 1.25 s to share, 1 + 1.3 s of work, 1 s to unmask."""
    _, (only,) = play(("never",) * 4, FedAvg(rounds=1), [[0, 1], [2, 3]])
    assert [(phase[1], phase[2], phase[3], phase[4], phase[5]) for phase in only.phases] == [
        ("advertise", 0.0, 1.0, 4, 4),
        ("share", 1.0, 2.25, 4, 4),
        ("unmask", pytest.approx(4.55), pytest.approx(5.55), 4, 4),
    ]
    assert only.row["time_s"] == pytest.approx(5.55) and only.row["helpers"] == 4
    assert only.row["bytes_down"] == 4 * (32 + 100 + 100 + 8) and only.row["bytes_up"] == 4 * (32 + 100 + 100 + 8)


def test_a_buffer_waits_for_its_protocol_and_takes_what_arrives_meanwhile_next():
    """Pairs deliver every 1 + 1.25 + 1 + 1.1 s or so; unmasking takes 1 s, in which the other pair may deliver."""
    server, rounds = play(
        ("never",) * 4, FedBuff(concurrency=4, buffer=2, rounds=5, weighting="equal"), [[0, 1], [2, 3]]
    )
    assert [done.clients.tolist() for done in rounds[:2]] == [[0, 1], [2, 3]]
    first, second = (done.row["time_s"] for done in rounds[:2])
    assert first == pytest.approx(2.25 + 2.1 + 1.0) and second == pytest.approx(first + 1.0), "one at a time"
    assert all(done.row["helpers"] == 2 for done in rounds)


@pytest.mark.parametrize("leaves, why", [("unmask", "unmask"), ("share", "share"), ("advertise", "advertise")])
def test_a_buffer_that_can_never_be_recovered_ends_with_the_reason(leaves, why, monkeypatch):
    from simfl.core.errors import SimflError

    monkeypatch.setattr("simfl.agents.buffered.server.MAX_FAILED_JOBS", 20)
    with pytest.raises(SimflError, match=why):
        play((leaves,) * 4, FedBuff(concurrency=4, buffer=2, rounds=2), [[0, 1], [2, 3]])


def test_what_a_protocol_says_stands_in_the_tables(tmp_path):
    folder = run(scenario("three_phases", FEDAVG), tmp_path).path
    phases, rounds = rows(folder, "phases.csv"), rows(folder, "rounds.csv")
    assert {row["phase"] for row in phases} == {"advertise", "share", "unmask"}
    for t, row in enumerate(rounds):
        mine = [phase for phase in phases if int(phase["round"]) == t]
        assert sum(int(phase["bytes_up"]) for phase in mine) < int(row["bytes_up"] or 0) or row["skipped"] == "1"
    assert any(row["helpers"] for row in rounds)


def test_the_sum_of_a_protocol_is_the_plain_one_up_to_rounding(tmp_path):
    hidden = run(scenario("three_phases", FEDAVG, "devices.failure=none"), tmp_path)
    plain = run(scenario("three_phases", FEDAVG, "devices.failure=none", "secagg=plain"), tmp_path)
    assert tables(hidden.path)["participation.csv"] == tables(plain.path)["participation.csv"]
    one, other = (np.load(done.path / "model.npy") for done in (hidden, plain))
    assert 0 < np.abs(one - other).max() < 6 * 2.0**-16


def test_a_protocol_of_one_cohort_is_refused_by_a_buffer(tmp_path):
    joint = (PLUGINS / "three_phases.py").read_text().replace("three_phases", "joint_phases")
    (tmp_path / "joint.py").write_text(joint.replace("    phases = (", "    joint = True\n    phases = ("))
    with pytest.raises(InvalidScenario, match="needs one cohort from its first phase to its last"):
        Scenario.parse(BASE + FEDBUFF + "secagg: joint_phases\nplugins: [joint.py]\n", folder=tmp_path)


# -- stage and accountant ---------------------------------------------------------------------------------


def test_a_stage_without_noise_and_a_wide_clip_changes_no_byte(tmp_path):
    none = run(scenario("gaussian", FEDAVG, "privacy.stages=[]", "privacy.accountants=[]"), tmp_path)
    wide = ("privacy.stages.0.z=0", "privacy.stages.0.clip_norm=1e30", "privacy.accountants=[]")
    free = run(scenario("gaussian", FEDAVG, *wide), tmp_path)
    assert np.array_equal(np.load(none.path / "model.npy"), np.load(free.path / "model.npy"))


@pytest.mark.parametrize("training", [FEDAVG, FEDBUFF], ids=["fedavg", "fedbuff"])
def test_an_accountants_column_stands_everywhere(training, tmp_path, no_pictures):
    done = run(scenario("gaussian", training), tmp_path)
    table = rows(done.path, "rounds.csv")
    weights = np.zeros((len(table), 12))
    for row in rows(done.path, "participation.csv"):
        weights[int(row["round"]), int(row["client"])] = float(row["weight"])
    expected = (weights**2 / (2 * 0.01**2)).cumsum(axis=0).max(axis=1)
    np.testing.assert_allclose([float(row["rho_max"]) for row in table], expected, rtol=1e-12)
    assert done.summary["rho_max"] == pytest.approx(expected[-1])
    assert "Largest ρ" in page(read_study([done.path]))


def test_an_accountants_column_is_compared(tmp_path):
    import simfl

    file = tmp_path / "seams.yaml"
    (tmp_path / "gaussian.py").write_text((PLUGINS / "gaussian.py").read_text())
    file.write_text(BASE + FEDAVG + USES["gaussian"] + "plugins: [gaussian.py]\n")
    choices = {"selection": ["random:k=4", "partition:k=4"], "training.rounds": 3}
    compared = simfl.compare(file, choices, replications=2, out=tmp_path / "out", jobs=1)
    assert "rho_max" in set(compared.paired.metric)


# -- the observer -----------------------------------------------------------------------------------------


def test_an_observer_is_scored_and_changes_no_table(tmp_path):
    seen = run(scenario("recorder", FEDAVG), tmp_path)
    unseen = run(scenario("recorder", FEDAVG, "attacks=[]"), tmp_path)
    attacks = rows(seen.path, "attacks.csv")
    assert {row["name"] for row in attacks} == {"mean_squared_error", "single_vectors", "norm_of_all"}
    played = [t for t, row in enumerate(rows(seen.path, "rounds.csv")) if row["skipped"] == "0"]
    assert sorted({int(row["round"]) for row in attacks}) == played
    assert all(float(row["value"]) == 1 for row in attacks if row["name"] == "single_vectors")
    with_it, without = tables(seen.path), tables(unseen.path)
    del with_it["attacks.csv"]
    assert with_it == without


def test_a_protocol_hides_single_vectors_from_the_observer(tmp_path):
    text = BASE + FEDAVG + "attacks: [recorder]\n" + USES["three_phases"] + "plugins: [recorder.py, three_phases.py]\n"
    folder = run(Scenario.parse(text, folder=PLUGINS), tmp_path).path
    found = [row for row in rows(folder, "attacks.csv") if row["name"] == "single_vectors"]
    assert found and all(float(row["value"]) == 0 for row in found)


# -- the client variant -----------------------------------------------------------------------------------


def test_a_variants_sizes_and_personal_models(tmp_path):
    folder = run(scenario("personal", FEDAVG, "devices.failure=none"), tmp_path).path
    dense = 4 * 650
    for row in rows(folder, "rounds.csv"):
        n = int(row["cardinality"])
        assert int(row["bytes_down"]) == n * (dense - 40) and 0 <= int(row["bytes_up"]) < 2 * n * dense
    scores = rows(folder, "rounds.csv")[-1]
    plain = run(scenario("personal", FEDAVG, "devices.failure=none", "training.client=plain"), tmp_path).path
    other = rows(plain, "rounds.csv")[-1]
    assert scores["client_accuracy_mean"] != other["client_accuracy_mean"]
    model = np.load(folder / "model.npy")
    start = Scenario.load(folder / "scenario.yaml").learning
    assert start and model.shape == (650,)


def test_private_coordinates_never_reach_the_server(tmp_path):
    """The head of the global model stays as it was drawn."""
    made = scenario("personal", FEDAVG, "devices.failure=none")
    folder = run(made, tmp_path).path
    initial = made.learning.build(made, Streams(made.seed)).initial()
    model = np.load(folder / "model.npy")
    assert np.array_equal(model[-10:], initial[-10:]) and not np.array_equal(model[:-10], initial[:-10])


# -- the peers --------------------------------------------------------------------------------------------

GOSSIP = """
name: gossip
clients: 6
network: {name: star, latency_s: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}
selection: all
training: {name: ring_gossip, rounds: 5, batch_size: 50}
learning: {data: digits, model: logistic}
plugins: [gossip.py]
"""


def test_peers_aggregate_their_neighbours(tmp_path):
    done = run(Scenario.parse(GOSSIP, folder=PLUGINS), tmp_path)
    found = rows(done.path, "participation.csv")
    assert list(found[0]) == ["round", "aggregator", "client", "weight"]
    for row in found:
        assert (int(row["client"]) - int(row["aggregator"])) % 6 in (0, 1, 5)
    assert len(found) == 5 * 6 * 3
    last = rows(done.path, "rounds.csv")[-1]
    # models of their own: what each sees is no sum of updates with these weights
    assert (last["privacy_strong"], last["privacy_semi_strong"], last["privacy_weak_lower"]) == ("1", "1.0", "1")
    assert float(last["time_s"]) == pytest.approx(5 * (0.5 + 0.6))
    assert float(last["test_accuracy"]) > 0.5


@pytest.mark.parametrize(
    "schedule",
    [
        "training.half_at=2",
        "training.decay_at=[2]",
        "learning.partition={name: growing, first: 9, new: 3, versions: 3}",
    ],
)
def test_peers_read_the_round_where_they_start_from_models_of_their_own(schedule, tmp_path):
    """What depends on the round: with three clients on a ring, everybody's average is that of a server, every round."""
    plain = GOSSIP.replace("name: ring_gossip, rounds: 5", "name: fedavg, rounds: 4").replace(
        "plugins: [gossip.py]\n", ""
    )
    few = ["clients=3", "network.latency_s=0.1", "training.rounds=4", "training.batch_size=1000", schedule]
    if "decay_at" in schedule:
        few.append("training.decay=0.25")
    one, other = (
        np.load(run(Scenario.parse(text, name, few, PLUGINS), tmp_path).path / "model.npy")
        for text, name in ((GOSSIP, "ring"), (plain, "server"))
    )
    np.testing.assert_allclose(one, other, atol=1e-5)
    unscheduled = run(Scenario.parse(GOSSIP, "constant", few[:4], PLUGINS), tmp_path)
    assert np.abs(np.load(unscheduled.path / "model.npy") - one).max() > 1e-4


@pytest.mark.parametrize(
    ("choice", "needs"),
    [
        ("secagg=secagg", "as secagg needs; use secagg: ideal or plain"),
        ("secagg=pairwise_ratchet", "as pairwise_ratchet needs"),
        ("privacy.stages=[clipping]", "as the stage clipping needs"),
        ("privacy.stages=[local_gaussian]", "as the stage local_gaussian needs"),
        ("attacks=[least_squares]", "which the attack least_squares observes"),
        ("training.client=scaffold", "scaffold needs more, use training.client: plain"),
        ("training.client=privacyfl", "privacyfl needs more"),
        ("training.personal=ditto", "ditto needs more"),
        ("training.personal=fedbn", "fedbn needs more"),
        ("training.server_optimiser=adam", "adam keeps a state between steps"),
    ],
)
def test_what_needs_one_aggregate_is_refused_beside_models_of_clients(choice, needs):
    with pytest.raises(InvalidScenario, match=needs):
        Scenario.parse(GOSSIP, "ring", [choice], PLUGINS)


def test_peers_go_on_after_a_kill(tmp_path, monkeypatch):
    made = Scenario.parse(GOSSIP, folder=PLUGINS)
    whole = tables(run(made, tmp_path / "whole").path)
    assert tables(killed_and_resumed(made, tmp_path / "killed", monkeypatch, 2)) == whole


def test_peers_of_a_full_ring_agree_after_one_round(tmp_path):
    """Three clients on a ring are everybody: each has the weighted mean of all models."""
    fedavg = GOSSIP.replace("name: ring_gossip, rounds: 5", "name: fedavg, rounds: 1")
    made = Scenario.parse(GOSSIP, "ring", ["clients=3", "network.latency_s=0.1", "training.rounds=1"], PLUGINS)
    average = Scenario.parse(fedavg, "average", ["clients=3", "network.latency_s=0.1"], PLUGINS)
    one, other = (np.load(run(each, tmp_path).path / "model.npy") for each in (made, average))
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_summaries_are_json(tmp_path):
    done = run(Scenario.parse(GOSSIP, folder=PLUGINS), tmp_path)
    assert json.loads((done.path / "summary.json").read_text())["rounds"] == 5
