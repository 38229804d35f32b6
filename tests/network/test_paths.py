"""Paths of least latency and, among those, the widest: against every path that there is, on thousands of small graphs.

Latencies are whole numbers (so that sums are exact), a third of them 0, and few values make many ties.
"""

import itertools

import networkx
import numpy as np
import pytest

from simfl.core.types import SERVER
from simfl.network.sites import Edge, GraphSites, Joined, SiteMap

SERVER_C, SERVER_HUB, HUB_C = (
    Edge("server", "c", 0.0, 10.0),
    Edge("server", "hub", 0.0, 1000.0),
    Edge("hub", "c", 0.0, 1000.0),
)


def every_path(arcs, start, end):
    """(latency, seconds per byte) of every simple path, by trying all orders of nodes between the two."""
    nodes = {node for arc in arcs for node in arc} - {start, end}
    for length in range(len(nodes) + 1):
        for between in itertools.permutations(sorted(nodes), length):
            hops = list(itertools.pairwise([start, *between, end]))
            if all(hop in arcs for hop in hops):
                yield sum(arcs[hop][0] for hop in hops), max(arcs[hop][1] for hop in hops)


def best(arcs, start, end):
    return (0.0, 0.0) if start == end else min(every_path(arcs, start, end), default=(np.inf, 0.0))


def graphs(seed, count):
    """Random graphs of up to 6 nodes: links (src, dst) -> (latency, bytes per second or None)."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n = int(rng.integers(2, 7))
        pairs = [pair for pair in itertools.permutations(range(n), 2) if rng.random() < rng.choice([0.3, 0.6])]
        rng.shuffle(pairs)
        bandwidths = [1.0, 2.0, 8.0, None]
        links = {tuple(pair): (float(rng.integers(3)), bandwidths[rng.integers(4)]) for pair in pairs}
        if links:
            yield links


def reciprocal(bandwidth):
    return 0.0 if bandwidth is None else 1 / bandwidth


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_listed_graphs_against_every_path(seed, directed):
    for links in graphs(seed, 100):
        topology = SiteMap(tuple(Edge(str(a), str(b), *values) for (a, b), values in links.items()), directed)
        number = topology.nodes
        arcs = {
            (number[str(a)], number[str(b)]): (latency, reciprocal(wide)) for (a, b), (latency, wide) in links.items()
        }
        if not directed:
            arcs = {(b, a): values for (a, b), values in arcs.items()} | arcs
        sites = topology.sites()
        for site in range(len(number)):
            for paths, ends in (
                (sites.paths_from(site), [(site, other) for other in range(len(number))]),
                (sites.paths_to(site), [(other, site) for other in range(len(number))]),
            ):
                found = list(zip(paths.latency_s.tolist(), paths.s_per_byte.tolist(), strict=True))
                assert found == [best(arcs, *pair) for pair in ends], (links, site)
            assert [column.tolist() for column in sites.paths_into(site)] == [
                column.tolist() for column in sites.paths_to(site)
            ]


@pytest.mark.parametrize("seed", range(2))
def test_generated_graphs_against_every_path(seed):
    rng = np.random.default_rng(seed)
    for made in range(60):
        graph = networkx.gnp_random_graph(6, 0.5, seed=1000 * seed + made)
        latency, per_byte = (rng.integers(3, size=graph.number_of_edges()).astype(float) for _ in range(2))
        sites = GraphSites.from_edges(6, graph.edges, latency, per_byte)
        one_way = dict(zip(graph.edges, zip(latency, per_byte, strict=True), strict=True))
        arcs = one_way | {(b, a): values for (a, b), values in one_way.items()}
        for site in range(6):
            paths = sites.paths_from(site)
            found = list(zip(paths.latency_s, paths.s_per_byte, strict=True))
            assert found == [best(arcs, site, other) for other in range(6)]


@pytest.mark.parametrize("edges", list(itertools.permutations([SERVER_C, SERVER_HUB, HUB_C])))
def test_links_without_latency_lead_by_the_widest_way_in_any_order(edges):
    topology = SiteMap(edges)
    paths = topology.sites().paths_from(topology.nodes["server"]).take(np.array([topology.nodes["c"]]))
    assert (paths.latency_s + 1000 * paths.s_per_byte).tolist() == [1.0]


def test_latencies_that_differ_by_rounding_alone_are_equal():
    narrow = Edge("server", "c", 0.3, 10.0)  # 0.1 + 0.2 is 0.30000000000000004
    for edges in itertools.permutations([narrow, Edge("server", "hub", 0.1, 1000.0), Edge("hub", "c", 0.2, 1000.0)]):
        topology = SiteMap(edges)
        paths = topology.sites().paths_from(topology.nodes["server"])
        assert paths.s_per_byte[topology.nodes["c"]] == 1e-3
        assert paths.latency_s[topology.nodes["c"]] == pytest.approx(0.3)


@pytest.mark.parametrize("end_to_end", [False, True])
def test_latencies_to_the_server_are_summed_as_from_each_client_in_one_search(end_to_end, monkeypatch):
    """To the last bit, where sums in the two directions differ; unreachable nodes stay so, clients may share a node."""
    graph = networkx.gnp_random_graph(60, 0.05, seed=1, directed=True)
    rng = np.random.default_rng(0)
    edges = tuple(Edge(f"{a}", f"{b}", float(rng.random())) for a, b in graph.edges)
    sites = SiteMap(edges, directed=True, end_to_end=end_to_end).sites()
    count = len(sites.graph)
    into = sites.paths_into(5)
    assert into.latency_s.tolist() == [sites.paths_from(site).latency_s[5] for site in range(count)]
    assert (into.latency_s != sites.paths_to(5).latency_s).any() and np.isinf(into.latency_s).any()
    joined = Joined(sites, np.array([*range(count), 7, 5]), np.zeros(count + 2))
    monkeypatch.setattr(joined, "paths_from", lambda site: pytest.fail("a search for a client"))
    clients = np.array([3, count, 7])
    assert joined(clients, np.full(3, SERVER)).latency_s.tolist() == into.latency_s[[3, 7, 7]].tolist()
