"""Compression in runs: bytes and times, residuals, order with clipping and noise, protocols, and what is refused."""

import json
from contextlib import contextmanager
from functools import cache
from unittest import mock

import numpy as np
import pytest
from click.testing import CliRunner

from simfl.agents.aggregation.pipeline import CompressionStep
from simfl.cli import simfl
from simfl.core.rng import Streams
from simfl.core.types import Job, JobId
from simfl.privacy.certify.maps import norms
from simfl.privacy.dp.stages.central_gaussian import CentralGaussian
from simfl.runs.run import build, run
from simfl.scenario import InvalidScenario, Scenario
from tests.plugins.test_public_interface import BASE, FEDAVG, FEDBUFF, killed_and_resumed, rows, tables
from tests.support.judge import unequal_bytes
from tests.support.wiretap import recorded

QUIET = """
name: quiet
clients: 8
network: {name: star, latency_s: 0.5, bandwidth_bytes_per_s: 1000.0}
devices: {computation: {name: constant, seconds: 2.0}}
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 3, batch_size: 50}
learning: {data: digits, model: logistic, evaluate: {every: 0}}
"""
D = 650  # of a logistic regression on 64 pixels and 10 classes
SIZES = {
    "none": 4 * D,
    "{name: quantise, bits: 4, bucket: 100}": D // 2 + 4 * 7,
    "{name: random_k, share: 0.1}": 4 * 65,
    "{name: top_k, share: 0.1}": 4 * 65 + 82,  # 65 places of 10 bits
    "sign": 82 + 4,
}
FEEDBACK = ["{name: top_k, share: 0.05}", "sign", "{name: sign, bucket: 64}"]
RULES = {
    "fedavg": FEDAVG,
    "quorum": FEDAVG.replace("rounds: 6", "rounds: 6, quorum: 2"),
    "deadline": FEDAVG.replace("rounds: 6", "rounds: 6, deadline_s: 1.5, on_failure: partial"),
    "fedbuff": FEDBUFF,
    "drawn": FEDBUFF.replace("rounds: 6", "rounds: 6, arrivals: uniform_staleness"),
}


def seams(training, *overrides):
    return Scenario.parse(BASE + training, "seams", overrides)


def quiet(*overrides):
    return Scenario.parse(QUIET, "quiet", overrides)


@cache
def initial():
    return build(quiet()).learner.initial()


@contextmanager
def steps():
    """While this lasts, all that goes through compression: (step, jobs, updates, what is sent), in order."""
    seen, code = [], CompressionStep.client

    def client(self, vectors, jobs):
        sent = code(self, vectors, jobs)
        seen.append((self, jobs, vectors.copy(), sent.copy()))
        return sent

    with mock.patch.object(CompressionStep, "client", client):
        yield seen


# -- bytes and times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", SIZES)
def test_an_upload_takes_the_bytes_of_the_code_and_the_time_of_these_bytes(compression, tmp_path):
    table = rows(run(quiet(f"compression={compression}"), tmp_path).path, "rounds.csv")
    size = SIZES[compression]
    assert [int(row["bytes_up"]) for row in table] == [4 * size] * 3
    assert [int(row["bytes_down"]) for row in table] == [4 * 4 * D] * 3
    seconds = 2 * 0.5 + 2.0 + 4 * D / 1000 + size / 1000
    assert np.allclose([float(row["time_s"]) for row in table], seconds * np.arange(1, 4))


@pytest.mark.parametrize("compression", SIZES)
@pytest.mark.parametrize("beside", ["training.client=plain", "training.client=scaffold"])
def test_the_recorder_counts_the_same_bytes(compression, beside, tmp_path):
    scenario = quiet(f"compression={compression}", beside, "privacy=none")
    with recorded() as tape:
        folder = run(scenario, tmp_path).path
    assert len(tape.sums) == 3
    assert unequal_bytes(scenario, folder, tape, rows(folder, "rounds.csv")) == []
    arrays = 4 * D * (beside == "training.client=scaffold")  # the change of the control variate stays dense
    assert int(rows(folder, "rounds.csv")[0]["bytes_up"]) == 4 * (SIZES[compression] + arrays)


def test_where_nothing_is_learned_bytes_are_the_same_and_the_run_goes_on(tmp_path):
    for i, (compression, size) in enumerate(SIZES.items()):
        nothing = ["learning={name: none, parameters: 650}", f"compression={compression}"]
        table = rows(run(quiet(*nothing), tmp_path / str(i)).path, "rounds.csv")
        assert [int(row["bytes_up"]) for row in table] == [4 * size] * 3


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("compression", ["{name: top_k, share: 1.0}", "{name: random_k, share: 1.0}"])
def test_all_coordinates_are_no_compression(compression, rule, tmp_path):
    privacy = "privacy=none"
    plain = tables(run(seams(RULES[rule], privacy), tmp_path / "plain").path)
    assert tables(run(seams(RULES[rule], privacy, f"compression={compression}"), tmp_path / "all").path) == plain


def test_a_scenario_that_names_no_compression_has_the_digest_that_it_had():
    assert quiet("compression=none").digest == quiet().digest
    assert "compression" not in quiet("compression=none").plain()
    assert quiet("compression=sign").digest != quiet().digest


# -- error feedback -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("compression", FEEDBACK)
def test_what_was_sent_and_the_residual_are_all_updates(compression, rule, tmp_path):
    with steps() as seen:
        folder = run(seams(RULES[rule], f"compression={compression}"), tmp_path).path
    made, sent, gaps, last = {}, {}, 0, {}
    for number, (_, jobs, vectors, coded) in enumerate(seen):
        assert np.array_equal([job.client for job in jobs], np.unique([job.client for job in jobs]))
        for job, vector, code in zip(jobs, vectors, coded, strict=True):
            made[job.client] = made.get(job.client, 0) + vector.astype(np.float64)
            sent[job.client] = sent.get(job.client, 0) + code.astype(np.float64)
            gaps += number - last.get(job.client, number) > 1
            last[job.client] = number
    residuals = seen[-1][0].residuals
    assert residuals.keys() == made.keys() == {int(row["client"]) for row in rows(folder, "participation.csv")}
    assert gaps or rule == "deadline"  # clients came back after rounds without them
    for client, residual in residuals.items():
        assert np.allclose(sent[client] + residual, made[client], atol=1e-5)
        assert np.abs(residual).max() > 0


@pytest.mark.parametrize("rule", ["fedavg", "quorum", "fedbuff"])
@pytest.mark.parametrize("compression", ["{name: top_k, share: 0.05}", "sign"])
def test_a_killed_run_goes_on_with_the_residuals(compression, rule, tmp_path, monkeypatch):
    scenario = seams(RULES[rule], f"compression={compression}", "training.rounds=5")
    whole = tables(run(scenario, tmp_path / "whole").path)
    assert tables(killed_and_resumed(scenario, tmp_path / "at", monkeypatch, 3)) == whole
    with monkeypatch.context() as context:  # the residuals are what the bytes depend on
        context.setattr(CompressionStep, "restore", lambda self, state: None)
        lost = tables(killed_and_resumed(scenario, tmp_path / "lost", monkeypatch, 3))
    assert lost["model.npy"] != whole["model.npy"]


def test_without_feedback_nothing_is_kept(tmp_path):
    with steps() as seen:
        run(quiet("compression={name: top_k, share: 0.1, error_feedback: false}"), tmp_path)
    assert seen and not any(step.residuals or step.state() for step, *_ in seen)


def alone(compression):
    """The step of a compression of four coordinates, and a job."""
    step = object.__new__(CompressionStep)
    step.compression, step.streams, step.residuals = quiet(f"compression={compression}").compression, Streams(0), {}
    step.place, step.dimension, step.length = 0, 4, 4
    return step, Job(JobId.of(0, 0), 0, 0, 0.0)


def send(step, updates, *jobs):
    """What is sent of updates that are then summed."""
    sent = step.client(updates, jobs)
    step.keep([job.client for job in jobs])
    return sent


def test_feedback_brings_back_what_single_coordinates_lose():
    """Equal updates, one coordinate of four a round: with feedback each gets its turn, without only the largest."""
    update = np.array([[4.0, 3.0, 2.0, 1.0]], dtype=np.float32)
    step, job = alone("{name: top_k, share: 0.25}")
    assert np.allclose(sum(send(step, update, job) for _ in range(40))[0] / 40, update[0], atol=0.3)
    step, job = alone("{name: top_k, share: 0.25, error_feedback: false}")
    assert np.array_equal(sum(send(step, update, job) for _ in range(40))[0] / 40, [4, 0, 0, 0])


@pytest.mark.parametrize("compression", ["{name: top_k, share: 0.25}", "sign", "quantise"])
def test_an_update_that_holds_no_number_stays_so_and_leaves_no_residual_that_holds_none(compression):
    step, job = alone(compression)
    sound, other = np.ones((1, 4), dtype=np.float32), Job(JobId.of(0, 1), 1, 0, 0.0)
    (expected,) = send(step, sound, other)
    broken = np.array([[1.0, np.inf, 2.0, np.nan], [1.0, 1.0, 1.0, 1.0]], dtype=np.float32)
    step, _ = alone(compression)
    send(step, np.array([[4.0, 3.0, 2.0, 1.0]], dtype=np.float32), job)
    before = dict(step.residuals)
    sent = send(step, broken, job, other)
    assert not np.isfinite(sent[0]).all() and np.array_equal(sent[1], expected)
    assert all(np.isfinite(residual).all() for residual in step.residuals.values())
    assert all(np.array_equal(step.residuals[client], residual) for client, residual in before.items())


GREW = "learning.partition={name: growing, first: [20, 20, 20, 20, 0, 0, 0, 0], new: 0, versions: 2, cumulative: false}"


@pytest.mark.parametrize("compression", FEEDBACK)
def test_an_update_that_nobody_sums_leaves_the_residual_as_it_was(compression, tmp_path):
    """From the second round on nobody has samples, so that all weights are 0."""
    seen, code = [], CompressionStep.client

    def client(self, vectors, jobs):
        seen.append({job.client: self.residuals.get(job.client) for job in jobs})
        return code(self, vectors, jobs)

    with mock.patch.object(CompressionStep, "client", client):
        run(quiet(f"compression={compression}", GREW, "selection.k=8", "training.rounds=4"), tmp_path)
    first, *later = seen
    assert not any(residual is not None for residual in first.values()) and len(later) == 3
    for residuals in later:
        assert [client for client, residual in residuals.items() if residual is not None] == [0, 1, 2, 3]
        assert all(
            np.array_equal(residuals[client], later[0][client]) and later[0][client].any() for client in range(4)
        )


# -- clipping and noise -------------------------------------------------------------------------------------


CENTRAL = "privacy={stages: [{name: central_gaussian, clip_norm: 0.05, noise_multiplier: 0.5}], accountants: [rdp]}"
LOCAL = "privacy={stages: [{name: local_gaussian, clip_norm: 0.05, epsilon: 1, delta: 1.0e-5}], accountants: [rdp]}"
EQUAL = "training.weighting=equal"


@pytest.mark.parametrize("compression", list(SIZES)[1:])
def test_noise_on_sums_clips_what_compression_makes_so_that_its_sensitivity_holds(compression, tmp_path):
    clipped, clip = [], CentralGaussian.client

    def client(self, vectors, *rest):
        sent = clip(self, vectors, *rest)
        clipped.append((vectors.copy(), sent.copy()))
        return sent

    with mock.patch.object(CentralGaussian, "client", client), steps() as seen:
        folder = run(quiet(f"compression={compression}", CENTRAL, EQUAL), tmp_path).path
    assert len(clipped) == len(seen) == 3
    for (entered, sent), (*_, coded) in zip(clipped, seen, strict=True):
        assert np.array_equal(entered, coded)
        assert (norms(sent) <= 0.05).all() and (norms(entered) > 0.05).any()
        factors = sent.sum(axis=1) / entered.sum(axis=1)
        assert np.allclose(sent, entered * factors[:, None], rtol=1e-3, atol=1e-9)  # the code is as short as it was
    table = rows(folder, "rounds.csv")
    assert [int(row["bytes_up"]) for row in table] == [4 * SIZES[compression]] * 3
    exact = rows(run(quiet(CENTRAL, EQUAL), tmp_path / "dense").path, "rounds.csv")
    assert [row["epsilon_rdp"] for row in table] == [row["epsilon_rdp"] for row in exact]


@pytest.mark.parametrize("compression", ["none", "{name: top_k, share: 0.1}"])
def test_after_a_power_of_two_of_rounds_a_model_holds_the_noise_of_one_block(compression, tmp_path):
    tree = "privacy={stages: [{name: tree_gaussian, clip_norm: 0.05, noise_multiplier: 0.8}], accountants: []}"
    still = ["training.learning_rate=1.0e-9", "training.rounds=8", EQUAL]
    folder = run(quiet(f"compression={compression}", tree, *still), tmp_path).path
    noise = np.load(folder / "model.npy") - initial()
    assert np.isclose(noise.std(), 0.8 * 0.05 / 4, rtol=0.1)


@pytest.mark.parametrize("compression", list(SIZES)[1:])
def test_noise_of_clients_is_in_what_is_compressed(compression, tmp_path):
    with steps() as seen:
        folder = run(quiet(f"compression={compression}", LOCAL, "secagg=plain"), tmp_path).path
    std = Scenario.parse(QUIET, "quiet", [LOCAL]).privacy.stages[0].std
    assert all(np.isclose(vectors.std(), std, rtol=0.1) for _, _, vectors, _ in seen)
    exact = rows(run(quiet(LOCAL), tmp_path / "dense").path, "rounds.csv")
    table = rows(folder, "rounds.csv")
    assert [row["epsilon_rdp"] for row in table] == [row["epsilon_rdp"] for row in exact]
    assert [int(row["bytes_up"]) for row in table] == [4 * SIZES[compression]] * 3
    assert json.loads((folder / "summary.json").read_text())["in_clear"] == ["the number of its samples"]


def test_adaptive_clipping_adds_its_bit_to_the_code(tmp_path):
    stage = "privacy={stages: [{name: adaptive_gaussian, bit_std: 4.0}], accountants: []}"
    table = rows(run(quiet("compression=sign", stage, EQUAL), tmp_path).path, "rounds.csv")
    assert [int(row["bytes_up"]) for row in table] == [4 * (SIZES["sign"] + 4)] * 3


# -- protocols ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["secagg", "secagg_plus", "lightsecagg", "pairwise_ratchet", "flamingo", "opa"])
def test_masked_sums_of_random_coordinates_are_the_plain_ones(protocol, tmp_path):
    compression, share = "compression={name: random_k, share: 0.1}", 65
    plain = run(quiet(compression, EQUAL), tmp_path / "plain").path
    masked = run(quiet(compression, EQUAL, f"secagg={protocol}"), tmp_path / "masked").path
    assert np.allclose(np.load(masked / "model.npy"), np.load(plain / "model.npy"), atol=1e-3)
    moved = np.load(plain / "model.npy") != initial()
    assert 65 <= moved.sum() <= 3 * 65
    table, phases = rows(masked, "rounds.csv"), rows(masked, "phases.csv")
    updates = sum(int(row["bytes_up"]) for row in table) - sum(int(row["bytes_up"]) for row in phases)
    beside = protocol in ("flamingo", "opa")  # their shares go up with the update
    assert beside or updates in (3 * 4 * 4 * share, 3 * 4 * 4 * (share + 1))  # perhaps an element for the weight
    if "clear_bytes" in table[0]:
        assert [int(row["clear_bytes"]) for row in table] == [4 * 4 * (D + share)] * 3


def test_noise_in_the_field_has_as_many_coordinates_as_are_sent(tmp_path):
    skellam = "privacy={stages: [{name: skellam, clip_norm: 20.0, noise_multiplier: 0}], accountants: []}"
    overrides = ["compression={name: random_k, share: 0.1}", EQUAL, skellam, "secagg=secagg"]
    folder = run(quiet(*overrides), tmp_path).path
    plain = run(quiet(*overrides[:2], "privacy={stages: [{name: clipping, norm: 20.0}]}"), tmp_path / "plain").path
    model, exact = np.load(folder / "model.npy"), np.load(plain / "model.npy")
    assert (model != initial()).sum() <= 3 * 65
    assert np.abs(model - exact).max() < 0.05 < np.abs(exact - initial()).max()
    assert {float(row["value"]) for row in rows(folder, "facts.csv") if row["name"] == "dimension"} == {128.0}


@pytest.mark.parametrize("compression", ["{name: random_k, share: 0.3}", "{name: top_k, share: 0.3}", "sign"])
def test_peers_compress_once_for_everybody(compression, tmp_path):
    overrides = [f"compression={compression}", "training={name: serverless, rounds: 3, batch_size: 50}"]
    with steps() as seen:
        folder = run(quiet(*overrides, "privacy=none"), tmp_path).path
    assert len(seen) == 3
    (size,) = {seen[0][0].compression.size_bytes(D)}
    assert [int(row["bytes_up"]) for row in rows(folder, "rounds.csv")] == [4 * 7 * size] * 3


def test_robust_aggregates_see_what_the_server_reads(tmp_path):
    with steps() as seen:
        overrides = ["compression=sign", EQUAL, "training.aggregate=median", "training.rounds=1"]
        folder = run(quiet(*overrides), tmp_path).path
    (_, _, _, sent) = seen[0]
    assert np.allclose(np.load(folder / "model.npy") - initial(), np.median(sent, axis=0), atol=1e-6)


@pytest.mark.parametrize("compression", ["none", "{name: random_k, share: 0.5}"])
def test_theory_says_that_its_errors_are_of_uncompressed_updates(compression, tmp_path):
    (tmp_path / "quiet.yaml").write_text(QUIET)
    said = CliRunner().invoke(simfl, ["theory", str(tmp_path / "quiet.yaml"), f"compression={compression}"])
    assert said.exit_code == 0 and "errors without noise" in said.output
    assert ("of updates that are not compressed" in said.output) == (compression != "none")


# -- certificates -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compression", "rule", "least"),
    [
        ("none", FEDAVG, 2),
        ("{name: random_k, share: 0.5}", FEDAVG, 2),
        ("{name: random_k, share: 0.5}", FEDBUFF, 1),
        ("{name: random_k, share: 1.0}", FEDBUFF, 2),
        ("{name: top_k, share: 0.5}", FEDAVG, 1),
        ("sign", FEDAVG, 1),
        ("quantise", FEDBUFF, 1),
    ],
)
def test_guarantees_are_withdrawn_where_codes_tell_of_single_clients(compression, rule, least, tmp_path):
    folder = run(seams(rule, f"compression={compression}", "learning.partition=iid"), tmp_path).path
    summed = [row for row in rows(folder, "rounds.csv") if row["privacy_weak_lower"]]
    assert min(float(row["privacy_strong"]) for row in summed) == least
    assert least > 1 or max(float(row["privacy_weak_upper"]) for row in summed) == 1


OUTPUT = "{name: output_perturbation, samples: 20, epsilon: 1, alpha: 1}"
REFUSED = {
    "which coordinates of its update it sends, which secagg: secagg does not cover; use compression: random_k": [
        "compression={name: top_k, share: 0.1}", "secagg=secagg"],
    "multiples of a scale of its own, which secagg: lightsecagg does not cover": [
        "compression=quantise", "secagg=lightsecagg"],
    "sign sends its update in multiples": ["compression=sign", "secagg=pairwise_ratchet"],
    "random_k sends which coordinates of its update it sends, which secagg: basecagg does not cover": [
        "compression={name: random_k, share: 0.1}", "secagg=basecagg",
        "training={name: fedbuff, rounds: 3, staleness: constant, concurrency: 4, buffer: 4}"],
    "comes before privacy.stages: laplace_shares": [
        "compression=sign", EQUAL, "privacy={stages: [{name: laplace_shares}], accountants: []}"],
    "comes before privacy.stages: local_gaussian": [
        "compression=sign", EQUAL,
        "privacy={stages: [{name: central_gaussian}, {name: local_gaussian}], accountants: []}"],
    "has an epsilon of their sum": [
        "compression=sign", EQUAL, "privacy={stages: [OUTPUT], accountants: []}".replace("OUTPUT", OUTPUT)],
    "changes all coordinates, but lotteryfl sends the mask": [
        "compression=sign", "training.personal=lotteryfl", "learning.holdout={validation: 0.3}", "learning.model=mlp"],
    "codes updates, but local sends none": ["compression=sign", "training.personal=local"],
    "mixes whole models; use training.mix: deltas": ["compression=sign", "training={name: fedasync, rounds: 3}"],
    "takes a coordinate that is not sent for disagreement, and compression: random_k leaves some out": [
        "compression={name: random_k, share: 0.1}", EQUAL, "training.aggregate=masked"],
    "for disagreement, and compression: top_k leaves": [
        "compression={name: top_k, share: 0.1}", EQUAL, "training.aggregate=shrunk"],
    "takes off the noise of earlier rounds, but compression: random_k sends other coordinates in each": [
        "compression={name: random_k, share: 0.5}", EQUAL, "privacy={stages: [tree_gaussian], accountants: []}"],
    "random_k scales updates before secagg: oblivious adds noise, and epsilon_weight is of the trained ones": [
        "compression={name: random_k, share: 0.5}", EQUAL, "selection=all", "privacy=none",
        "secagg={name: oblivious, epsilon: 1, samples: 20}"],
    "share: ": ["compression={name: top_k, share: 0}"],
    "bits: Input should be greater than or equal to 2": ["compression={name: quantise, bits: 1}"],
    "bits: Input should be less than or equal to 16": ["compression={name: quantise, bits: 17}"],
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_would_break_a_promise_is_refused_in_one_line(message, tmp_path):
    with pytest.raises(InvalidScenario) as refused:
        quiet(*REFUSED[message])
    lines = [line for line in str(refused.value).splitlines() if message in line]
    assert len(lines) == 1 and "compression" in lines[0]
