"""Networks in every form that people have, written from one truth and read back equal; what is not used is named."""

import gzip
import json
import time
from types import SimpleNamespace

import networkx
import numpy as np
import pytest

from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.network.base import NETWORKS

NAMES = ("hub", "a", "b", "c")

TRUTH = {("hub", "a"): (0.01, 1e6), ("a", "b"): (0.02, 5e5), ("hub", "c"): (0.004, None)}
"""Links: seconds one way, and bytes per second."""


def network(path, **fields):
    return NETWORKS.of({"name": "file", "path": path, "server": "hub", "placement": "cycle", **fields})


def built(folder, path, number=3, **fields):
    scenario = SimpleNamespace(clients=number, file=lambda name: folder / name)
    plugin = network(path, **fields).resolve(scenario)
    assert plugin.check(scenario) == []
    return plugin.build(scenario, Streams(0)), " ".join(plugin.cautions(scenario))


def is_truth(links, bandwidth=True):
    at = dict(zip(links.names, range(3), strict=True))
    order = [at[name] for name in NAMES[1:]]
    assert links.down.latency_s[order] == pytest.approx([0.01, 0.03, 0.004])
    assert links.up.latency_s[order] == pytest.approx([0.01, 0.03, 0.004])
    if bandwidth:
        assert links.down.s_per_byte[order] == pytest.approx([1e-6, 2e-6, 0])
    return True


def graph(latency, factor, bandwidth, bytes_per_unit, kind=networkx.MultiGraph):
    made = kind()
    for (src, dst), (latency_s, wide) in TRUTH.items():
        width = {} if wide is None else {bandwidth: wide / bytes_per_unit}
        made.add_edge(src, dst, **{latency: latency_s * factor}, **width, colour="red")
    return made


def write(made, path):
    kind = path.suffix[1:]
    if kind == "json":
        path.write_text(json.dumps(networkx.node_link_data(made, edges="edges" if "edges" in path.stem else "links")))
    else:
        {"graphml": networkx.write_graphml, "gexf": networkx.write_gexf, "gml": networkx.write_gml}[kind](made, path)


UNITS = [("latency_ms", 1e3), ("delay_us", 1e6), ("rtt_ms", 2e3), ("latency_s", 1), ("Delay [ms]", 1e3), ("ping_s", 2)]

RATES = [("capacity_mbps", 125e3), ("bandwidth_bytes_per_s", 1), ("speed_bit_per_s", 0.125), ("bw_MBps", 1e6)]


@pytest.mark.parametrize(("latency", "factor"), UNITS)
@pytest.mark.parametrize("form", ["g.graphml", "g.gexf", "g.json", "edges.json"])
def test_units_in_names_in_graphs(tmp_path, form, latency, factor):
    bandwidth, bytes_per_unit = RATES[len(latency) % 4]
    write(graph(latency, factor, bandwidth, bytes_per_unit), tmp_path / form)
    links, said = built(tmp_path, form)
    assert is_truth(links)
    assert "colour" in said and f"1 of 3 links without '{bandwidth}': unlimited" in said and f"'{latency}' in" in said


@pytest.mark.parametrize("ends", ["src,dst", "source,target", "from,to", "node1,node2", "Source,Target", "x,y", "u,v"])
@pytest.mark.parametrize(("bandwidth", "bytes_per_unit"), RATES)
@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_lists_with_any_pair_of_names(tmp_path, ends, bandwidth, bytes_per_unit, mark):
    lines = [f"{ends},latency_ms,{bandwidth},note"]
    for (src, dst), (latency_s, wide) in TRUTH.items():
        lines.append(f"{src},{dst},{latency_s * 1000},{'NA' if wide is None else wide / bytes_per_unit},x")
    lines += ["a,a,7,,", "hub,a,99,,"]
    (tmp_path / "l.csv.gz").write_bytes(gzip.compress("\n".join(lines).replace(",", mark).encode()))
    links, said = built(tmp_path, "l.csv.gz")
    assert is_truth(links)
    assert "1 link from a node to itself left out" in said and "1 parallel link left out" in said and "note" in said


def square(corner="from", rows=True, header=True, factor=1e3, diagonal=0.0):
    table = np.full((3, 3), diagonal)
    for (i, j), seconds in {(0, 1): 0.01, (0, 2): 0.02, (1, 2): 0.005}.items():
        table[i, j] = table[j, i] = seconds * factor
    lines = [",".join([*([corner] if rows else []), *NAMES[:3]])] if header else []
    return "\n".join(lines + [",".join([*([name] if rows else []), *map(str, row)]) for name, row in zip(NAMES, table)])


@pytest.mark.parametrize(
    ("fields", "factor"),
    [({}, 2e3), ({"unit": "ms"}, 1e3), ({"one_way": True}, 1e3), ({"unit": "s"}, 1), ({"unit": "rtt_us"}, 2e6)],
)
@pytest.mark.parametrize("form", [{}, {"corner": ""}, {"rows": False}, {"rows": False, "header": False}])
def test_square_tables(tmp_path, fields, factor, form):
    (tmp_path / "t.csv").write_text(square(factor=factor, **form))
    server = {"server": "0"} if form.get("header") is False else {}
    links, said = built(tmp_path, "t.csv", 2, **server, **fields)
    assert links.down.latency_s[:2] == pytest.approx([0.01, 0.02]) and "a table of 3 places" in said
    between = links.latency_s(np.array([0]), np.array([1]))
    assert between == pytest.approx([0.005])


def test_the_diagonal_is_the_latency_within_a_place(tmp_path):
    (tmp_path / "t.csv").write_text(square(diagonal=3))
    links, said = built(tmp_path, "t.csv", 4, unit="ms")
    assert links.latency_s(np.array([0, 0]), np.array([2, 0])) == pytest.approx([0.003, 0]) and "diagonal" in said


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        ("src,dst,delay\nhub,a,1\n", {}, "path: n.csv:1: 'delay' has no unit; .*latency: delay, unit: ms"),
        ("src,dst,weight\nhub,a,1\n", {}, "path: n.csv:1: 'weight' has no unit"),
        (
            "src,dst,rtt_ms,capacity\nhub,a,1,2\n",
            {},
            "path: n.csv:1: .*; write bandwidth: capacity, bandwidth_unit",
        ),
        ("src,dst,rtt_ms,bandwith\nhub,a,1,2\n", {}, "path: n.csv:1: 'bandwith' has no unit"),
        ("src,dst,rtt_ms,cap\nhub,a,1,2\n", {"bandwidth": "capp"}, "bandwidth: n.csv:1: no link has 'capp'.*'cap'"),
        (
            "src,dst,latency_ms\nhub,a,1\n",
            {"latency": "latency_ms", "unit": "s"},
            "unit: is s, but .* is in ms",
        ),
        ("src,dst,rtt_ms\nhub,a,1\n", {"latency": "great_circle"}, "latency: n.csv:1: a list has no coordinates"),
        (square(), {"latency": "nonsense"}, "latency: is 'nonsense', but n.csv is a square table"),
        (square(), {"unit": "rtt_ms", "one_way": True}, "one_way: is true, but rtt_ms is there and back"),
        ("src,dst,rtt_ms\nhub,a,1\n", {"clients": "h?st*"}, "clients: no node fits 'h"),
        ("src,dst,bw_mbps,cap_gbps,rtt_ms\nhub,a,1,1,1\n", {}, "path: n.csv:1: bw_mbps, cap_gbps are bandwidths"),
    ],
)
def test_what_would_be_a_guess_stops_with_the_key_to_write(tmp_path, text, fields, message):
    (tmp_path / "n.csv").write_text(text)
    with pytest.raises(ScenarioError, match=f"^{message}") as caught:
        built(tmp_path, "n.csv", 1, **fields)
    assert "\n" not in str(caught.value)


def test_nodes_without_clients_are_routers_and_islands_are_left_out(tmp_path):
    rows = "hub,r1,1\nr1,host1,1\nr1,host2,1\nx,y,1\n"
    (tmp_path / "n.csv").write_text(f"src,dst,latency_ms\n{rows}")
    links, said = built(tmp_path, "n.csv", 2, clients="host*")
    assert links.names == ("host1", "host2") and "2 for clients, 3 without clients (r1, x, y)" in said
    assert built(tmp_path, "n.csv", 3)[0].names == ("r1", "host1", "host2")


def zoo(seed):
    """A graph with what the Topology Zoo's have: parallel links, loops, nodes without coordinates, islands, labels."""
    rng = np.random.default_rng(seed)
    made = networkx.MultiGraph(networkx.random_labeled_tree(int(rng.integers(4, 40)), seed=seed))
    for node in made:
        made.nodes[node]["label"] = "None" if seed % 9 == 0 else f"City {node}"
        if node == 0 or rng.random() < 0.8:
            made.nodes[node].update(Latitude=float(rng.uniform(-60, 70)), Longitude=float(rng.uniform(-180, 180)))
    for src, dst in rng.integers(len(made), size=(5, 2)).tolist():
        made.add_edge(src, dst, LinkLabel="OC-3", LinkSpeedRaw=1e9)
    made.add_edge(*next(iter(made.edges())))
    if seed % 3 == 0:
        made.add_edge(1000, 1001)
        made.nodes[1000]["label"], made.nodes[1001]["label"] = "x", "y"
    return made


def gml(made):
    """As the Zoo writes it: parallel links without a word, labels that may be there twice."""
    lines = ["graph [", "  directed 0"]
    for node, values in made.nodes(data=True):
        places = [f"{name} {value}" for name, value in values.items() if name != "label"]
        lines.append(f'  node [ id {node} label "{values["label"]}" {" ".join(places)} ]')
    lines += [f'  edge [ source {src} target {dst} LinkLabel "a" ]' for src, dst in made.edges()]
    return "\n".join([*lines, "]"])


@pytest.mark.parametrize("seed", range(24))
def test_graphs_like_those_of_the_topology_zoo_run_by_great_circle(tmp_path, seed):
    made = zoo(seed)
    networkx.write_graphml(made, tmp_path / "z.graphml")
    (tmp_path / "z.gml").write_text(gml(made))
    one, said = built(tmp_path, "z.graphml", server="0", latency="great_circle")
    named = "0" if seed % 9 == 0 else "City 0"
    other, _ = built(tmp_path, "z.gml", server=named, latency="great_circle")
    assert sorted(one.down.latency_s) == pytest.approx(sorted(other.down.latency_s)) and one.down.latency_s.max() > 0
    assert "parallel" in said and "links are unlimited, as network.bandwidth does not name 'LinkSpeedRaw'" in said


def test_great_circles_are_those_of_the_cities(tmp_path):
    made = networkx.Graph([("hub", "a")])
    made.nodes["hub"].update(lat=50.11, lon=8.68)
    made.nodes["a"].update(lat=40.71, lon=-74.01)
    write(made, tmp_path / "g.graphml")
    links, _ = built(tmp_path, "g.graphml", 1, latency="great_circle", path_factor=1)
    cities = NETWORKS.of({"name": "cities", "server": "Frankfurt", "cities": ["New York"], "rtt": "great_circle",
                          "path_factor": 1, "access_s": 0})  # fmt: skip
    expected = cities.build(SimpleNamespace(clients=1), Streams(0)).down.latency_s[0]
    assert links.down.latency_s[0] == pytest.approx(expected)
    with pytest.raises(ScenarioError, match="^path: g.graphml: node 'a': lat must be a number from -90 to 90"):
        made.nodes["a"]["lat"] = 91.0
        write(made, tmp_path / "g.graphml")
        built(tmp_path, "g.graphml", 1, latency="great_circle")


def test_a_table_of_490_places_starts_in_2_processor_seconds(tmp_path):
    rng = np.random.default_rng(0)
    table = rng.integers(1, 400, size=(490, 490)).astype(str)
    table[rng.random((490, 490)) < 0.02] = ""
    names = [f"p{i}" for i in range(490)]
    lines = [",".join(["", *names]), *(",".join([name, *row]) for name, row in zip(names, table, strict=True))]
    (tmp_path / "p.csv").write_text("\n".join(lines))
    began = time.process_time()
    links, _ = built(tmp_path, "p.csv", 489, server="p0")
    everyone = np.arange(489)
    links.latency_s(np.repeat(everyone, 3), np.tile([1, 2, 3], 489))
    assert time.process_time() - began < 4  # 1.5 here; twice that on a busy machine


def test_edge_lists_of_networkx_are_the_same_network(tmp_path):
    made = graph("latency_ms", 1e3, "bandwidth_bytes_per_s", 1)
    networkx.write_edgelist(made, tmp_path / "a.edgelist")
    is_truth(built(tmp_path, "a.edgelist")[0])
    networkx.write_weighted_edgelist(graph("weight", 1e3, "bandwidth", 1), tmp_path / "b.edges.gz")
    is_truth(built(tmp_path, "b.edges.gz", latency="weight", unit="ms")[0], bandwidth=False)
