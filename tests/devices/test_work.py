"""How long training takes and who dies of it."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from simfl.core.distributions import DISTRIBUTIONS
from simfl.core.errors import ScenarioError
from simfl.core.rng import Address, Streams
from simfl.devices import COMPUTATION, FAILURE, Devices

SAMPLES = np.array([10, 20, 30])
EVERYONE = np.arange(3)


def computing(clients=3, seed=0, **fields):
    plugin, scenario = COMPUTATION.of(fields), SimpleNamespace(clients=clients)
    assert plugin.check(scenario) == []
    return plugin.build(scenario, Streams(seed))


def failing(clients, probability, seed=0):
    plugin, scenario = FAILURE.of({"name": "bernoulli", "probability": probability}), SimpleNamespace(clients=clients)
    assert plugin.check(scenario) == []
    return plugin.build(scenario, Streams(seed))


def test_constant():
    where = Address(0, EVERYONE, 3)
    assert computing(name="constant", seconds=0.5).duration_s(EVERYONE, SAMPLES, 5, where).tolist() == [0.5] * 3
    assert COMPUTATION.of(0.5) == COMPUTATION.of({"name": "constant", "seconds": 0.5})
    assert (
        not Devices()
        .computation.build(SimpleNamespace(clients=3), Streams(0))
        .duration_s(EVERYONE, SAMPLES, 1, where)
        .any()
    )


def test_per_sample_by_hand():
    model = computing(name="per_sample", seconds=0.01, speed=[1, 2, 0.5])
    clients = np.array([2, 0])
    duration = model.duration_s(clients, SAMPLES[clients], 4, Address(0, clients, 3))
    assert duration == pytest.approx([0.01 * 30 * 4 * 0.5, 0.01 * 10 * 4])


def test_a_speed_is_drawn_once_for_each_client():
    speed = {"name": "log_normal", "median": 1, "sigma": 0.5}
    model = computing(name="per_sample", seconds=1, speed=speed)
    first, second = (model.duration_s(EVERYONE, np.ones(3), 1, Address(t, EVERYONE, 3)) for t in (0, 1))
    assert np.array_equal(first, second) and len(set(first)) == 3
    assert np.array_equal(first, DISTRIBUTIONS.of(speed).sample(Streams(0)("speed"), 3))


@pytest.mark.parametrize(
    "distribution",
    [
        {"name": "exponential", "mean": 2},
        {"name": "half_normal", "sigma": 2},
        {"name": "log_normal", "median": 1, "sigma": 0.7},
        {"name": "uniform", "low": 1, "high": 2},
        {"name": "empirical", "values": [1, 2, 5]},
    ],
)
def test_random_durations(distribution):
    n = 10_000
    model = computing(n, name="random", distribution=distribution)
    everyone = np.arange(n)
    duration = model.duration_s(everyone, np.full(n, 50), 3, Address(0, everyone, n))
    assert abs(duration.mean() - DISTRIBUTIONS.of(distribution).mean) < 5 * duration.std() / np.sqrt(n)
    again = model.duration_s(everyone, np.full(n, 50), 3, Address(1, everyone, n))
    assert abs(np.corrcoef(duration, again)[0, 1]) < 5 / np.sqrt(n)


def test_random_durations_are_addressed():
    model = computing(8, name="random", distribution={"name": "exponential", "mean": 1}, speed=[1, 1, 1, 1, 1, 1, 1, 3])
    everyone, ones = np.arange(8), np.ones(8)
    whole = model.duration_s(everyone, ones, 1, Address(6, everyone, 8))
    some = np.array([7, 2])
    assert model.duration_s(some, ones[:2], 1, Address(6, some, 8)).tolist() == whole[some].tolist()
    # another client with the address of client 7's draw has its draw, not its factor
    other = np.array([0])
    assert model.duration_s(other, ones[:1], 1, Address(6, np.array([7]), 8)) == pytest.approx(whole[7] / 3)


def test_nobody_fails_by_default():
    model = Devices().failure.build(SimpleNamespace(clients=3), Streams(0))
    assert np.isnan(model.draw(EVERYONE, Address(0, EVERYONE, 3))).all()


def test_failures_and_their_moments():
    n = 20_000
    rates = np.tile([0.0, 0.1, 0.6, 1.0], n // 4)
    everyone = np.arange(n)
    moment = failing(n, rates.tolist()).draw(everyone, Address(4, everyone, n))
    for rate in (0.0, 0.1, 0.6, 1.0):
        mine = moment[rates == rate]
        died = mine[~np.isnan(mine)]
        assert abs(len(died) / len(mine) - rate) <= 5 * np.sqrt(rate * (1 - rate) / len(mine))
        if rate:
            assert died.min() >= 0 and died.max() < 1
            assert stats.kstest(died, "uniform").pvalue > 1e-3


def test_failures_are_addressed():
    model = failing(50, 0.5)
    everyone = np.arange(50)
    whole = model.draw(everyone, Address(2, everyone, 50))
    some = np.array([31, 4, 18])
    assert np.array_equal(model.draw(some, Address(2, some, 50)), whole[some], equal_nan=True)
    assert not np.array_equal(model.draw(everyone, Address(3, everyone, 50)), whole, equal_nan=True)
    assert FAILURE.of(0.5) == FAILURE.of({"name": "bernoulli", "probability": 0.5})


def test_impossible_probabilities():
    with pytest.raises(ScenarioError, match="^probability: the distribution gave"):
        failing(3, {"name": "exponential", "mean": 1e9})
    plugin = FAILURE.of({"name": "bernoulli", "probability": [0.1]})
    assert [key for key, _ in plugin.check(SimpleNamespace(clients=2))] == ["probability"]
    plugin = COMPUTATION.of({"name": "per_sample", "seconds": 1, "speed": [1.0]})
    assert [key for key, _ in plugin.check(SimpleNamespace(clients=2))] == ["speed"]
