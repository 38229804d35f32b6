"""Draws: what a distribution may give (bounded ones are refused before a run, others at the first impossible draw, by
name), and ways to the same draws and choices that take less time."""

import copy
from dataclasses import dataclass
from hashlib import blake2b
from types import SimpleNamespace

import numpy as np
import pytest

from simfl.core.distributions import DISTRIBUTIONS, checked_draws, per_client, reaching
from simfl.core.errors import ScenarioError
from simfl.core.rng import Address, DrawBounds, Streams
from simfl.core.types import Job
from simfl.devices.computation import RandomTime
from simfl.network.base import NETWORKS
from simfl.network.star import Star
from simfl.scenario import InvalidScenario, Scenario
from simfl.selection.units import blocks

WORLD = """
clients: 4
selection: {name: random, k: 2}
training: {name: fedavg, rounds: 2}
learning: none
"""
CLIENTS = np.arange(4)
WHERE = Address(0, CLIENTS, 4)


@dataclass(frozen=True)
class Gives:
    """A distribution of somebody's own."""

    value: float
    name = "gives"

    def sample(self, rng, size):
        return np.where(np.arange(size) == 1, self.value, 1.0)


@pytest.mark.parametrize(
    "key", ["devices.availability.dropout", "devices.failure.probability", "devices.availability.group_dropout"]
)
@pytest.mark.parametrize(
    ("text", "high"),
    [
        ("{name: uniform, low: 0, high: 1.5}", 1.5),
        ("{name: empirical, values: [0.1, 2]}", 2),
        ("{name: constant, value: 1.25}", 1.25),
    ],
)
def test_a_probability_beyond_one_is_refused_wherever_it_is_drawn(key, text, high):
    choice, _, field = key.rpartition(".")
    plugin = {"dropout": "bernoulli", "probability": "bernoulli", "group_dropout": "correlated"}[field]
    groups = [f"{choice}.groups=2"] if plugin == "correlated" else []
    with pytest.raises(InvalidScenario) as error:
        Scenario.parse(WORLD, "s.yaml", [f"{choice}={{name: {plugin}, {field}: {text}}}", *groups])
    assert str(error.value).endswith(f"{key}: the distribution reaches up to {high:g}; the nearest valid value is 1"), (
        error.value
    )


@pytest.mark.parametrize(
    "network",
    [
        "{name: star, bandwidth_bytes_per_s: {name: empirical, values: [0, 100]}}",
        "{name: star, up_bandwidth_bytes_per_s: {name: uniform, low: 0, high: 100}}",
        "{name: ring, latency_s: 1, bandwidth_bytes_per_s: 0}",
        "{name: cities, server: Boston, rtt: great_circle, bandwidth_bytes_per_s: {name: uniform, low: 0, high: 9}}",
    ],
)
def test_a_bandwidth_that_reaches_zero_is_refused(network):
    message = "network.*bandwidth_bytes_per_s: the distribution reaches down to 0; the nearest valid value is 1e-09"
    with pytest.raises(InvalidScenario, match=message):
        Scenario.parse(WORLD, "s.yaml", [f"network={network}"])


def test_what_stays_within_is_taken():
    assert reaching("dropout", DISTRIBUTIONS.of({"name": "uniform", "low": 0, "high": 1}), most=1) == []
    assert reaching("dropout", DISTRIBUTIONS.of({"name": "exponential", "mean": 3}), most=1) == []
    assert reaching("dropout", 0.3, most=1) == reaching("dropout", None, most=1) == []


@pytest.mark.parametrize("name", sorted(DISTRIBUTIONS))
def test_the_ends_of_a_distribution_hold_its_draws(name):
    fields = {"uniform": {"low": 2, "high": 5}, "empirical": {"values": [3, 8]}, "constant": {"value": 4}}
    rest = {"exponential": {"mean": 1}, "half_normal": {"sigma": 1}, "log_normal": {"median": 1, "sigma": 1}}
    distribution = DISTRIBUTIONS.of({"name": name} | (fields | rest)[name])
    assert (distribution.ends is not None) == (name in fields)
    low, high = distribution.ends or (0, np.inf)
    draws = distribution.sample(np.random.default_rng(0), 10_000)
    assert low <= draws.min() and draws.max() <= high
    if name in fields:
        assert draws.min() == pytest.approx(low, abs=0.01) and draws.max() == pytest.approx(high, abs=0.01)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -0.5])
def test_impossible_draws_are_refused_by_name_and_key(wrong):
    gives, scenario, streams = Gives(wrong), SimpleNamespace(clients=4), Streams(0)
    said = f"the distribution 'gives' gave {wrong:g}, but a finite number from 0 is needed"

    def refused(key):
        return pytest.raises(ScenarioError, match=f"^{key}: {said}")

    with refused("some.key"):
        per_client(gives, 4, streams("x"), "some.key")
    with refused("latency_s"):
        Star(latency_s=gives).build(scenario, streams)
    with refused("bandwidth_bytes_per_s"):
        Star(bandwidth_bytes_per_s=gives).build(scenario, streams)
    with refused("latency_s"):
        NETWORKS["ring"](latency_s=gives).build(scenario, streams)
    with refused("network.jitter_s"):
        Star(jitter_s=gives).build(scenario, streams).up_s(CLIENTS, 1.0, WHERE)
    with refused("speed"):
        RandomTime(DISTRIBUTIONS.of(1), speed=gives).build(scenario, streams)
    with refused("devices.computation.distribution"):
        RandomTime(gives).build(scenario, streams).duration_s(CLIENTS, np.ones(4), 1.0, WHERE)


def test_possible_draws_pass_unchanged():
    values = np.array([0.0, 1e300])
    assert checked_draws("key", None, values) is values and checked_draws("key", None, np.empty(0)).size == 0


def test_a_stream_is_numpys_philox_of_the_digest_of_its_address():
    key = np.frombuffer(blake2b(b"7/availability/3", digest_size=16).digest(), dtype="<u8")
    numpys, ours = np.random.Generator(np.random.Philox(key=key)), Streams(7)("availability", 3)
    np.testing.assert_array_equal(ours.bit_generator.random_raw(9), numpys.bit_generator.random_raw(9))
    np.testing.assert_array_equal(copy.deepcopy(ours).normal(size=9), numpys.normal(size=9))


@pytest.mark.parametrize("size", [1, 2, 32_768, 70_001])
def test_bounds_are_reached_by_the_draws_that_numpy_makes(size):
    """Also by a draw that lies on its bound, and where a bound is 0 or 1; equal bounds are kept once."""
    rng, drawn = np.random.default_rng(size), Streams(7)("u", 1).random(size)
    near = np.clip(np.nextafter(drawn, rng.choice([0.0, 2.0], size)), 0, 1)
    for values in (rng.random(size), rng.integers(2, size=size).astype(float), drawn, near, np.full(size, 0.3)):
        bounds = DrawBounds.of(values)
        assert bounds.compare(Streams(7)("u", 1)).tolist() == (drawn >= values).tolist()
        assert len(bounds.words) in (1, size)
    assert len(bounds.words) == 1


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000])
def test_places_of_true_flags_by_rank(size):
    rng = np.random.default_rng(size)
    for share in (0.02, 0.5, 1.0):
        flags = rng.random(size) < share
        flags[rng.integers(size)] = True
        places = np.flatnonzero(flags)
        ranks = rng.permutation(len(places))[: 1 + len(places) // 2]
        assert blocks.nth_true(flags, ranks).tolist() == places[ranks].tolist()


def test_jobs_of_many_clients_are_those_of_each():
    clients = np.array([4, 0, 9], dtype=np.int32)
    assert Job.of_all(3, clients, 2, 1.5) == [Job.of(3, client, 2, 1.5) for client in clients.tolist()]
