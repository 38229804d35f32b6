"""Training rules against hand computations and independent formulas."""

import json
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from simfl.clients.local_training import LocalTraining
from simfl.training.aggregates import AGGREGATES
from simfl.training.base import RULES
from simfl.training.optimisers import SERVER_OPTIMISERS

few = settings(max_examples=50, deadline=None)


def fedavg(**fields):
    return TypeAdapter(Annotated[Any, RULES]).validate_json(json.dumps({"name": "fedavg", "rounds": 1, **fields}))


def step(rule, model, deltas, weights, state):
    """One step of a rule on updates with these weights."""
    change = rule.aggregate.combine(deltas, weights, rule.divisor(weights, np.ones(len(weights), dtype=int)))
    assert rule.aggregate.factor(deltas, weights, None, ()) is None
    return rule.step(model, change, state)


def vectors(*rows):
    return np.array(rows, dtype=np.float32)


def test_weighted_average_by_hand():
    rule = fedavg()
    weights = rule.weights(np.array([1, 3]), np.zeros(2, dtype=int))
    model, state = step(rule, vectors(1, 2), vectors([4, 0], [0, 8]), weights, rule.start(2))
    assert model.tolist() == [1 + 4 / 4, 2 + 8 * 3 / 4] and model.dtype == np.float32 and state == {}
    half = fedavg(server_learning_rate=0.5, weighting="equal")
    weights = half.weights(np.array([1, 3]), np.zeros(2, dtype=int))
    assert step(half, vectors(1, 2), vectors([4, 0], [0, 8]), weights, {})[0].tolist() == [2, 4]


def test_server_momentum_by_hand():
    rule = fedavg(server_optimiser={"name": "sgd", "momentum": 0.5}, server_learning_rate=2.0)
    model, state = step(rule, vectors(0), vectors([1]), np.ones(1), rule.start(1))
    assert model.tolist() == [2]  # v = 1
    model, state = step(rule, model, vectors([3]), np.ones(1), state)
    assert model.tolist() == [2 + 2 * 3.5]  # v = 0.5 + 3


def adaptive(name, gradients, rate, beta1, beta2, tau):
    """Algorithm 2 of Reddi et al. 2021, one coordinate at a time in double precision."""
    x = m = 0.0
    v = tau**2
    for delta in gradients:
        m = beta1 * m + (1 - beta1) * delta
        if name == "adagrad":
            v = v + delta**2
        elif name == "yogi":
            assume(abs(v - delta**2) > 1e-3 * delta**2 or not delta)  # at the tie single and double precision part
            v = v - (1 - beta2) * delta**2 * (1 if v > delta**2 else -1 if v < delta**2 else 0)
        else:
            v = beta2 * v + (1 - beta2) * delta**2
        x = x + rate * m / (v**0.5 + tau)
    return x


@few
@given(
    st.sampled_from(["adam", "yogi", "adagrad"]),
    st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=6),
    st.floats(0, 0.95),
    st.floats(0.5, 0.999),
    st.floats(0.01, 1),
)
def test_adaptive_server_optimisers_follow_the_paper(name, gradients, beta1, beta2, tau):
    fields = {"name": name, "beta1": beta1, "epsilon": tau} | ({} if name == "adagrad" else {"beta2": beta2})
    rule = fedavg(server_optimiser=fields, server_learning_rate=0.3)
    model, state = np.zeros(2, dtype=np.float32), rule.start(2)
    for delta in gradients:
        model, state = step(rule, model, vectors([delta, -delta]), np.ones(1), state)
    expected = adaptive(name, gradients, 0.3, beta1, beta2, tau)
    np.testing.assert_allclose(model, [expected, -expected], rtol=2e-4, atol=2e-5)


def test_fedadam_first_step_by_hand():
    """Delta = 2, beta1 = 0.9, beta2 = 0.99, tau = 0.1: m = 0.2, v = 0.99 * 0.01 + 0.01 * 4 = 0.0499."""
    rule = fedavg(server_optimiser={"name": "adam", "epsilon": 0.1}, server_learning_rate=1.0)
    model, state = step(rule, vectors(5), vectors([2]), np.ones(1), rule.start(1))
    assert model[0] == pytest.approx(5 + 0.2 / (0.0499**0.5 + 0.1), rel=1e-5)
    assert state["second"][0] == pytest.approx(0.0499, rel=1e-5)


@pytest.mark.parametrize("name", list(SERVER_OPTIMISERS))
def test_steps_are_pure(name):
    rule = fedavg(server_optimiser=name)
    rng = np.random.default_rng(0)
    model, deltas = rng.normal(size=5).astype(np.float32), rng.normal(size=(3, 5)).astype(np.float32)
    _, state = step(rule, model, deltas, np.ones(3), rule.start(5))
    kept = [model.copy(), deltas.copy(), {key: value.copy() for key, value in state.items()}]
    first, _ = step(rule, model, deltas, np.ones(3), state)
    second, _ = step(rule, model, deltas, np.ones(3), state)
    assert np.array_equal(first, second) and first.dtype == np.float32
    assert np.array_equal(model, kept[0]) and np.array_equal(deltas, kept[1])
    assert all(np.array_equal(state[key], value) for key, value in kept[2].items())


def combine(name, deltas, weights=None, **fields):
    """The aggregate times its factor, as every server makes it."""
    weights = np.ones(len(deltas)) if weights is None else np.asarray(weights, dtype=float)
    rule, deltas = AGGREGATES[name](**fields), np.asarray(deltas, dtype=np.float32)
    factor = rule.factor(deltas, weights, None, (slice(0, 2), slice(2, deltas.shape[1])))
    return rule.combine(deltas, weights, weights.sum()) * (1 if factor is None else factor.values)


def test_masked_average_by_hand():
    deltas = [[1, 1, 1, 0], [2, -1, 3, 0], [3, 2, 2, 0], [4, -6, -2, 4]]
    # means 2.5, -1, 1, 1; agreement: all positive 1; two against two 0; three to one 1/2; one of four 1/4
    assert combine("masked", deltas, tau=0.0).tolist() == combine("mean", deltas).tolist() == [2.5, -1, 1, 1]
    assert combine("masked", deltas, tau=1.0).tolist() == [2.5, 0, 0.5, 0.25]
    assert combine("masked", deltas, tau=0.4).tolist() == [2.5, 0, 1, 0.25]
    assert combine("masked", [[2], [-1]], weights=[3, 1], tau=1.0).tolist() == [0]


deltas = st.integers(1, 9).flatmap(
    lambda n: st.lists(st.lists(st.integers(-50, 50), min_size=3, max_size=3), min_size=n, max_size=n)
)


@few
@given(deltas, st.floats(0, 0.49))
def test_robust_aggregates_equal_sorting(rows, trim):
    rows = np.array(rows, dtype=np.float32)
    np.testing.assert_allclose(combine("median", rows), np.median(rows, axis=0), rtol=1e-6)
    drop = int(np.floor(trim * len(rows) + 1e-9))
    kept = np.sort(rows, axis=0)[drop : len(rows) - drop]
    np.testing.assert_allclose(combine("trimmed_mean", rows, trim=trim), kept.mean(axis=0), rtol=1e-5, atol=1e-5)
    assert combine("trimmed_mean", rows, trim=0.0) == pytest.approx(combine("mean", rows), abs=1e-4)


def test_robust_aggregates_ignore_a_liar_and_clients_without_samples():
    rows = [[1.0], [2.0], [3.0], [1e9], [0.0]]
    assert combine("median", rows, weights=[1, 1, 1, 1, 0]).tolist() == [2.5]
    assert combine("trimmed_mean", rows, weights=[1, 1, 1, 1, 0], trim=0.25).tolist() == [2.5]


def test_impossible_combinations_are_named():
    learning = SimpleNamespace(evaluate_every=1, columns=())
    plain, hidden = (
        SimpleNamespace(
            learning=learning,
            secagg=SimpleNamespace(name=name, shows_updates=name == "plain", sums_units=False),
            privacy=SimpleNamespace(stages=()),
            training=fedavg(),
        )
        for name in ("plain", "secagg")
    )
    assert fedavg().check(plain) == [] and fedavg().check(hidden) == []
    ((key, message),) = fedavg(aggregate="median").check(plain)
    assert key == "weighting" and "equal" in message
    assert fedavg(aggregate="median", weighting="equal").check(plain) == []
    assert [key for key, _ in fedavg(aggregate="masked").check(hidden)] == ["aggregate"]
    ((key, message),) = fedavg(client="scaffold", momentum=0.9).check(plain)
    assert key == "momentum" and "0" in message


@pytest.mark.parametrize(
    "wrong",
    [
        {"client": "fedprox"},  # mu is needed
        {"client": {"name": "fedprox", "mu": -1}},
        {"server_optimiser": {"name": "adam", "beta1": 1}},
        {"aggregate": {"name": "masked", "tau": 2}},
        {"aggregate": {"name": "trimmed_mean", "trim": 0.5}},
        {"momentum": 1},
        {"clip_norm": 0},
    ],
)
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError):
        fedavg(**wrong)


def test_learning_rate_falls_at_the_named_rounds():
    local = LocalTraining(learning_rate=0.1, decay_at=(400, 800), decay=0.4)
    rates = [local.rate(version) for version in (0, 399, 400, 799, 800, 2000)]
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.04, 0.04, 0.016, 0.016])
