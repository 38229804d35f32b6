"""Multi-hop delays against brute force; generated graphs; placements; what cannot be connected."""

from types import SimpleNamespace

import numpy as np
import pytest

from simfl.core.errors import ScenarioError
from simfl.core.rng import Address, Streams
from simfl.core.types import SERVER
from simfl.network.base import NETWORKS
from simfl.network.sites import Edge, SiteMap


def build(number, /, seed=0, **fields):
    network = NETWORKS.of(fields)
    scenario = SimpleNamespace(clients=number)
    assert network.check(scenario) == []
    return network.build(scenario, Streams(seed))


def problems(number, /, **fields):
    return NETWORKS.of(fields).check(SimpleNamespace(clients=number))


def at(clients):
    clients = np.asarray(clients)
    return clients, Address(0, np.arange(len(clients)), len(clients))


def floyd_warshall(n, arcs):
    """(latency, seconds per byte) of the lexicographically least path between every two nodes."""
    best = {(i, j): (np.inf, 0.0) for i in range(n) for j in range(n)} | {(i, i): (0.0, 0.0) for i in range(n)}
    best |= arcs
    for k in range(n):
        for i in range(n):
            for j in range(n):
                (a, p), (b, q) = best[i, k], best[k, j]
                best[i, j] = min(best[i, j], (a + b, max(p, q)))
    return best


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("case", range(12))
def test_shortest_paths_and_their_narrowest_links_against_brute_force(case, directed):
    rng = np.random.default_rng(case)
    n = 9
    # whole latencies are added exactly and give many ties; a cycle through all keeps everybody connected
    pairs = {(i, (i + 1) % n) for i in range(n)} | {tuple(rng.choice(n, 2, replace=False).tolist()) for _ in range(14)}
    listed = {pair: (float(rng.integers(1, 5)), float(rng.choice([1, 2, 4, 8]))) for pair in sorted(pairs)}
    edges = [
        {"src": i, "dst": j, "latency_s": latency, "bandwidth_bytes_per_s": bandwidth}
        for (i, j), (latency, bandwidth) in listed.items()
    ]
    clients = [str(i) for i in range(1, n)]
    links = build(n - 1, name="graph", server=0, clients=clients, edges=edges, directed=directed)
    arcs = {pair: (latency, 1 / bandwidth) for pair, (latency, bandwidth) in listed.items()}
    if not directed:
        arcs = {(j, i): values for (i, j), values in arcs.items()} | arcs
    best = floyd_warshall(n, arcs)

    def expected(i, j, size=1000):
        return best[i, j][0] + size * best[i, j][1]

    everyone, where = at(range(n - 1))
    assert links.down_s(everyone, 1000, where).tolist() == [expected(0, j) for j in range(1, n)]
    assert links.up_s(everyone, 1000, where).tolist() == [expected(i, 0) for i in range(1, n)]
    sources, destinations = (pairs.ravel() - 1 for pairs in np.mgrid[0:n, 0:n])  # -1 is the server, node 0
    delay = links.between_s(sources, destinations, 1000, Address(0, np.arange(n * n), n * n))
    assert delay.tolist() == [expected(i, j) for i in range(n) for j in range(n)]


def test_a_chain_by_hand():
    edges = [
        ["server", "a", 0.1],
        ["a", "b", 0.2],
        {"src": "b", "dst": "c", "latency_s": 0.3, "bandwidth_bytes_per_s": 4},
    ]
    links = build(3, name="graph", edges=edges)
    everyone, where = at(range(3))
    assert links.names == ("a", "b", "c")
    assert links.down_s(everyone, 2, where) == pytest.approx([0.1, 0.3, 1.1])
    assert links.up_s(everyone, 2, where) == pytest.approx([0.1, 0.3, 1.1])
    assert links.between_s(np.array([0]), np.array([2]), 2, Address(0, np.array([0]), 1)) == pytest.approx([1.0])
    empty = np.array([], dtype=int)
    assert links.between_s(empty, empty, 2, Address(0, empty, 0)).shape == (0,)


def test_a_listed_direction_has_its_own_latency():
    links = build(1, name="graph", edges=[["server", "a", 1], ["a", "server", 3]])
    one, where = at([0])
    assert (links.down_s(one, 0, where), links.up_s(one, 0, where)) == (1, 3)


def test_thesis_latencies_as_a_graph():
    edges = [["server", "Boston", 0.3], ["server", "Singapore", 2.0], ["server", "New York", 0.1]]
    links = build(3, name="graph", edges=edges)
    everyone, where = at(range(3))
    down = links.down_s(everyone, 0, where)
    assert (down + 0.01 + links.up_s(everyone, 0, where)).max() + down == pytest.approx([4.31, 6.01, 4.11])


def test_end_to_end_measurements_are_not_detoured():
    edges = (Edge("a", "b", 10.0), Edge("a", "c", 1.0), Edge("c", "b", 1.0), Edge("c", "d", 1.0))
    direct, hops = SiteMap(edges, end_to_end=True).sites(), SiteMap(edges).sites()
    assert hops.paths_from(0).latency_s.tolist() == [0, 2, 1, 2]
    assert direct.paths_from(0).latency_s.tolist() == [0, 10, 1, 2]  # a to d was not measured
    assert direct.paths_to(1).latency_s.tolist() == [10, 0, 1, 2]


@pytest.mark.parametrize(
    ("edges", "directed", "message"),
    [
        ([["server", "a", 1], ["b", "c", 1]], False, r"from the server 'server' to client 'b' \(and 1 more\)"),
        (
            [["server", "a", 1], ["a", "server", 1], ["a", "b", 1]],
            True,
            "no path from client 'b' to the server 'server'",
        ),
    ],
)
def test_an_unreachable_client_is_named(edges, directed, message):
    clients = len({name for edge in edges for name in edge[:2]}) - 1
    with pytest.raises(ScenarioError, match=message):
        build(clients, name="graph", edges=edges, directed=directed)


def test_problems_of_a_graph_are_found_before_the_run():
    edges = [["hub", "a", 1], ["hub", "a", 2], ["b", "b", 1]]
    found = dict(problems(5, name="graph", server="hbu", clients=["a", "bb", "a"], edges=edges))
    assert list(found) == ["edges.1", "edges.2", "server", "clients.1", "clients.2", "placement"]
    assert "did you mean 'hub'?" in found["server"] and "already link 0" in found["edges.1"]
    assert "clients: 3" in found["placement"]
    assert dict(problems(1, name="graph", edges=[]))["edges"] == "no node is left for the clients"


def test_placements():
    edges = [["server", "a", 1], ["server", "b", 2], ["server", "c", 3]]
    everyone, where = at(range(7))
    links = build(7, name="graph", edges=edges, placement="cycle")
    assert links.down_s(everyone, 0, where).tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert links.names == ("a", "b", "c", "a#2", "b#2", "c#2", "a#3")
    chosen = build(2, name="graph", edges=edges, clients=["c", "a"])
    assert chosen.down_s(everyone[:2], 0, where).tolist() == [3, 1]
    many, where = at(range(9000))
    delay = build(9000, name="graph", edges=edges, placement="random").down_s(many, 0, where)
    shares = [(delay == latency).mean() for latency in (1, 2, 3)]
    assert np.abs(np.array(shares) - 1 / 3).max() < 5 * np.sqrt(2 / 9 / 9000)


def test_two_clients_on_one_node_are_close_but_a_jitter_apart():
    links = build(2, name="graph", edges=[["server", "a", 1]], placement="cycle", jitter_s=0.25)
    assert links.between_s(np.array([0, 1]), np.array([1, 1]), 0, Address(0, np.arange(2), 2)).tolist() == [0.25, 0]


def test_ring_by_hand():
    links = build(6, name="ring", latency_s=0.1, bandwidth_bytes_per_s=10, server_at=2)
    everyone, where = at(range(6))
    hops = np.array([2, 1, 0, 1, 2, 3])
    assert links.down_s(everyone, 1, where) == pytest.approx(0.1 * hops + 0.1 * (hops > 0))
    assert links.between_s(np.array([5, SERVER]), np.array([0, 5]), 0, Address(0, np.arange(2), 2)) == pytest.approx(
        [0.1, 0.3]
    )


@pytest.mark.parametrize(
    ("name", "links_of"), [("ring", {1: 0, 2: 1, 3: 3, 10: 10}), ("complete", {1: 0, 2: 1, 5: 10})]
)
def test_generated_graphs_have_their_links(name, links_of):
    for clients, count in links_of.items():
        edges = NETWORKS.of({"name": name, "latency_s": 1}).edges(clients, Streams(0))
        assert len(edges) == count and len({frozenset(edge) for edge in edges.tolist()}) == count


def test_complete_takes_a_detour_only_where_it_is_faster():
    fields = {"name": "complete", "latency_s": {"name": "exponential", "mean": 1}}
    n = 12
    links = build(n, seed=5, **fields)
    edges = NETWORKS.of(fields).edges(n, Streams(5)).tolist()
    drawn = Streams(5)("latency").standard_exponential(len(edges))
    arcs = {tuple(edge): (latency, 0.0) for edge, latency in zip(edges, drawn, strict=True)}
    best = floyd_warshall(n, arcs | {(j, i): values for (i, j), values in arcs.items()})
    everyone, where = at(range(n))
    assert links.down_s(everyone, 0, where) == pytest.approx([best[0, j][0] for j in range(n)])


def test_a_further_client_changes_no_link_of_a_complete_graph():
    network = NETWORKS.of({"name": "complete", "latency_s": 1})
    fewer, more = network.edges(6, Streams(0)), network.edges(7, Streams(0))
    assert np.array_equal(fewer, more[: len(fewer)])


def test_small_world_rewires_by_the_seed_only():
    network = NETWORKS.of({"name": "small_world", "latency_s": 1, "neighbours": 4, "rewire": 0.3})
    np.random.seed(1)  # noqa: NPY002
    first = network.edges(50, Streams(0))
    np.random.seed(2)  # noqa: NPY002
    assert np.array_equal(first, network.edges(50, Streams(0)))
    assert not np.array_equal(first, network.edges(50, Streams(1)))
    assert len(first) == 100
    lattice = {frozenset((i, (i + step) % 50)) for i in range(50) for step in (1, 2)}
    kept = sum(frozenset(edge) in lattice for edge in first.tolist())
    assert 0.7 * 100 - 5 * np.sqrt(21) < kept < 0.7 * 100 + 5 * np.sqrt(21) + 3  # a rewired link may fall back
    unchanged = NETWORKS.of({"name": "small_world", "latency_s": 1, "rewire": 0}).edges(50, Streams(0))
    assert {frozenset(edge) for edge in unchanged.tolist()} == lattice


def test_generators_refuse_what_is_too_small_or_too_large():
    assert dict(problems(3, name="small_world", latency_s=1)) == {
        "neighbours": "is 4 but there are 3 clients; the nearest valid value is 2"
    }
    assert "at most 1000" in dict(problems(10**6, name="complete", latency_s=1))["name"]
    assert "nearest valid value is 4" in dict(problems(5, name="ring", latency_s=1, server_at=9))["server_at"]
