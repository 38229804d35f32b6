"""Named shared links of graphs in whole runs: recomputed from their events, by hand, and after kills."""

import json

import pytest

from simfl.core.errors import ScenarioError
from simfl.runs.run import run, verify
from simfl.scenario import InvalidScenario, Scenario
from tests.agents.test_shared_links import KINDS, events, table
from tests.agents.test_shared_links import TEXT as STAR
from tests.support.kills import files, killed_at_time
from tests.support.search import after_kills, whole
from tests.support.shared_network import Link, network_problems

EDGES = [["server", "core", 0.01], *(["core", f"r{i}", 0.02] for i in range(3))]
LATENCY_S = 0.01 + 0.02 + 0.03
EVERYBODY = frozenset(range(12))
EAST, WEST = frozenset(range(5)), frozenset(range(5, 12))
LINKS = {
    "backbone": {"edges": [["server", "core"]], "bytes_per_s": 6000.0, "up_bytes_per_s": 3000.0},
    "east": {"edges": [["core", "r0"]], "bytes_per_s": 1500.0},
    "west": {"edges": [["core", "r1"], ["r2", "core"]], "bytes_per_s": 4000.0, "up_bytes_per_s": 900.0},
}
OWN_LINES = [4000, 900, 2500, 300, 4000, 1500, 700, 4000, 2000, 1000, 500, 3000]
TEXT = STAR.replace("network: {name: star, latency_s: 0.05, bandwidth_bytes_per_s: 4000}\n", "")


def network(links=LINKS, lines=(4000.0,) * 12, server="server"):
    regions = [0] * 5 + [1] * 3 + [2] * 4
    last = [{"src": f"r{region}", "dst": f"c{i}", "latency_s": 0.03, "bandwidth_bytes_per_s": float(lines[i])}
            for i, region in enumerate(regions)]  # fmt: skip
    made = {"name": "graph", "edges": [*EDGES, *last], "clients": [f"c{i}" for i in range(12)], "server": server}
    return made | ({"shared": links} if links else {})


def scenario(overrides=(), **about):
    kept = [each for each in overrides if not each.startswith("network.")]
    lines = {"lines": OWN_LINES} if len(kept) < len(list(overrides)) else {}
    return Scenario.parse(TEXT, "s", [f"network={json.dumps(network(**{**lines, **about}))}", *kept])


def links_of(shared, server=None):
    clients = {"backbone": EVERYBODY, "east": EAST, "west": WEST}
    found = [
        Link({"down": link["bytes_per_s"], "up": link.get("up_bytes_per_s", link["bytes_per_s"])}, clients[name])
        for name, link in shared.items()
    ]
    return found + ([Link({"down": server, "up": server}, EVERYBODY)] if server else [])


@pytest.mark.parametrize("kind", KINDS)
def test_every_message_takes_what_progressive_filling_says(tmp_path, kind):
    """All messages of a run are followed over all links by their definition; who is given up leaves them at once."""
    played = scenario(KINDS[kind])
    told = events(run(played, tmp_path))
    lines = OWN_LINES if "own lines" in kind else [4000.0] * 12
    known = not kind.startswith("basecagg")  # sessions that are open at the end leave no records
    assert network_problems(told, links_of(LINKS), lines, [LATENCY_S] * 12 if known else None) == []
    held_up = [e for e in told if e["event"] == "message" and e["arrives_s"] - e["sent_s"] > 0.5 + LATENCY_S]
    assert kind == "asks" or held_up


@pytest.mark.parametrize("kind", ["fedavg", "fedbuff"])
def test_the_judge_would_see_a_link_forgotten(tmp_path, kind):
    """The same events, judged with one link more, or fewer."""
    told = events(run(scenario(KINDS[kind]), tmp_path))
    narrow = Link({"down": 500.0, "up": 500.0}, WEST)
    for links in (links_of({"backbone": LINKS["backbone"]}), [*links_of(LINKS), narrow]):
        assert network_problems(told, links, [4000.0] * 12, [LATENCY_S] * 12)
    assert network_problems(told, [narrow], [4000.0] * 12, None)


def test_the_servers_own_link_is_one_more(tmp_path):
    server = {"name": "server", "down_bytes_per_s": 2500.0, "up_bytes_per_s": 2500.0}
    for kind in ("fedavg", "fedbuff"):
        told = events(run(scenario(KINDS[kind], server=server), tmp_path / kind))
        assert network_problems(told, links_of(LINKS, 2500.0), [4000.0] * 12, [LATENCY_S] * 12) == []


@pytest.mark.parametrize("kind", ["fedavg", "secagg", "quorum", "fedbuff deadline", "basecagg"])
def test_one_link_on_all_paths_is_the_servers_link(tmp_path, kind):
    """To the last byte, also if further links are shared that can never be full before it."""
    server = {"name": "server", "down_bytes_per_s": 6000.0, "up_bytes_per_s": 3000.0}
    more = {"east": {"edges": [["core", "r0"]], "bytes_per_s": 6000.0}}
    one = run(scenario(KINDS[kind], links={}, server=server), tmp_path / "server")
    for name, links in (("named", {"backbone": LINKS["backbone"]}), ("more", {"backbone": LINKS["backbone"], **more})):
        other = run(scenario(KINDS[kind], links=links), tmp_path / name)
        assert runs_alike(one, other)


@pytest.mark.parametrize("kind", ["ties", "secagg", "fedbuff deadline", "quorum"])
def test_links_that_are_wide_enough_change_no_byte(tmp_path, kind):
    wide = {name: {"edges": link["edges"], "bytes_per_s": 12 * 4000.0} for name, link in LINKS.items()}
    wide["east"]["bytes_per_s"] = 5 * 4000.0
    one, other = (run(scenario(KINDS[kind], links=links), tmp_path / str(i)) for i, links in enumerate(({}, wide)))
    assert runs_alike(one, other)


def runs_alike(one, other):
    """The same tables and events, but for the columns that name the links."""
    found = [{name: data for name, data in files(done.path).items() if name.endswith(("csv", "jsonl"))
              and name != "clients.csv"} for done in (one, other)]  # fmt: skip
    return found[0] == found[1]


def test_no_links_are_the_scenario_as_it_was():
    free = scenario(links={})
    assert Scenario.parse(TEXT, "s", [f"network={json.dumps(network({}) | {'shared': {}})}"]).digest == free.digest
    assert scenario().digest != free.digest


def test_clients_have_the_names_of_their_links(tmp_path):
    rows = table(run(scenario(["training.rounds=1"]), tmp_path), "clients.csv")
    expected = ["backbone east"] * 5 + ["backbone west"] * 7
    assert [row["links_down"] for row in rows] == [row["links_up"] for row in rows] == expected


@pytest.mark.parametrize("kind", ["fedavg", "fedbuff deadline", "basecagg"])
def test_killed_at_any_time_and_resumed_gives_the_same_bytes(tmp_path, kind):
    played = scenario(KINDS[kind])
    done = run(played, tmp_path / "whole")
    for i in range(3):
        out = tmp_path / str(i)
        assert killed_at_time(done.summary["time_s"] * (i + 0.7) / 3.5, lambda out=out: run(played, out))
        assert files(run(played, out).path) == files(done.path)
    assert all(verify(done.path).values())


@pytest.mark.parametrize("rounds, every", [(5, 71), pytest.param(2, 1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["fedbuff own lines", "basecagg deadline"])
def test_killed_at_every_step_and_resumed_gives_the_same_bytes(tmp_path, kind, rounds, every):
    played = scenario([*KINDS[kind], f"training.rounds={rounds}"])
    expected, steps = whole(played, tmp_path / "whole")
    for step in range(every // 2, steps, every):
        again, died = after_kills(played, tmp_path / str(step), [step])
        assert died == 1 and again == expected


def test_by_hand_two_regions_behind_one_backbone(tmp_path):
    """Three models of 1,000 bytes over 1,000 bytes/s; one of them also over 200 bytes/s, which is all it takes. The two
    others have 400 bytes/s each: they have theirs after 2.5 s; it has its own after 5 s.
    """
    links = {
        "backbone": {"edges": [["server", "core"]], "bytes_per_s": 1000.0, "up_bytes_per_s": 1e9},
        "slow": {"edges": [["core", "b"]], "bytes_per_s": 200.0, "up_bytes_per_s": 1e9},
    }
    edges = [["server", "core", 0], ["core", "a", 0], ["core", "b", 0], ["core", "c", 0]]
    net = {"name": "graph", "edges": edges, "clients": ["a", "b", "c"], "shared": links}
    (row,) = table(run(Scenario.parse(TEXT, "s", [
        "clients=3", "selection=all", "devices.failure=none", "training.rounds=1", "devices.computation=0",
        f"network={json.dumps(net)}",
    ]), tmp_path))  # fmt: skip
    received = {
        e["to"]: e["arrives_s"] for e in events_of(tmp_path) if e["event"] == "message" and e["kind"] == "model"
    }
    assert received == pytest.approx({0: 2.5, 2: 2.5, 1: 5.0})
    assert float(row["time_s"]) == pytest.approx(5.0)


def events_of(folder):
    (path,) = folder.rglob("events.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_peers_share_the_links_between_them(tmp_path):
    """Four clients, two on either side of one link of 1,000 bytes/s each way: 4 of 1,000 bytes cross it in either
    direction, in 4 s; then everybody goes on. If it has half of that towards the server: c and d, who have theirs,
    wait until the link is free at 8.5 s, work for half a second, and send for 8 s.
    """
    edges = [["server", "l", 0], ["l", "r", 0.1], ["l", "a", 0], ["l", "b", 0], ["r", "c", 0], ["r", "d", 0]]
    net = {"name": "graph", "edges": edges, "clients": ["a", "b", "c", "d"],
           "shared": {"middle": {"edges": [["r", "l"]], "bytes_per_s": 1000}}}  # fmt: skip
    text = ["clients=4", "devices.failure=none", "devices.computation=0.5", "selection=all",
            "training={name: serverless, rounds: 2}", f"network={json.dumps(net)}"]  # fmt: skip
    rows = table(run(Scenario.parse(TEXT, "s", text), tmp_path / "a"))
    assert [float(row["time_s"]) for row in rows] == pytest.approx([4.6, 9.2])
    net["shared"]["middle"]["up_bytes_per_s"] = 500
    text[-1] = f"network={json.dumps(net)}"
    rows = table(run(Scenario.parse(TEXT, "s", text), tmp_path / "b"))
    assert [float(row["time_s"]) for row in rows] == pytest.approx([8.6, 17.1])


@pytest.mark.parametrize("net, slower_s", [
    ("{name: cities, rtt: great_circle, server: Oslo, cities: [Oslo, Rome, Lima], shared: {sea: {edges: [[Lima, "
     "Oslo]], bytes_per_s: 2000}}}", 4 * 0.5),
    ("{name: ring, latency_s: 0.1, shared: {half: {edges: [[0, 1], [1, 2]], bytes_per_s: 2000}}}", 6 * 0.5),
    ("{name: complete, latency_s: 0.1, shared: {two: {edges: [[0, 1], [2, 0]], bytes_per_s: 2000}}}", 2 * 0.5),
    ("{name: file, path: net.csv, server: s, placement: cycle, shared: {trunk: {edges: [[a, s]], bytes_per_s: 2000}}}",
     12 * 0.5),
])  # fmt: skip
def test_every_network_of_places_has_named_links(tmp_path, net, slower_s):
    """All twelve clients are sent 1,000 bytes: so many of them over the link, half a second each."""
    (tmp_path / "net.csv").write_text("src,dst,rtt_ms\ns,a,10\na,b,30\n")
    fixed = ["devices={computation: 0.5}", "training.rounds=1", "selection=all"]
    times = []
    for i, width in enumerate(("2000, up_bytes_per_s: 1.0e+12", "1.0e+12")):
        played = Scenario.parse(TEXT, "s", [*fixed, f"network={net.replace('2000', width)}"], folder=tmp_path)
        received = [e["arrives_s"] for e in events(run(played, tmp_path / str(i)))
                    if e["event"] == "message" and e["kind"] == "model"]  # fmt: skip
        times.append(received)
    later = [slow - fast for slow, fast in zip(*times, strict=True)]
    assert max(later) == pytest.approx(slower_s)
    assert sum(wait > 1e-6 for wait in later) == pytest.approx(slower_s / 0.5)


@pytest.mark.parametrize("kind", ["fedavg", "fedbuff"])
def test_lines_of_profiles_bound_messages_as_the_last_edges_do(tmp_path, kind):
    rows = "".join(f"{client},{width},{width}\n" for client, width in enumerate(OWN_LINES))
    (tmp_path / "lines.csv").write_text("client,down_bytes_per_s,up_bytes_per_s\n" + rows)
    profiled = scenario([*KINDS[kind], f"devices.profiles={tmp_path / 'lines.csv'}"], lines=[1e12] * 12)
    one, other = run(scenario(KINDS[kind], lines=OWN_LINES), tmp_path / "a"), run(profiled, tmp_path / "b")
    assert events(one) == events(other)
    assert network_problems(events(one), links_of(LINKS), OWN_LINES, [LATENCY_S] * 12) == []


def test_a_sweep_reaches_a_links_width():
    found = scenario(["selection.k=4"]).network
    assert found.shared["east"].bytes_per_s == 1500
    text = TEXT + f"network: {json.dumps(network())}\n"
    for value in ("100", "2.5e3"):
        played = Scenario.parse(text, "s", [f"network.shared.east.bytes_per_s={value}"])
        assert played.network.shared["east"].bytes_per_s == float(value)
        assert played.network.shared["west"] == found.shared["west"]


@pytest.mark.parametrize("key, value, message", [
    ("network.shared.east.bytes_per_s", "0", "bytes_per_s.*nearest valid value"),
    ("network.shared.east.byte_per_s", "5", "byte_per_s.*did you mean.*bytes_per_s"),
    ("network.shared.eats.bytes_per_s", "5", "network.shared.eats.edges: .*'eats' has no edges; did you mean 'east'"),
    ("network.shared.east.edges", "[[core, r9]]", "no node 'r9'; did you mean 'c9'"),
    ("network.shared.east.edges", "[[r0, r1]]", "no link between 'r0' and 'r1'; 'r0' is linked to c0, c1, c2, c3, c4"),
    ("network.shared.east.edges", "[[r0, r0]]", "'r0' to itself"),
    ("network.shared.server", "{edges: [[core, r0]], bytes_per_s: 9}", "the server's own link is called"),
    ("network.shared.east.edges", "[]", "shared link 'east' has no edges"),
])  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(key, value, message):
    with pytest.raises((InvalidScenario, ScenarioError), match=message):
        Scenario.parse(TEXT + f"network: {json.dumps(network())}\n", "s", [f"{key}={value}"])


def test_edges_of_files_and_drawn_graphs_are_looked_up_when_these_are_known(tmp_path):
    (tmp_path / "net.csv").write_text("src,dst,rtt_ms\ns,a,10\na,b,30\n")
    for net, message in (
        ("{name: file, path: net.csv, server: s, placement: cycle, shared: {x: {edges: [[s, c]], bytes_per_s: 1}}}",
         "shared.x.edges.0: there is no node 'c'"),
        ("{name: ring, latency_s: 0, shared: {x: {edges: [[0, 2]], bytes_per_s: 1}}}",
         "no link between '0' and '2'; '0' is linked to 1, 11"),
    ):  # fmt: skip
        with pytest.raises(ScenarioError, match=message):
            run(Scenario.parse(TEXT, "s", [f"network={net}"], folder=tmp_path), tmp_path / "out")
    with pytest.raises(InvalidScenario, match="there is no node '12'"):
        Scenario.parse(TEXT, "s", [
            "network={name: ring, latency_s: 0, shared: {x: {edges: [[0, 12]], bytes_per_s: 1}}}"
        ])  # fmt: skip
