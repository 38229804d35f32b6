"""What the server learns of its clients for the selection, in whole runs: true, the same after a kill, paid for."""

import csv
import json
from dataclasses import dataclass

import numpy as np
import pytest

from simfl.agents.aggregation import policy_queries
from simfl.core.registration.family_index import undone
from simfl.core.types import CLEAR_FIELDS
from simfl.runs.run import build, run
from simfl.scenario import InvalidScenario, Scenario
from simfl.selection.base import POLICIES
from simfl.selection.random import RandomSelection
from tests.support.kills import files, killed_at_time

BASE = """
name: reading
clients: 16
network: {name: star, latency_s: 0.05, bandwidth_bytes_per_s: 1.0e+5}
devices:
  availability: {name: bernoulli, dropout: 0.2}
  computation: {name: per_sample, seconds: 0.01, speed: {name: log_normal, median: 1, sigma: 1}}
  failure: {name: bernoulli, probability: 0.1}
selection: {name: oort, k: 4}
training: {name: fedavg, rounds: 6, local_epochs: 1, batch_size: 20, learning_rate: 0.1}
learning: {data: digits, partition: {name: shards, labels_per_client: 2}, model: logistic}
"""
FEDBUFF = (
    "training={name: fedbuff, rounds: 8, concurrency: 6, buffer: 4, local_epochs: 1, batch_size: 20, "
    "learning_rate: 0.1}"
)


def scenario(*overrides):
    return Scenario.parse(BASE, overrides=overrides)


def rows(path):
    with open(path, newline="") as table:
        return list(csv.DictReader(table))


@pytest.mark.parametrize("rule", ["training.rounds=6", FEDBUFF])
def test_losses_are_those_of_the_model_that_a_job_began_with(tmp_path, monkeypatch, rule):
    """Beside plain numpy: softmax cross-entropy of the received model on the client's own samples, when last summed."""
    noted, real = [], policy_queries.ClientRecords._measure

    def measure(self, clients, jobs):
        real(self, clients, jobs)
        for job in jobs:
            if job.client in clients:
                noted.append((job, self.parts.learner.get(job.start), self.reports["loss_rms"][job.client]))

    monkeypatch.setattr(policy_queries.ClientRecords, "_measure", measure)
    played = scenario(rule)
    run(played, tmp_path)
    learner = build(played).learner
    x, y = learner.data.x_train.reshape(len(learner.data.y_train), -1).astype(float), learner.data.y_train
    assert len({job.version for job, _, _ in noted}) > 3
    for job, model, rms in noted:
        own = learner.partition[job.client]
        weights, bias = model[: 10 * x.shape[1]].reshape(10, -1).astype(float), model[10 * x.shape[1] :]
        logits = x[own] @ weights.T + bias
        losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(own)), y[own]]
        assert rms == pytest.approx(np.sqrt((losses**2).mean()), rel=1e-4)


def test_seconds_are_those_from_the_model_to_the_update(tmp_path):
    """Of every client the last completed job's, as events.jsonl has it; estimates are exact where nothing is drawn."""
    seen, known = {}, policy_queries.ClientRecords.known

    def watch(self, version):
        now = known(self, version)
        seen.setdefault(version, {name: values.copy() for name, values in now.reports.items()})
        seen["last"] = {name: values.copy() for name, values in now.reports.items()}
        return now

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_queries.ClientRecords, "known", watch)
        finished = run(scenario("trace=events"), tmp_path)
    sent, last, arrived = {}, {}, []
    for line in open(finished.path / "events.jsonl"):
        event = json.loads(line)
        if event["event"] == "message" and event["kind"] == "model":
            sent[event["to"]] = event["sent_s"]
        if event["event"] == "message" and event["kind"] == "update":
            arrived.append((event["from"], event["arrives_s"] - sent[event["from"]]))
            last[event["from"]] = arrived[-1][1]
    final = seen["last"]["seconds"]
    assert {c: final[c] for c in np.flatnonzero(~np.isnan(final)).tolist()} == pytest.approx(last)
    estimate = seen[0]["estimate_s"]
    assert len(last) > 5 and all(estimate[c] == pytest.approx(s - 8 / 1e5) or estimate[c] == pytest.approx(s)
                                 for c, s in last.items())  # fmt: skip
    assert np.isnan(seen[0]["seconds"]).all()


@pytest.mark.parametrize("selection", ["oort:k=4,pacer_step=2", "tifl:k=2,tiers=3,interval=2",
                                       "power_of_choice:k=4,d=8", "power_of_choice:k=4,d=8,losses=remembered",
                                       "power_of_choice:k=4,d=8,losses=estimated,batch=5",
                                       "fedcs:k=6,deadline_s=30",
                                       "{name: guarded, T: 2, inner: {name: oort, k: 4}}"])  # fmt: skip
@pytest.mark.parametrize("rule", ["training.rounds=6", FEDBUFF])
def test_a_run_that_was_killed_selects_as_if_it_had_not_been(tmp_path, selection, rule):
    try:
        played = scenario(f"selection={selection}", rule, "learning.evaluate.every=0")
    except InvalidScenario as error:
        assert "asks clients before it selects" in str(error) or "guarded" in str(error)
        return
    finished = run(played, tmp_path / "whole")
    whole, ends_s = files(finished.path), float(finished.summary["time_s"])
    for i, share in enumerate((0.35, 0.8)):
        out = tmp_path / f"killed{i}"
        assert killed_at_time(share * ends_s, lambda out=out: run(played, out))
        assert files(run(played, out).path) == whole


def test_asking_takes_time_and_bytes_and_stands_in_phases(tmp_path):
    """Candidates get the model once; those who answered and are selected do not get it again."""
    finished = run(scenario("selection=power_of_choice:k=4,d=8", "devices.failure=none", "devices.availability=always"),
                   tmp_path)  # fmt: skip
    phases, rounds = rows(finished.path / "phases.csv"), rows(finished.path / "rounds.csv")
    assert [row["phase"] for row in phases] == ["ask"] * 6
    dense = build(scenario()).learner.model_bytes
    for phase, done in zip(phases, rounds, strict=True):
        assert (int(phase["asked"]), int(phase["answered"])) == (8, 8)
        assert int(phase["bytes_down"]) == 8 * dense and int(phase["bytes_up"]) == 8 * 8
        assert int(done["bytes_down"]) == 8 * dense
        assert int(done["bytes_up"]) == 8 * 8 + 4 * dense
        assert float(phase["ended_s"]) - float(phase["started_s"]) > dense / 1e5


@pytest.mark.parametrize("selection, each", [("oort:k=4", 8), ("power_of_choice:k=4,d=8,losses=remembered", 8),
                                             ("fedcs:k=4,deadline_s=1000000", 0), ("random:k=4", 0)])  # fmt: skip
def test_clear_numbers_cost_their_bytes(tmp_path, selection, each):
    finished = run(scenario(f"selection={selection}", "devices.failure=none", "devices.availability=always"), tmp_path)
    dense = build(scenario()).learner.model_bytes
    for row in rows(finished.path / "rounds.csv"):
        assert int(row["bytes_up"]) == int(row["cardinality"]) * (dense + each)


def test_a_policy_without_the_key_scalars_is_not_told_to_set_it():
    with undone():
        POLICIES("reader")(dataclass(frozen=True)(type("Reader", (RandomSelection,), {"reads": frozenset({"loss"})})))
        with pytest.raises(InvalidScenario, match="does not cover; use secagg: plain"):
            scenario("selection=reader:k=4", "secagg=secagg")


@pytest.mark.parametrize("selection", ["oort:k=4", "power_of_choice:k=4,d=8", "tifl:k=2,tiers=3"])
def test_numbers_in_clear_are_refused_where_a_promise_would_have_to_cover_them(tmp_path, selection):
    with pytest.raises(
        InvalidScenario, match="which secagg: secagg does not cover; use scalars: clear or secagg: plain"
    ):
        scenario(f"selection={selection}", "secagg=secagg")
    noise = ["privacy.stages=[{name: central_gaussian, clip_norm: 1.0, noise_multiplier: 1.0}]"]
    with pytest.raises(InvalidScenario, match="the epsilon .* does not cover; use accountants"):
        scenario(f"selection={selection},scalars=clear", *noise)
    withdrawn = run(scenario(f"selection={selection}"), tmp_path)
    assert {row["privacy_weak_lower"] for row in rows(withdrawn.path / "rounds.csv")} <= {"1", "1.0", ""}
    public = run(scenario(f"selection={selection},scalars=clear", "secagg=secagg"), tmp_path)
    summary = json.loads((public.path / "summary.json").read_text())
    told = "accuracy" if selection.startswith("tifl") else "loss"
    assert f"the {told} of the model on its samples" in summary["in_clear"]
    known = [float(row["privacy_weak_lower"]) for row in rows(public.path / "rounds.csv") if row["privacy_weak_lower"]]
    assert max(known) > 1


def test_a_policy_that_reads_nothing_costs_nothing(tmp_path):
    parts = build(scenario("selection=random:k=4"))
    records = policy_queries.ClientRecords(parts)
    assert not records.reports and not records.estimates and not records.state()
    assert not parts.policy.reads & set(CLEAR_FIELDS)


@pytest.mark.parametrize("overrides, message", [
    (("learning=none",), "oort reads losses of the clients, and there are none"),
    (("selection=power_of_choice:k=4,d=8", FEDBUFF), "power_of_choice asks clients before it selects"),
])  # fmt: skip
def test_what_cannot_be_told_is_refused(overrides, message):
    with pytest.raises(InvalidScenario, match=message):
        scenario(*overrides)
