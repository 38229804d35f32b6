"""Delays over a star, worked out by hand; a million clients are arrays."""

import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from simfl.core.distributions import DISTRIBUTIONS
from simfl.core.errors import ScenarioError
from simfl.core.rng import Address, Streams
from simfl.core.types import SERVER
from simfl.network.base import NETWORKS


def star(clients, seed=0, **fields):
    network = NETWORKS.of({"name": "star", **fields})
    scenario = SimpleNamespace(clients=clients)
    assert network.check(scenario) == []
    return network.build(scenario, Streams(seed))


def at(clients, size=None, tick=0):
    clients = np.asarray(clients)
    return clients, Address(tick, clients, size or len(clients))


def test_latency_example_of_the_thesis():
    """TH Table 5.3: the slowest client's way there and back, then each one's own way (0.01 s of computation)."""
    links = star(3, names=["Boston", "Singapore", "New York"], latency_s=[0.3, 2.0, 0.1])
    everyone, where = at([0, 1, 2])
    down, up = links.down_s(everyone, 0, where), links.up_s(everyone, 0, where)
    aggregated = (down + 0.01 + up).max()
    assert aggregated + down == pytest.approx([4.31, 6.01, 4.11])
    left = np.array([0, 2])
    assert (down + 0.01 + up)[left].max() + down[left] == pytest.approx([0.91, 0.71])
    assert links.names == ("Boston", "Singapore", "New York")


def test_bytes_over_bandwidth_each_way():
    links = star(2, latency_s=[0.5, 1.0], bandwidth_bytes_per_s=[100, 1000], up_bandwidth_bytes_per_s=[10, 2000])
    clients, where = at([1, 0])
    assert links.down_s(clients, 200, where).tolist() == [1.2, 2.5]
    assert links.up_s(clients, 200, where).tolist() == [1.1, 20.5]
    assert links.up_s(clients, np.array([0, 10]), where).tolist() == [1.0, 1.5]


def test_upload_uses_the_same_line_unless_it_has_its_own():
    links = star(2, latency_s=1, bandwidth_bytes_per_s=10)
    clients, where = at([0, 1])
    assert np.array_equal(links.up_s(clients, 50, where), links.down_s(clients, 50, where))
    assert links.down_s(clients, 50, where).tolist() == [6, 6]


def test_between_clients_by_way_of_the_server():
    links = star(3, latency_s=[1, 2, 4], bandwidth_bytes_per_s=[10, 20, 40], up_bandwidth_bytes_per_s=[5, 50, 500])
    sources, destinations = np.array([0, 1, 2, 0, 1, SERVER, SERVER]), np.array([1, 0, 1, SERVER, 1, 2, SERVER])
    delay = links.between_s(sources, destinations, 100, Address(0, np.arange(7), 7))
    # latency of both lines, and the narrower of the source's upload and the destination's download
    assert delay.tolist() == [3 + 20, 3 + 10, 6 + 5, 1 + 20, 0, 4 + 2.5, 0]


def test_without_fields_nothing_takes_time():
    clients, where = at(range(5))
    assert not star(5).down_s(clients, 10**9, where).any()


def test_jitter_is_addressed_and_directions_differ():
    links = star(6, latency_s=1, jitter_s={"name": "exponential", "mean": 0.1})
    everyone, where = at(range(6), tick=3)
    down = links.down_s(everyone, 0, where)
    assert (down > 1).all() and len(set(down)) == 6
    some = np.array([4, 1])
    assert links.down_s(some, 0, Address(3, some, 6)).tolist() == down[some].tolist()
    assert not np.isin(links.up_s(everyone, 0, where), down).any()
    assert not np.isin(links.down_s(everyone, 0, Address(4, np.arange(6), 6)), down).any()
    between = links.between_s(everyone, everyone, 0, where)
    assert not between.any()


def test_jitter_has_its_distribution():
    n = 20_000
    clients, where = at(range(n))
    jitter = star(n, jitter_s={"name": "half_normal", "sigma": 2}).up_s(clients, 0, where)
    expected = DISTRIBUTIONS.of({"name": "half_normal", "sigma": 2}).mean
    assert abs(jitter.mean() - expected) < 5 * jitter.std() / np.sqrt(n)


def test_latency_and_bandwidth_come_from_their_own_streams():
    clients, where = at(range(4))
    drawn = {"name": "log_normal", "median": 1, "sigma": 1}
    alone = star(4, latency_s=drawn).down_s(clients, 0, where)
    with_lines = star(4, latency_s=drawn, bandwidth_bytes_per_s=drawn, up_bandwidth_bytes_per_s=drawn)
    assert np.array_equal(with_lines.down_s(clients, 0, where), alone)
    down, up = (delay(clients, 1, where) - alone for delay in (with_lines.down_s, with_lines.up_s))
    assert not np.isclose(down, up).any()


def test_a_bandwidth_of_zero_is_an_error():
    with pytest.raises(ScenarioError, match="^bandwidth_bytes_per_s: .* carries nothing"):
        star(2, bandwidth_bytes_per_s=[1, 0])


def test_wrong_lists_are_found():
    network = NETWORKS.of({"name": "star", "latency_s": [1, 2], "names": ["a", "a", "b"]})
    assert [key for key, _ in network.check(SimpleNamespace(clients=3))] == ["latency_s", "names"]


def test_a_million_clients_are_arrays():
    n = 10**6
    tracemalloc.start()
    links = star(n, latency_s={"name": "log_normal", "median": 0.1, "sigma": 0.5}, bandwidth_bytes_per_s=1e6)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2.1 * 8 * n and peak < 5 * 8 * n  # two float64 a client stay
    clients, where = at(np.arange(0, n, 1000), size=n)
    assert links.down_s(clients, 1000, where).shape == (1000,)


def test_no_heavy_library_is_imported_for_a_star():
    code = (
        "import sys; from types import SimpleNamespace as S; from simfl.network.base import NETWORKS;"
        "import simfl.devices;"
        "from simfl.core.rng import Streams; NETWORKS.of('star').build(S(clients=10), Streams(0));"
        "print([m for m in ('networkx', 'scipy', 'pandas', 'torch') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
