"""Named distributions have the moments and quantiles of their definitions; per-client values take three forms."""

import numpy as np
import pytest
from pydantic import ValidationError

from simfl.core.distributions import DISTRIBUTIONS, Choices, all_equal, length_problems, per_client, probabilities
from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams

EXAMPLES = {
    "constant": {"value": 3},
    "uniform": {"low": 1, "high": 3},
    "exponential": {"mean": 0.5},
    "half_normal": {"sigma": 2},
    "log_normal": {"median": 2, "sigma": 0.5},
    "empirical": {"values": [1, 1, 4]},
}
# P(X <= x) at some x, by hand
QUANTILES = {
    "uniform": (1.5, 0.25),
    "exponential": (0.5, 1 - np.exp(-1)),
    "half_normal": (2, 0.6826895),
    "log_normal": (2, 0.5),
    "empirical": (1, 2 / 3),
}
MEANS = {
    "constant": 3,
    "uniform": 2,
    "exponential": 0.5,
    "half_normal": 2 * np.sqrt(2 / np.pi),
    "log_normal": 2 * np.exp(0.125),
    "empirical": 2,
}


def make(name):
    return DISTRIBUTIONS.of({"name": name, **EXAMPLES[name]})


def test_every_distribution_has_an_example():
    assert set(EXAMPLES) == set(DISTRIBUTIONS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_moments_and_quantiles(name):
    n = 100_000
    distribution, draws = make(name), make(name).sample(Streams(1)("test"), n)
    assert draws.shape == (n,) and draws.dtype == np.float64 and draws.min() >= 0
    assert distribution.mean == pytest.approx(MEANS[name])
    assert abs(draws.mean() - MEANS[name]) <= 5 * draws.std() / np.sqrt(n)
    if name in QUANTILES:
        x, p = QUANTILES[name]
        assert abs((draws <= x).mean() - p) < 5 * np.sqrt(p * (1 - p) / n)


@pytest.mark.parametrize("name", EXAMPLES)
def test_prefix_property(name):
    for n in (1, 7, 100):
        fewer, more = (make(name).sample(Streams(2)("test"), size) for size in (n, n + 1))
        assert np.array_equal(fewer, more[:n])


def test_a_number_stands_for_the_constant():
    assert DISTRIBUTIONS.of(0.25) == make("constant").__class__(0.25)


@pytest.mark.parametrize(
    "bad",
    [
        {"name": "exponential", "mean": -1},
        {"name": "empirical", "values": []},
        {"name": "half_normal", "sigma": 0},
        {"name": "uniform", "low": 1},
        {"name": "gauss"},
        -1,
        True,
    ],
)
def test_impossible_values_are_refused(bad):
    with pytest.raises(ValidationError):
        DISTRIBUTIONS.of(bad)


def test_uniform_names_the_nearest_end():
    problems = DISTRIBUTIONS.of({"name": "uniform", "low": 2, "high": 1}).check(None)
    assert problems == [("high", "is below low (2.0); the nearest valid value is 2.0")]


def test_values_of_clients():
    rng = Streams(0)("test")
    assert per_client(2, 3, rng).tolist() == [2, 2, 2]
    assert per_client((1.0, 5.0), 2, rng).tolist() == [1, 5]
    drawn = per_client(make("exponential"), 5, Streams(0)("test"))
    assert np.array_equal(drawn, make("exponential").sample(Streams(0)("test"), 5))
    assert set(per_client(Choices((0.1, 0.4)), 100, rng)) == {0.1, 0.4}


def test_choices_are_equally_likely():
    drawn = Choices((0.1, 0.2, 0.3, 0.4, 0.5)).sample(Streams(3)("test"), 50_000)
    shares = [(drawn == p).mean() for p in (0.1, 0.2, 0.3, 0.4, 0.5)]
    assert np.abs(np.array(shares) - 0.2).max() < 5 * np.sqrt(0.16 / 50_000)


def test_a_probability_above_one_is_refused():
    with pytest.raises(ScenarioError, match=r"devices.failure.probability: the distribution gave 3"):
        probabilities("devices.failure.probability", make("constant"), 4, Streams(0)("test"))


def test_lists_have_one_value_a_client():
    assert length_problems("speed", (1.0, 2.0), 2) == [] and length_problems("speed", 1.0, 2) == []
    ((key, message),) = length_problems("speed", (1.0, 2.0), 3)
    assert key == "speed" and "2 values" in message and "3 clients" in message


def test_equal_only_where_it_is_certain():
    assert all_equal(0.3) and all_equal((0.1, 0.1)) and all_equal(Choices((0.2, 0.2))) and all_equal(make("constant"))
    assert not all_equal((0.1, 0.2)) and not all_equal(Choices((0.1, 0.2))) and not all_equal(make("uniform"))


def test_exponentials_are_those_of_the_c_library():
    """Not numpy's, whose last bits depend on the processor."""
    from math import exp

    from simfl.core.distributions import exponentials

    values = np.random.default_rng(0).normal(0, 3, 2000)
    assert exponentials(values).tolist() == [exp(value) for value in values.tolist()]
    assert np.isfinite(exponentials(np.array([1e6]))).all() and exponentials(np.array([-1e6])).tolist() == [0.0]
    assert exponentials(np.zeros(0)).shape == (0,)
