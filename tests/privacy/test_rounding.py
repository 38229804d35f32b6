"""What a protocol rounds to its grid after it was clipped is longer than the clip norm: epsilon is of what it is then.

Losses of single numbers are enumerated exactly; a whole run, and every protocol, says the sensitivity that it has.
"""

import json
from dataclasses import replace
from math import ceil, inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.privacy.dp.mechanisms import gaussian
from simfl.privacy.stage import STAGES, Members
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.crypto.quantise import Grid, round_stochastically
from simfl.secagg.sessions import ClientUpdates
from tests.support.judge import table
from tests.support.privacy_losses import own_loss

BASE = {
    "clients": 6,
    "selection": "all",
    "training": {"name": "fedavg", "rounds": 3, "weighting": "equal"},
    "learning": {"name": "none", "parameters": 50},
}
JOBS = tuple(Job(i, i, 0, 0.0) for i in range(3))
DELTA = 1e-5


def members(step, coordinates, number=0):
    return Members(number, JOBS, np.ones(3), 3.0, step=step, coordinates=coordinates)


def mu(stage, summed, state=None):
    facts = stage.facts(summed, stage.start(summed.coordinates) if state is None else state)
    return float(own_loss(stage, {name: np.array([value]) for name, value in facts.items()}).mu[0])


def excess(epsilon, chance, moved, std):
    """The exact delta of epsilon of one coordinate that is ``moved`` with a chance, and else 0, in noise of ``std``:
    against a silent client, in both directions.
    """
    x = np.linspace(-40 * std, 40 * std + moved, 400_001)
    silent = norm.pdf(x, 0, std)
    with_it = (1 - chance) * silent + chance * norm.pdf(x, moved, std)
    pairs = (with_it, silent), (silent, with_it)
    return max(float(np.maximum(p - np.exp(epsilon) * q, 0).sum() * (x[1] - x[0])) for p, q in pairs)


@pytest.mark.parametrize("scale", [1.0, 4.0, 30.0])
@pytest.mark.parametrize("name", ["central_gaussian", "tree_gaussian"])
def test_a_claimed_epsilon_is_true_of_one_rounded_coordinate(name, scale):
    """An update of C = 0.1 becomes one step of a coarse grid with probability 0.1 scale."""
    stage = replace(STAGES.of(name), clip_norm=0.1, noise_multiplier=4.0)
    without, counted = (float(gaussian.epsilon(mu(stage, members(step, 1)), DELTA)) for step in (0.0, 1 / scale))
    up = ceil(0.1 * scale) / scale
    chance = 0.1 * scale - np.floor(0.1 * scale) or 1.0
    assert excess(counted, chance, up, stage.std) <= DELTA
    if scale < 10:  # what was claimed without the rounding is not
        assert excess(without, chance, up, stage.std) > DELTA


@given(st.integers(1, 40), st.floats(0.5, 200), st.floats(0.05, 2), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_no_rounded_update_is_longer_than_the_sensitivity(d, scale, clip, seed):
    rng = np.random.default_rng(seed)
    stage = replace(STAGES.of("central_gaussian"), clip_norm=clip)
    vectors = (rng.normal(size=(4, d)) * 10.0 ** rng.integers(-2, 3)).astype(np.float32)
    grid = Grid(scale, 4.0)
    most = stage.facts(members(grid.step, d), {})["sensitivity"]
    for sent in stage.client(vectors, JOBS, {}, Streams(seed)):
        assert np.linalg.norm(round_stochastically(sent, grid, rng).values / scale) <= most * (1 + 1e-6)


def test_the_adaptive_norm_counts_the_rounded_update_and_the_rounded_bit():
    stage = replace(STAGES.of("adaptive_gaussian"), noise_multiplier=1.0, bit_std=2.0, initial_norm=0.5)
    update = (0.5 + sqrt(17)) / (0.5 * stage.update_multiplier)
    assert mu(stage, members(1.0, 17)) == pytest.approx(sqrt(update**2 + (1 / 2.0) ** 2))
    assert mu(stage, members(2.0**-30, 17)) == pytest.approx(1.0, rel=1e-6)


def test_a_tree_counts_the_coarsest_grid_so_far():
    """A block holds sums of earlier aggregates, which may have been rounded to a coarser grid."""
    stage = replace(STAGES.of("tree_gaussian"), noise_multiplier=1.0)
    state, said = stage.start(4), []
    for number, step in enumerate((0.0, 0.5, 0.25)):
        summed = members(step, 4, number)
        said.append(stage.facts(summed, state)["sensitivity"])
        state = stage.server(np.zeros(4, dtype=np.float32), summed, state, Streams(0))[1]
    assert said == [1.0, 2.0, 2.0]


@pytest.mark.parametrize("execute", [True, "cost_only"])
@pytest.mark.parametrize("secagg", ["secagg", "secagg_plus", "lightsecagg", "pairwise_ratchet", "flamingo", "opa"])
def test_a_run_under_masks_says_the_sensitivity_that_it_has(secagg, execute, tmp_path):
    stage = {"name": "central_gaussian", "clip_norm": 0.1, "noise_multiplier": 4}
    privacy = {"stages": [stage], "accountants": [{"name": "zero_out", "delta": DELTA}]}
    base = BASE | {"privacy": privacy, "secagg": {"name": secagg, "scale": 8, "execute": execute}}
    folder = run(Scenario.parse(json.dumps(base)), tmp_path).path
    sensitivity = 0.1 + sqrt(50) / 8
    values = [float(row["value"]) for row in table(folder / "facts.csv") if row["name"] == "sensitivity"]
    assert values == pytest.approx([sensitivity] * 3)
    summary = json.loads((folder / "summary.json").read_text())
    expected = float(gaussian.epsilon(sqrt(3) * sensitivity / 0.4, DELTA))
    assert summary["epsilon_max"] == pytest.approx(expected, rel=1e-5)


def test_stale_weights_are_rounded_after_the_update_and_count_as_they_are(tmp_path):
    """In a buffer the server weighs whole numbers: mu is the weight times the rounded update's."""
    stage = {"name": "central_gaussian", "clip_norm": 0.1, "noise_multiplier": 4}
    training = {"name": "fedbuff", "rounds": 4, "buffer": 3, "concurrency": 5, "weighting": "equal"}
    base = BASE | {
        "selection": {"name": "random", "k": 3}, "training": training | {"staleness": "polynomial"},
        "secagg": {"name": "basecagg", "scale": 8}, "privacy": {"stages": [stage]},
        "learning": {"data": "digits", "model": "logistic", "partition": "iid"},
    }  # fmt: skip
    folder = run(Scenario.parse(json.dumps(base)), tmp_path).path
    values = [float(row["value"]) for row in table(folder / "facts.csv") if row["name"] == "sensitivity"]
    assert values == pytest.approx([0.1 + sqrt(650) / 8] * 4)


def test_what_adds_noise_before_rounding_or_in_the_field_counts_nothing_twice():
    """Whole numbers of skellam are not rounded again, and noise of the clients' own is rounded with the update."""
    for stage in ("skellam", "local_gaussian"):
        said = []
        for step in (0.0, 1.0):
            made = STAGES.of({"name": stage, "sharers": 3, "bits": 16} if stage == "skellam" else stage)
            said.append(made.facts(members(step, 4), made.start(4)))
        assert said[0] == said[1]
    assert Grid(1.0, inf).step == 0.0


@pytest.mark.parametrize("whole", [False, True])
def test_a_sum_says_the_step_of_its_grid(whole):
    protocol = PROTOCOLS.of({"name": "secagg", "scale": 16.0, "weight_channel": False})
    vectors = np.zeros((3, 4), dtype=np.int64 if whole else np.float32)
    ones = np.ones(3)
    combine = lambda rows, *_: rows.mean(axis=0)  # noqa: E731
    updates = ClientUpdates(JOBS, vectors, None, ones, ones, divisor=np.sum, combine=combine)
    quantised = protocol.quantise_updates(updates, ones, 3.0, Streams(0))
    sums = np.sum(quantised.vectors, axis=0)
    for total in (protocol.mean(sums, quantised, updates, 3.0), protocol.clear_aggregate(updates, 3.0)):
        assert total.step == (0.0 if whole else 1 / 16)


def test_a_grid_of_ones_own_beside_central_noise_is_pointed_out():
    def said(stage, **keys):
        base = BASE | {"privacy": {"stages": [stage]}, "secagg": {"name": "secagg", **keys}}
        return any("sensitivity" in caution for caution in Scenario.parse(json.dumps(base)).cautions())

    assert said("central_gaussian", scale=8)
    assert not said("central_gaussian") and not said("clipping", scale=8) and not said("skellam", scale=8)
