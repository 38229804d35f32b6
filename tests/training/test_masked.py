"""Gradient-masked averaging: its arms by hand, where it masks, and its column."""

import csv

import numpy as np
import pytest

from simfl.agents.aggregation.accounts import RoundAccounts
from simfl.agents.aggregation.global_model import GlobalModelState
from simfl.runs.run import build, run
from simfl.scenario import Scenario
from simfl.secagg.sessions import SessionResult
from simfl.training.aggregates import AGGREGATES, sign_mask
from tests.learning.test_supervised import jobs
from tests.training.test_rules import combine

SCENARIO = """
clients: 10
selection: all
training: {name: fedavg, rounds: 3, batch_size: 16, learning_rate: 0.3, weighting: equal}
learning: {data: {name: synthetic, samples: 300, test_samples: 40}, model: logistic, evaluate: 0}
privacy: none
"""


def play(tmp_path, *overrides):
    folder = run(Scenario.parse(SCENARIO, "masks", list(overrides)), tmp_path).path
    with open(folder / "rounds.csv", newline="") as file:
        return np.load(folder / "model.npy"), list(csv.DictReader(file))


def ones(n, d=1):
    return np.ones((n, d), dtype=np.float32), np.ones(n)


@pytest.mark.parametrize(("positive", "mask"), [(10, 1), (7, 1), (6, np.float32(0.2)), (5, 0), (0, 1)])
def test_votes_of_ten(positive, mask):
    """|7 - 3| / 10 = 0.4 reaches tau = 0.4: seven of ten is where a coordinate keeps its mean."""
    deltas, weights = ones(10)
    deltas[positive:] = -1
    assert sign_mask(deltas, weights, None, 0.4).tolist() == [mask]


def test_zeros_count_and_clients_without_weight_do_not():
    deltas = np.float32([[1, 1], [1, 0], [-1, 0], [-1, 1]])
    assert sign_mask(deltas, np.float64([1, 1, 1, 0]), None, 1.0).tolist() == [np.float32(1 / 3), np.float32(1 / 3)]
    holds = np.array([[True, True], [True, False], [False, False], [False, False]])
    assert sign_mask(np.where(holds, deltas, 0), np.ones(4), holds, 1.0).tolist() == [1, 1]


def test_many_voters_and_many_coordinates_against_plain_numpy():
    rng = np.random.default_rng(0)
    for n, d in ((3, 100_003), (200, 70)):
        deltas = rng.integers(-1, 2, (n, d)).astype(np.float32)
        share = np.abs(np.sign(deltas).sum(axis=0)) / n
        expected = np.where(share >= 0.3, 1, share).astype(np.float32)
        assert np.array_equal(sign_mask(deltas, np.ones(n), None, 0.3), expected)


def test_rescaled_masks_average_one_and_shrunk_is_as_short():
    rng = np.random.default_rng(1)
    deltas, weights = rng.normal(size=(10, 40)).astype(np.float32), np.ones(10)
    tensors = (slice(0, 30), slice(30, 40))
    mask = sign_mask(deltas, weights, None, 0.4)
    whole = AGGREGATES["masked"](rescale="all").factor(deltas, weights, None, tensors)
    assert whole.values.mean() == pytest.approx(1, abs=1e-6) and not whole.on_step
    parts = AGGREGATES["masked"](rescale="layer").factor(deltas, weights, None, tensors)
    assert [parts.values[part].mean() for part in tensors] == pytest.approx([1, 1], abs=1e-6)
    control = AGGREGATES["shrunk"]().factor(deltas, weights, None, tensors)
    assert control.values == np.float32(mask.mean(dtype=np.float64))
    assert whole.row == parts.row == control.row == {"mask_mean": pytest.approx(float(mask.mean()), abs=1e-6)}


def test_of_one_update_nothing_is_taken():
    assert combine("masked", [[2, -3, 0]], tau=1.0).tolist() == [2, -3, 0]


@pytest.mark.parametrize("masks", ["update", "step"])
@pytest.mark.parametrize("optimiser", ["sgd", "{name: sgd, momentum: 0.5}", "adam"])
def test_with_tau_zero_it_is_the_mean_bit_for_bit(tmp_path, masks, optimiser):
    server = [f"training.server_optimiser={optimiser}", "training.server_learning_rate=0.1"]
    mean, _ = play(tmp_path, *server)
    masked, rows = play(tmp_path, *server, f"training.aggregate={{name: masked, tau: 0, masks: {masks}}}")
    assert np.array_equal(mean, masked) and all(float(row["mask_mean"]) == 1 for row in rows)


def test_without_an_optimisers_memory_masking_the_step_is_masking_the_update(tmp_path):
    update, rows = play(tmp_path, "training.aggregate={name: masked, tau: 1}")
    step, _ = play(tmp_path, "training.aggregate={name: masked, tau: 1, masks: step}")
    np.testing.assert_allclose(step, update, atol=1e-6)
    assert all(0 < float(row["mask_mean"]) < 1 for row in rows)


def test_a_masked_step_leaves_adams_moments_as_they_would_be(tmp_path):
    """From one model and the same updates: the moments are the unmasked run's, the step is its times the mask."""
    states, models, start = {}, {}, None
    for masks in ("mean", "{name: masked, tau: 1, masks: step}", "{name: masked, tau: 1}"):
        text = ["training.server_optimiser=adam", "training.server_learning_rate=0.1", f"training.aggregate={masks}"]
        parts = build(Scenario.parse(SCENARIO, "masks", text))
        server = GlobalModelState(parts)
        start = server.model.copy()
        server.aggregate(jobs(range(10)), None, SessionResult(np.ones(10, dtype=bool)), 0.0, RoundAccounts(None), {})
        states[masks], models[masks] = server.optimiser, server.model
    mean, step, update = states
    for moment in ("first", "second"):
        assert np.array_equal(states[mean][moment], states[step][moment])
        assert not np.array_equal(states[mean][moment], states[update][moment])
    whole, part = models[mean] - start, models[step] - start
    moved = np.abs(whole) > 1e-4
    ratio = part[moved] / whole[moved]
    assert ((ratio > -1e-3) & (ratio < 1 + 1e-3)).all() and (ratio < 0.9).any()
