"""Which shared links a message crosses: those on one path of least latency and, among those, the greatest width."""

import numpy as np
import pytest

from simfl.core.rng import Streams
from simfl.network.base import NETWORKS
from simfl.network.sites import Edge, SiteMap
from tests.network.test_paths import best, graphs, reciprocal


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("end_to_end", [False, True])
def test_hops_are_a_best_path_from_end_to_end(directed, end_to_end):
    """Every hop has a bit of its own: the bits of a node are a path to it, as long and as wide as the best of all."""
    for links in graphs(7, 60):
        topology = SiteMap(
            tuple(Edge(str(a), str(b), *values) for (a, b), values in links.items()), directed, end_to_end
        )
        number = topology.nodes
        arcs = {
            (number[str(a)], number[str(b)]): (latency, reciprocal(wide)) for (a, b), (latency, wide) in links.items()
        }
        if not directed:
            arcs = {(j, i): values for (i, j), values in arcs.items()} | arcs
        bits = {hop: 1 << i for i, hop in enumerate(arcs)}
        sites = topology.sites()
        for site in range(len(number)):
            there, back = sites.links_from(site, bits), sites.links_to(site, bits)
            for node in range(len(number)):
                for start, end, code in ((site, node, int(there[node])), (node, site, int(back[node]))):
                    hops = [hop for hop, bit in bits.items() if code & bit]
                    if end_to_end and (start, end) in arcs:
                        assert hops == [(start, end)]
                        continue
                    found = walked(hops, start, end, arcs)
                    if not end_to_end:
                        assert found == best(arcs, start, end) if hops or start == end else True
                        reachable = np.isfinite(best(arcs, start, end)[0])
                        assert bool(hops) == (reachable and start != end)


def walked(hops, start, end, arcs):
    """Latency and seconds a byte of a path with exactly these hops, from start to end."""
    after, here, latency, narrow = dict(hops), start, 0.0, 0.0
    assert len(after) == len(hops)
    for _ in hops:
        step = arcs[here, after[here]]
        latency, narrow, here = latency + step[0], max(narrow, step[1]), after[here]
    assert not hops or here == end
    return latency, narrow


class Setting:
    clients = 4


def test_an_edge_in_two_groups_and_a_path_over_two_edges_of_one():
    """Clients behind one another: a - b - c - d, from the server's end."""
    network = NETWORKS.of({
        "name": "graph", "edges": [["server", "a", 1], ["a", "b", 1], ["b", "c", 1], ["c", "d", 1]],
        "shared": {"outer": {"edges": [["b", "c"], ["d", "c"]], "bytes_per_s": 10.0, "up_bytes_per_s": 40.0},
                   "far": {"edges": [["c", "d"]], "bytes_per_s": 20.0}},
    })  # fmt: skip
    assert network.check(Setting()) == []
    links = network.build(Setting(), Streams(0))
    outer, far = links.shared.named
    assert (outer.down.tolist(), far.up.tolist()) == ([False, False, True, True], [False, False, False, True])
    assert links.down.s_per_byte[:4].tolist() == [0, 0, 0.1, 0.1]
    assert links.up.s_per_byte[:4].tolist() == [0, 0, 1 / 40, 1 / 20]
    flows = links.down_flows(np.arange(4), np.full(4, 30))
    assert flows.waits_s(np.zeros(4)).tolist() == [0, 0, 3, 3]
    assert links.up_flows(np.array([2, 3]), np.full(2, 30)).waits_s(np.zeros(2)).tolist() == [0.75, 0]
