"""Networks from files: all formats mean the same; broken and hostile files are one-line errors."""

from types import SimpleNamespace

import networkx
import numpy as np
import pytest

from simfl.core.errors import ScenarioError
from simfl.core.rng import Address, Streams
from simfl.network.base import NETWORKS

LINKS = [("hub", "a", 0.01, 100.0), ("a", "b", 0.02, 50.0), ("hub", "b", 0.5, 1000.0)]


def build(folder, path, clients=2, server="hub", nodes=None, **fields):
    fields = {"clients": nodes, **fields}
    network = NETWORKS.of({"name": "file", "path": path, "server": server, **fields})
    scenario = SimpleNamespace(clients=clients, file=lambda name: folder / name)
    assert network.check(scenario) == []
    return network.build(scenario, Streams(0))


def delays(links, size=0):
    clients = np.arange(len(links.names))
    where = Address(0, clients, len(clients))
    return links.down_s(clients, size, where), links.up_s(clients, size, where)


def graph(kind=networkx.Graph, unit="latency_s", factor=1.0):
    made = kind()
    for src, dst, latency_s, bandwidth in LINKS:
        made.add_edge(src, dst, **{unit: latency_s * factor}, bandwidth_bytes_per_s=bandwidth)
    return made


def write_all(folder):
    networkx.write_graphml(graph(), folder / "g.graphml")
    networkx.write_graphml(graph(unit="rtt_ms", factor=2000), folder / "rtt.graphml")
    networkx.write_gexf(graph(), folder / "g.gexf")
    rows = [f"{src}, {dst}, {latency_s * 2000}, {bandwidth}" for src, dst, latency_s, bandwidth in LINKS]
    (folder / "rtt.csv").write_text("src,dst,rtt_ms,bandwidth_bytes_per_s\n" + "\n".join(rows) + "\n\n")
    rows = [f"{bandwidth},{latency_s},{dst},{src}" for src, dst, latency_s, bandwidth in LINKS]
    text = "\ufeffbandwidth_bytes_per_s,latency_s,dst,src\r\n" + "\r\n".join(rows)
    (folder / "latency.csv").write_text(text, newline="")


@pytest.mark.parametrize("path", ["g.graphml", "rtt.graphml", "g.gexf", "rtt.csv", "latency.csv"])
def test_all_formats_mean_the_same_network(tmp_path, path):
    write_all(tmp_path)
    links = build(tmp_path, path)
    assert sorted(links.names) == ["a", "b"]
    down, up = delays(build(tmp_path, path, nodes=["a", "b"]), 100)
    assert down == pytest.approx([0.01 + 1, 0.03 + 2]) and up == pytest.approx(down)


def test_a_comment_about_document_types_is_none(tmp_path):
    networkx.write_graphml(graph(), tmp_path / "g.graphml")
    text = (tmp_path / "g.graphml").read_text().replace("<graph ", "<!-- no <!DOCTYPE here --><graph ", 1)
    (tmp_path / "g.graphml").write_text(text)
    assert sorted(build(tmp_path, "g.graphml").names) == ["a", "b"]


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1000), ("rtt_ms", 2000)])
@pytest.mark.parametrize("end", ["graphml", "gexf", "csv"])
def test_attributes_of_other_names(tmp_path, unit, factor, end):
    made = networkx.Graph()
    for src, dst, latency_s, bandwidth in LINKS:
        made.add_edge(src, dst, weight=latency_s * factor, capacity=bandwidth, colour="red")
    if end == "csv":
        rows = [f"{src},{dst},{latency_s * factor},{wide},red" for src, dst, latency_s, wide in LINKS]
        (tmp_path / "g.csv").write_text("\n".join(["src,dst,weight,capacity,colour", *rows]))
    else:
        (networkx.write_graphml if end == "graphml" else networkx.write_gexf)(made, tmp_path / f"g.{end}")
    named = {"latency": "weight", "unit": unit, "bandwidth": "capacity", "nodes": ["a", "b"]}
    down, _ = delays(build(tmp_path, f"g.{end}", **named), 100)
    assert down == pytest.approx([0.01 + 1, 0.03 + 2])
    with pytest.raises(ScenarioError, match="has no 'wait'; it has .*weight"):
        build(tmp_path, f"g.{end}", latency="wait")
    with pytest.raises(ScenarioError, match="(it has .*weight|'weight' has no unit).*; network.latency names"):
        build(tmp_path, f"g.{end}")


def test_a_unit_belongs_to_a_named_attribute(tmp_path):
    (tmp_path / "g.csv").write_text("src,dst,rtt_ms\na,b,1\n")
    with pytest.raises(ScenarioError, match="^unit: is the unit of what latency names; name it"):
        build(tmp_path, "g.csv", server="a", unit="ms")
    with pytest.raises(ScenarioError, match="^unit: is s, but 'rtt_ms' is in rtt_ms by its name; leave unit out"):
        build(tmp_path, "g.csv", server="a", latency="rtt_ms", unit="s")


def test_a_directed_file_goes_one_way(tmp_path):
    networkx.write_graphml(graph(networkx.DiGraph), tmp_path / "d.graphml")
    with pytest.raises(ScenarioError, match="no path from client 'a' \\(and 1 more\\) to the server 'hub'"):
        build(tmp_path, "d.graphml")
    assert delays(build(tmp_path, "d.graphml", directed=False))[1] == pytest.approx([0.01, 0.03])


def test_both_directions_of_a_csv(tmp_path):
    (tmp_path / "n.csv").write_text("src,dst,rtt_ms\n0,1,100\n1,0,300\n0,2,50\n")
    down, up = delays(build(tmp_path, "n.csv", server=0))
    assert down == pytest.approx([0.05, 0.025]) and up == pytest.approx([0.15, 0.025])


def test_a_table_is_measured_from_end_to_end(tmp_path):
    table = "from\\to,x,y,z\nz,1,,\nx,,10,400\ny,30,0,2\n"
    (tmp_path / "t.csv").write_text(table)
    links = build(tmp_path, "t.csv", server="x")
    assert links.names == ("y", "z")
    down, up = delays(links)
    assert down == pytest.approx([0.005, 0.2]) and up == pytest.approx([0.015, 0.0005])
    one = np.array([1])
    assert links.between_s(one, one - 1, 0, Address(0, one - 1, 1)) == pytest.approx([0.001])  # only y to z is there


BROKEN = {
    "empty.csv": (b"", "empty.csv: wrong header"),
    "header.csv": (b"one,other\na,b\n", "header.csv:1: wrong header"),
    "column.csv": (
        b"src,dst,rtt_mss\na,b,1\n",
        "column.csv:1: 'rtt_mss' has no unit; .*latency: rtt_mss, unit: ms",
    ),
    "columns.csv": (b"src,dst,rtt_ms,dst\n", "columns.csv:1: two columns are named 'dst'"),
    "nodelay.csv": (b"src,dst,bandwidth_bytes_per_s\nhub,a,1\n", "nodelay.csv:2: .*either latency_s or rtt_ms"),
    "both.csv": (b"src,dst,rtt_ms,latency_s\nhub,a,1,1\n", "both.csv:2: .*either latency_s or rtt_ms"),
    "negative.csv": (b"src,dst,rtt_ms\nhub,a,1\n\nhub,b,-1\n", "negative.csv:4: rtt_ms must be a number from 0"),
    "nan.csv": (b"src,dst,rtt_ms\nhub,a,nan\n", "nan.csv:2: link 'hub' to 'a' needs rtt_ms; it has no values"),
    "inf.csv": (b"src,dst,rtt_ms\nhub,a,inf\n", "inf.csv:2: rtt_ms must be a number"),
    "text.csv": (b"src,dst,rtt_ms\nhub,a,fast\n", "text.csv:2: .*'fast'"),
    "missing.csv": (b"src,dst,rtt_ms\nhub,a,\n", "missing.csv:2: .*needs rtt_ms"),
    "ragged.csv": (b"src,dst,rtt_ms\nhub,a\n", "ragged.csv:2: 2 values for 3 columns"),
    "nameless.csv": (b"src,dst,rtt_ms\n,a,1\n", "nameless.csv:2: a link needs two ends"),
    "zero.csv": (b"src,dst,rtt_ms,bandwidth_bytes_per_s\nhub,a,1,0\n", "zero.csv:2: bandwidth_bytes_per_s must be at"),
    "huge.csv": (b"src,dst,rtt_ms\nhub,a" + b"a" * 200_000 + b",1\n", "huge.csv:1: field larger"),
    "square.csv": (b",hub,a\nhub,,1\n", "square.csv: the table is not square: there is no row 'a'"),
    "rows.csv": (b",hub,a\nhub,,1\nhub,,1\n", "rows.csv:3: row 'hub' comes twice"),
    "row.csv": (b",hub,a\nhub,,1\na,,1,2\n", "row.csv:3: 3 values for 2 columns"),
    "cell.csv": (b",hub,a\nhub,,x\na,,\n", "cell.csv:2: a must be a number"),
    "cut.graphml": (b"<graphml><graph>", "cut.graphml:1: no readable graphml file"),
    "none.graphml": (b"hello", "none.graphml:1: no readable graphml file"),
    "other.graphml": (b"<html></html>", "other.graphml: no readable graphml file"),
    "empty.gexf": (b"", "empty.gexf:1: no readable gexf file"),
    "other.gexf": (b"<gexf/>", "other.gexf: no readable gexf file"),
    "bomb.graphml": (
        b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><graphml>&b;</graphml>',
        "bomb.graphml: document types and entities are refused",
    ),
    "line.graphml": (
        b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'
        b'<node id="a&#10;b"/><node id="hub"/><edge source="hub" target="a&#10;b"/></graph></graphml>',
        "line.graphml: a node's name has control characters",
    ),
    "wide.graphml": (
        '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE x [<!ENTITY a "ha">]><graphml>&a;</graphml>'.encode("utf-16"),
        "wide.graphml: document types and entities are refused",
    ),
    "wide.gexf": (
        '<!DOCTYPE x [<!ENTITY a "ha">]><gexf>&a;</gexf>'.encode("utf-16-le"),
        "wide.gexf: (document types and entities are refused|1: no readable)",
    ),
    "latin.graphml": (
        '<?xml version="1.0" encoding="ISO-8859-1"?><!DOCTYPE h SYSTEM "é"><graphml/>'.encode("latin-1"),
        "latin.graphml: document types and entities are refused",
    ),
    "file.graphml": (
        b'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><graphml>&f;</graphml>',
        "file.graphml: document types and entities are refused",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_and_hostile_files_name_file_and_line(tmp_path, name):
    content, message = BROKEN[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ScenarioError, match=message) as caught:
        build(tmp_path, name)
    assert caught.value.key == "path" and "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [None, "fast", -1.0, float("nan"), True])
@pytest.mark.parametrize("suffix", ["graphml", "gexf"])
def test_impossible_values_in_xml(tmp_path, suffix, value):
    made = graph()
    for *_, values in made.edges(data=True):
        values.pop("latency_s")
        if value is not None:
            values["latency_s"] = value
    getattr(networkx, f"write_{suffix}")(made, tmp_path / f"v.{suffix}")
    with pytest.raises(ScenarioError, match=f"v.{suffix}: .*latency_s"):
        build(tmp_path, f"v.{suffix}")


def test_places_in_a_file_are_checked(tmp_path):
    write_all(tmp_path)
    with pytest.raises(ScenarioError, match="^server: there is no node 'hubb'; did you mean 'hub'?"):
        build(tmp_path, "rtt.csv", server="hubb")
    with pytest.raises(ScenarioError, match="^placement: there are 5 clients for 2 client nodes"):
        build(tmp_path, "rtt.csv", clients=5)
    with pytest.raises(ScenarioError, match="^path: nowhere.csv: No such file"):
        build(tmp_path, "nowhere.csv")
    ((key, message),) = NETWORKS.of({"name": "file", "path": "g.pickle", "server": "a"}).check(None)
    assert key == "path" and ".csv, .tsv, .txt, .dat, .graphml, .gexf, .gml, .json" in message


@pytest.mark.parametrize("path", ["g.graphml", "g.gexf", "rtt.csv"])
def test_damaged_files_give_a_network_or_one_clear_error(tmp_path, path):
    write_all(tmp_path)
    good = (tmp_path / path).read_bytes()
    rng = np.random.default_rng(0)
    outcomes = set()
    network = NETWORKS.of({"name": "file", "path": path, "server": "hub", "placement": "cycle"})
    scenario = SimpleNamespace(clients=3, file=lambda name: tmp_path / name)
    for _ in range(300):
        damaged = bytearray(good)
        for _ in range(rng.integers(1, 4)):
            spot = rng.integers(len(damaged))
            if rng.random() < 0.5:
                damaged[spot] = rng.integers(256)
            else:
                del damaged[spot : spot + rng.integers(1, 20)]
        (tmp_path / path).write_bytes(damaged)
        try:
            down, up = delays(network.build(scenario, Streams(0)), 10)
            assert np.isfinite(down).all() and np.isfinite(up).all()
            outcomes.add("built")
        except ScenarioError as error:
            assert "\n" not in str(error)
            outcomes.add("refused")
    assert outcomes == {"built", "refused"}


@pytest.mark.parametrize("line", [b"1,2\n", b",,,,,,,"])
def test_a_file_of_very_many_cells_is_refused_before_it_is_split(tmp_path, line):
    (tmp_path / "a.csv").write_bytes(b"src,dst,latency_s\n" + line * 11_000_000)
    with pytest.raises(ScenarioError, match="a.csv: (more than the 20,000,000 cells|larger than)"):
        build(tmp_path, "a.csv")
