"""What a server sees beside the sums that it counts makes every number as bad as it is."""

import json

import pytest
from click.testing import CliRunner

from simfl.cli import simfl

SMALL_COHORTS = """clients: 9
seed: 12
selection: {name: bernoulli, k: 6}
training: {name: fedavg, rounds: 3, weighting: equal, on_failure: abort}
learning: {name: none, parameters: 3}
network: {name: star, latency_s: 0.1}
devices: {failure: {name: bernoulli, probability: 0.12}}
privacy: {colluders: 2}
"""
BROKEN_UNITS = """clients: 12
seed: 3
selection: {name: batch_partition, k: 12, T: 6}
training: {name: fedavg, rounds: 4, weighting: equal, on_failure: drop_unit, batch_size: 50}
learning: {data: digits, model: logistic}
secagg: plain
devices: {failure: {name: bernoulli, probability: 0.15}}
"""
PERTURBED = """clients: 6
seed: 3
selection: all
training: {name: fedavg, rounds: 8, weighting: equal, weight_decay: 1.0, learning_rate: 0.001, on_failure: abort}
learning: {data: digits, model: logistic}
secagg: plain
devices: {failure: {name: bernoulli, probability: 0.0}}
privacy:
  stages: [{name: output_perturbation, epsilon: 1.0, samples: 200, noise_scale: calibrated, adds: whole}]
"""
GROWING = """clients: 6
selection: {name: batch_partition, k: 2, T: 2}
training: {name: fedavg, rounds: 4, weighting: samples, batch_size: 50}
learning:
  data: digits
  model: logistic
  partition: {name: growing, first: 5, new: 10, versions: 8}
secagg: ideal
"""
STILL = """clients: 6
selection: {name: random, k: 3}
training: {name: fedavg, rounds: 40, weighting: equal, batch_size: 50, learning_rate: 0.0001}
learning: {data: digits, model: logistic}
"""


@pytest.fixture
def call(tmp_path):
    def call(*words, scenario=None):
        if scenario is not None:
            (tmp_path / "base.yaml").write_text(scenario)
            words = (words[0], str(tmp_path / "base.yaml"), *words[1:], "--out", str(tmp_path / "runs"))
        return CliRunner().invoke(simfl, [*map(str, words), *["--json"] * (scenario is not None)])

    return call


def summary(done):
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("secagg", ["secagg", "lightsecagg"])
def test_colluders_open_an_aborted_round_by_the_secrets_of_its_own_cohort(call, secagg):
    """Two of a cohort of three hold what opens the third's update, whatever later cohorts are."""
    found = summary(call("run", f"secagg={secagg}", scenario=SMALL_COHORTS))
    assert found["tolerated_colluders"] < 2 and found["privacy_strong_colluders"] == 1 < found["privacy_strong"]


def test_nobody_says_what_is_recovered_where_updates_were_shown_that_were_never_trained(call):
    assert summary(call("run", scenario=BROKEN_UNITS))["measured_recovered"] is None
    whole = summary(call("run", "devices.failure.probability=0", scenario=BROKEN_UNITS))
    assert whole["measured_recovered"] == 12 and whole["measured_error"] == 0


@pytest.mark.parametrize(("failing", "infinite"), [(0.0, False), (0.35, True), (0.9, True)])
def test_noised_models_that_were_sent_and_not_summed_count(call, failing, infinite):
    """With 0.9 no round is summed, and models are sent all the same."""
    found = summary(call("run", f"devices.failure.probability={failing}", scenario=PERTURBED))
    assert (found["epsilon_model"] is None) == (found["epsilon_weight"] is None) == infinite


def test_a_coalition_is_told_no_more_of_sums_than_the_server_alone(call):
    """Weights that change from sum to sum make the run say 1."""
    done = summary(call("run", scenario=GROWING))
    assert done["privacy_strong"] == 1
    for words in ((), ("--colluder", "0")):
        audited = call("audit", done["path"], *words)
        assert audited.exit_code != 0 and "more than sums was seen" in audited.output


def test_single_updates_that_are_shown_are_averaged_and_dropped_coordinates_are_not_taken_for_zeros(call):
    coded = summary(call("run", "compression={name: quantise, bits: 6}", scenario=STILL))
    assert coded["measured_recovered"] == 6 and coded["measured_error"] < 0.05
    dropped = summary(call("run", "compression={name: random_k, share: 0.5}", scenario=STILL))
    assert dropped["measured_recovered"] is None


def test_noise_on_sums_that_may_wrap_around_is_refused(call):
    wraps = "secagg={name: secagg, scale: 1e9, on_wrap: allow}"
    done = call("run", wraps, "privacy.stages=[central_gaussian]", scenario=STILL)
    assert done.exit_code == 2 and "may wrap by one update" in done.output


def test_an_audit_of_a_folder_counts_messages_for_local_noise_as_the_run_does(call):
    noise = "{name: local_gaussian, clip_norm: 1.0, epsilon: 1.0, delta: 1.0e-5}"
    learns_nothing = BROKEN_UNITS.replace("secagg: plain\n", "").replace(
        "learning: {data: digits, model: logistic}", "learning: none"
    )
    noised = summary(
        call("run", f"privacy.stages=[{noise}]", "privacy.accountants=[zero_out]", scenario=learns_nothing)
    )
    bare = summary(call("run", scenario=learns_nothing))
    told = call("audit", bare["path"], "--noise", "local_gaussian:clip_norm=1,epsilon=1,delta=0.00001", "--json")
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["epsilon"]["max"] == pytest.approx(noised["epsilon_max"], rel=1e-6)


@pytest.mark.parametrize("grid", ["secagg={name: secagg, scale: 16}", "secagg={name: lightsecagg, scale: 100}"])
def test_theory_leaves_no_rounding_out_of_the_noise_for_an_epsilon(call, tmp_path, grid):
    (tmp_path / "base.yaml").write_text(STILL)
    told = call("theory", tmp_path / "base.yaml", grid, "--epsilon", 3)
    assert told.exit_code == 2 and "rounds to a scale of your own" in told.output
    told = call("theory", tmp_path / "base.yaml", "secagg=secagg", "--epsilon", 3)
    assert "what the protocol's rounding adds" in told.output
