"""What holds for every network: it is reproducible, and a further client changes nobody else's delays."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from simfl.core.registration.protocol import plain
from simfl.core.rng import Address, Streams
from simfl.network.base import NETWORKS
from simfl.scenario.fields import describe

DRAWN = {"name": "log_normal", "median": 0.1, "sigma": 0.5}
EXAMPLES = {
    "star": {"latency_s": DRAWN, "bandwidth_bytes_per_s": DRAWN, "up_bandwidth_bytes_per_s": DRAWN, "jitter_s": DRAWN},
    "graph": {"edges": [["server", "a", 1], ["a", "b", 2], ["b", "c", 4]], "placement": "random", "jitter_s": DRAWN},
    "file": {"path": "links.csv", "server": "s", "placement": "random", "jitter_s": DRAWN},
    "cities": {
        "server": "Oslo",
        "rtt": "great_circle",
        "placement": "population",
        "bandwidth_bytes_per_s": DRAWN,
        "jitter_s": DRAWN,
    },
    "ring": {"latency_s": DRAWN, "bandwidth_bytes_per_s": DRAWN, "jitter_s": DRAWN},
    "complete": {"latency_s": DRAWN, "bandwidth_bytes_per_s": DRAWN, "jitter_s": DRAWN},
    "small_world": {"latency_s": DRAWN, "bandwidth_bytes_per_s": DRAWN, "jitter_s": DRAWN},
}
GROWING = {"ring", "complete", "small_world"}  # a further client is a further node: paths may lead through it


def delays(name, folder, clients, seed=0, of=None):
    (folder / "links.csv").write_text("src,dst,rtt_ms\ns,a,10\na,b,30\n")
    network = NETWORKS.of({"name": name, **EXAMPLES[name]})
    scenario = SimpleNamespace(clients=clients, file=lambda path: folder / path)
    assert network.check(scenario) == []
    links = network.build(scenario, Streams(seed))
    of = np.arange(clients if of is None else of)
    where = Address(5, of, clients)
    between = links.between_s(of, of[::-1], 1000, where)
    return np.array([links.down_s(of, 1000, where), links.up_s(of, 1000, where), between])


def test_every_network_has_an_example():
    assert set(EXAMPLES) == set(NETWORKS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_delays_are_finite_and_reproducible(name, tmp_path):
    first = delays(name, tmp_path, 9)
    assert first.shape == (3, 9) and first.dtype == np.float64 and np.isfinite(first).all() and first.min() >= 0
    assert np.array_equal(first, delays(name, tmp_path, 9))
    assert not np.array_equal(first, delays(name, tmp_path, 9, seed=1))


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - GROWING))
def test_a_further_client_changes_nobody_elses_delays(name, tmp_path):
    for clients in (1, 8, 33):
        fewer, more = (delays(name, tmp_path, n, of=clients) for n in (clients, clients + 1))
        assert np.array_equal(fewer, more)


@pytest.mark.parametrize("name", EXAMPLES)
def test_choices_survive_being_written_down(name):
    network = NETWORKS.of({"name": name, **EXAMPLES[name]})
    assert NETWORKS.of(json.loads(json.dumps(plain(network)))) == network


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_field_is_described(name):
    assert NETWORKS[name].__doc__ and all(field.description for field in describe(NETWORKS[name]))
