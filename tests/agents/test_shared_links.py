"""Messages that share the server's link, in whole runs: recomputed from their events, by hand, and after kills."""

import csv
import json

import pytest

from simfl.core.errors import ScenarioError
from simfl.runs.run import run, verify
from simfl.scenario import InvalidScenario, Scenario
from tests.support.kills import files, killed_at_time
from tests.support.search import PLUGINS
from tests.support.shared_link import link_problems, overfull
from tests.support.sizes import repeats

LATENCY_S = 0.05
TEXT = """
clients: 12
network: {name: star, latency_s: 0.05, bandwidth_bytes_per_s: 4000}
devices:
  computation: {name: random, distribution: {name: half_normal, sigma: 0.5}}
  failure: {name: bernoulli, probability: 0.15}
selection: {name: batch_partition, k: 6, T: 2}
training: {name: fedavg, rounds: 6, weighting: equal}
learning: {name: none, parameters: 250}
privacy: none
trace: events
"""
BUFFERED = ["training={name: fedbuff, rounds: 12, concurrency: 8, buffer: 4, weighting: equal}"]
SLOWER = "network.bandwidth_bytes_per_s=[4000, 900, 2500, 300, 4000, 1500, 700, 4000, 2000, 1000, 500, 3000]"
KINDS = {
    "fedavg": [],
    "ties": ["devices.computation=0.5"],
    "own lines": [SLOWER],
    "quorum": ["training.quorum=0.5"],
    "deadline": ["training.deadline_s=3.5"],
    "abort": ["training.on_failure=abort"],
    "announce": ["training.announce=true"],
    "asks": ["selection={name: power_of_choice, k: 3, d: 6}", "learning={data: {name: synthetic, samples: 60, "
             "test_samples: 10, shape: [3], classes: 2}, model: logistic, partition: iid}"],
    "secagg": ["secagg={name: secagg, execute: cost_only}"],
    "secagg_plus": ["secagg={name: secagg_plus, execute: cost_only}"],
    "lightsecagg": ["secagg={name: lightsecagg, execute: cost_only}"],
    "pairwise_ratchet": ["secagg={name: pairwise_ratchet, execute: cost_only}"],
    "flamingo": ["secagg={name: flamingo, execute: cost_only, term: 2}"],
    "opa": ["secagg={name: opa, execute: cost_only}"],
    "fedbuff": BUFFERED,
    "fedbuff own lines": [*BUFFERED, SLOWER],
    "fedbuff deadline": [*BUFFERED, "training.deadline_s=3.5"],
    "fedbuff partial": [*BUFFERED, "training.partial=true"],
    "basecagg": [*BUFFERED, "secagg={name: basecagg, execute: cost_only}"],
    "basecagg deadline": [*BUFFERED, "secagg={name: basecagg, execute: cost_only, deadline_s: 20}"],
}  # fmt: skip


def scenario(overrides, down=6000.0, up=3000.0):
    server = {key: value for key, value in (("down_bytes_per_s", down), ("up_bytes_per_s", up)) if value is not None}
    return Scenario.parse(TEXT, "s", [*overrides, f"network.server={json.dumps(server)}"])


OWN = {
    "fedavg": ["training.deadline_s=6"],
    "fedavg own lines": ["training.deadline_s=6", SLOWER],
    "secagg": ["training.deadline_s=6", "secagg={name: secagg, execute: cost_only, deadline_s: 4}"],
    "fedbuff": [*BUFFERED, "training.deadline_s=6"],
    "fedbuff own lines": [*BUFFERED, "training.deadline_s=6", SLOWER],
}
AGENTS = ("again", "plain_text", "{name: mixed, groups: [{agent: again, share: 0.5}]}")


def with_agents(agent, kind, *overrides):
    server = "network.server={down_bytes_per_s: 6000, up_bytes_per_s: 3000}"
    text = [server, *OWN[kind], "network.loss=0.1", f"agents.client={agent}", *overrides]
    return Scenario.parse(TEXT + "plugins: [own_agents.py]\n", "s", text, PLUGINS)


def events(done):
    return [json.loads(line) for line in (done.path / "events.jsonl").read_text().splitlines()]


def table(done, name="rounds.csv"):
    with open(done.path / name, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("kind", KINDS)
def test_every_message_takes_what_fair_sharing_says(tmp_path, kind):
    """All messages of a run are followed by a slow integrator: its ends are theirs; who is given up leaves at once."""
    played = scenario(KINDS[kind])
    done = run(played, tmp_path)
    width = played.network.bandwidth_bytes_per_s
    most = list(width) if isinstance(width, tuple) else [width] * 12
    told = events(done)
    assert overfull(told, {"down": 6000.0, "up": 3000.0}) == []
    if kind.startswith("basecagg"):
        return  # sessions that are open at the end leave no records
    assert link_problems(told, {"down": 6000.0, "up": 3000.0}, most, [LATENCY_S] * 12) == []
    held_up = (e for e in told if e["event"] == "message" and e["arrives_s"] - e["sent_s"] > 0.5 + LATENCY_S)
    assert kind == "asks" or any(held_up)


def test_by_hand_downloads_together_and_uploads_as_work_ends(tmp_path):
    """Three models of 1,000 bytes at 1,000 bytes/s down: all at 3 s; updates at 500 bytes/s up from 3.1, 4.1, 9.1 s."""
    played = Scenario.parse(TEXT, "s", [
        "clients=3", "selection=all", "devices.failure=none", "training.rounds=1", "network.latency_s=0.05",
        "network.bandwidth_bytes_per_s=null",
        "devices.computation={name: per_sample, seconds: 1, speed: [1.0e-12, 1, 6]}",
        "network.server={down_bytes_per_s: 1000, up_bytes_per_s: 500}",
    ])  # fmt: skip
    (row,) = table(run(played, tmp_path))
    # first alone from 3.1 to 4.1 s (500 bytes), then with the second until 6.1 s; that has 500 left, alone till 7.1 s
    arrives = sorted(e["arrives_s"] for e in events_of(tmp_path) if e["event"] == "message" and e["kind"] == "update")
    assert arrives == pytest.approx([6.1, 7.1, 11.1])
    assert float(row["time_s"]) == pytest.approx(11.1)


def events_of(folder):
    (path,) = folder.rglob("events.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("kind", ["fedavg", "ties", "secagg", "fedbuff", "fedbuff deadline", "quorum"])
def test_a_link_that_is_wide_enough_changes_no_byte(tmp_path, kind):
    """Clients' own lines add up to less than the server's: byte for byte as without it."""
    free = run(Scenario.parse(TEXT, "s", KINDS[kind]), tmp_path / "free")
    wide = run(scenario(KINDS[kind], 12 * 4000.0, 1e9), tmp_path / "wide")
    one, other = ({name: data for name, data in files(done.path).items() if name.endswith(("csv", "jsonl"))}
                  for done in (free, wide))  # fmt: skip
    assert one == other


def test_no_capacity_is_the_scenario_as_it_was():
    assert Scenario.parse(TEXT, "s", ["network.server={}"]).digest == Scenario.parse(TEXT, "s").digest
    assert scenario([], 1000.0, None).digest != Scenario.parse(TEXT, "s").digest


def test_one_client_takes_the_time_of_the_narrower_line(tmp_path):
    """To the bit: the server's link is then like a line of the client's own."""
    lone = ["clients=1", "selection={name: random, k: 1}", "devices.failure=none"]
    narrow = run(Scenario.parse(TEXT, "s", [*lone, "network.bandwidth_bytes_per_s=700"]), tmp_path / "narrow")
    shared = run(scenario(lone, 700.0, 700.0), tmp_path / "shared")
    assert (narrow.path / "events.jsonl").read_bytes() == (shared.path / "events.jsonl").read_bytes()


@pytest.mark.parametrize("kind", ["announce", "fedbuff own lines", "fedbuff deadline", "basecagg", "basecagg deadline"])
def test_killed_at_any_time_and_resumed_gives_the_same_bytes(tmp_path, kind):
    played = scenario(KINDS[kind])
    whole = run(played, tmp_path / "whole")
    for i in range(4):
        out = tmp_path / str(i)
        assert killed_at_time(whole.summary["time_s"] * (i + 0.7) / 4.5, lambda out=out: run(played, out))
        assert files(run(played, out).path) == files(whole.path)
    assert all(verify(whole.path).values())


def test_an_update_that_comes_later_halves_the_rate_of_the_first(tmp_path):
    """Client 0 from 1 s, alone till 4 s: 300 of 500 bytes; then 50 bytes/s: 200 more at 8 s."""
    played = Scenario.parse(TEXT, "s", [
        "clients=2", "devices.failure=none", "network.bandwidth_bytes_per_s=null", "network.latency_s=0",
        "selection={name: random, k: 1}", "network.server={up_bytes_per_s: 100}",
        "devices.computation={name: per_sample, seconds: 1, speed: [1, 4]}",
        "training={name: fedbuff, rounds: 1, concurrency: 2, buffer: 1, weighting: equal}",
        "learning={name: none, parameters: 125}",
    ])  # fmt: skip
    assert run(played, tmp_path).summary["time_s"] == pytest.approx(8.0)


@pytest.mark.parametrize("kind", ["fedbuff", "fedbuff deadline"])
def test_some_are_given_up_while_they_share_the_link(tmp_path, kind):
    """So that the integrator above has seen that these leave it at once."""
    told = events(run(scenario(KINDS[kind]), tmp_path))
    gone = [(e["client"], e["time_s"]) for e in told if e["event"] == "cancel"]
    on_link = [e for e in told if e["event"] == "message" and e["bytes"] and any(
        client in (e["from"], e["to"]) and e["sent_s"] < time_s < e["arrives_s"] - LATENCY_S for client, time_s in gone
    )]  # fmt: skip
    assert on_link


def test_peers_share_the_stars_centre(tmp_path):
    """Six clients send each other 30 messages of 1,000 bytes through 1,000 bytes/s; then everybody goes on."""
    text = [
        "clients=6", "devices.failure=none", "devices.computation=0.5", "network.bandwidth_bytes_per_s=null",
        "selection=all", "training={name: serverless, rounds: 2}",
    ]  # fmt: skip
    rows = table(run(Scenario.parse(TEXT, "s", [*text, "network.server={up_bytes_per_s: 1000}"]), tmp_path))
    assert [float(row["time_s"]) for row in rows] == pytest.approx([30.6, 61.2])


@pytest.mark.parametrize("network", [
    "network={name: graph, edges: [[s, a, 0.1], [s, b, 0.2]], server: {name: s, down_bytes_per_s: 1000}, placement: "
    "cycle}",
    "network={name: cities, rtt: great_circle, server: {name: Oslo, down_bytes_per_s: 1000}}",
    "network={name: ring, latency_s: 0.1, server: {down_bytes_per_s: 1000}}",
])  # fmt: skip
def test_every_network_has_a_server_link(tmp_path, network):
    fixed = ["devices={computation: 0.5}", "training.rounds=1"]
    shared = run(Scenario.parse(TEXT, "s", [*fixed, network]), tmp_path / "a")
    free = run(Scenario.parse(TEXT, "s", [*fixed, network.replace("1000}", "1.0e+12}")]), tmp_path / "b")
    assert shared.summary["time_s"] == pytest.approx(free.summary["time_s"] + 6.0, abs=0.4)


def test_bad_capacities_are_told():
    with pytest.raises((InvalidScenario, ScenarioError), match="up_bytes_per_s.*nearest valid value"):
        scenario([], None, 0.0)
    with pytest.raises((InvalidScenario, ScenarioError), match="down_bytes_per_s"):
        Scenario.parse(TEXT, "s", ["network.server.down_bytes_per=5"])


def test_a_name_is_short_for_the_servers_mapping():
    text = TEXT.replace(
        "{name: star, latency_s: 0.05, bandwidth_bytes_per_s: 4000}", "{name: cities, rtt: great_circle, server: Oslo}"
    )
    found = Scenario.parse(text, "s", ["network.server.up_bytes_per_s=5e6"]).network.server
    assert (found.name, found.up_bytes_per_s, found.down_bytes_per_s) == ("Oslo", 5e6, None)


@pytest.mark.parametrize("kind", [[], BUFFERED], ids=["fedavg", "fedbuff"])
def test_lines_of_profiles_bound_messages_as_those_of_the_network_do(tmp_path, kind):
    widths = json.loads(SLOWER.partition("=")[2])
    rows = "".join(f"{client},{width},{width}\n" for client, width in enumerate(widths))
    (tmp_path / "lines.csv").write_text("client,down_bytes_per_s,up_bytes_per_s\n" + rows)
    profiled = [*kind, "network.bandwidth_bytes_per_s=null", f"devices.profiles={tmp_path / 'lines.csv'}"]
    one, other = (run(scenario(over), tmp_path / name) for name, over in (("a", [*kind, SLOWER]), ("b", profiled)))
    assert events(one) == events(other)


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("agent", AGENTS)
def test_answers_of_own_agents_share_the_link_each_time_they_are_sent(tmp_path, agent, kind):
    """The same integrator, with either engine: what is sent again is on the link beside all others' messages, of this
    round and the next, until it ends or nobody waits for it.
    """
    played = with_agents(agent, kind)
    width = played.network.bandwidth_bytes_per_s
    most = list(width) if isinstance(width, tuple) else [width] * 12
    done = run(played, tmp_path / "auto")
    told = events(done)
    assert link_problems(told, {"down": 6000.0, "up": 3000.0}, most, [LATENCY_S] * 12) == []
    works = sum(e["event"] == "compute" and bool(e["completed"]) for e in told)
    sent = sum(e["event"] == "message" and e["kind"] == "update" for e in told)
    assert sent > works if agent == "again" else sent > 10
    processes = run(with_agents(agent, kind, "agents.engine=processes"), tmp_path / "processes")
    assert files(processes.path) == files(done.path)


@pytest.mark.parametrize("kind", OWN)
def test_own_agents_with_the_standard_text_wait_as_standard_clients_do(tmp_path, kind):
    """Byte by byte where these are on the clock, too; and who overrides nothing is a standard client everywhere."""
    plain, text, same = (run(with_agents(agent, kind), tmp_path / agent) for agent in
                         ("standard", "plain_text", "nothing_new"))  # fmt: skip
    tables = "participation.csv", "phases.csv", "rounds.csv", "jobs.csv", "events.jsonl"
    found = [{name: data for name, data in files(done.path).items() if name in tables} for done in (plain, same)]
    assert found[0] == found[1]
    one, other = (files(done.path) for done in (plain, text))
    assert one["participation.csv"] == other["participation.csv"]
    times = [[float(row["time_s"]) for row in table(done)] for done in (plain, text)]
    if kind.startswith("fedbuff"):
        assert one["jobs.csv"] == other["jobs.csv"] and times[0] == times[1]
        assert sorted(one["events.jsonl"].splitlines()) == sorted(other["events.jsonl"].splitlines())
    else:
        assert times[0] == pytest.approx(times[1], rel=1e-12)


@pytest.mark.parametrize("kind", ["fedavg", "secagg", "fedbuff", "fedbuff own lines"])
@pytest.mark.parametrize("agent", ["again", "for_ever", "{name: dozing, online_s: 0.6, offline_s: 0.3}"])
def test_a_kill_leaves_answers_of_own_agents_on_the_link(tmp_path, agent, kind):
    played = with_agents(agent, kind)
    done = run(played, tmp_path / "whole")
    count = repeats(4, 60)
    for i in range(count):
        out = tmp_path / str(i)
        assert killed_at_time(done.summary["time_s"] * (i + 0.7) / (count + 0.5), lambda out=out: run(played, out))
        assert files(run(played, out).path) == files(done.path)


def test_by_hand_who_is_impatient_waits_longer(tmp_path):
    """Two clients work for 1 and 3 s and send 500 bytes over 100 bytes/s, the first alone until the second begins: done
    at 9 and 11 s. If they send again when a second has passed without an acknowledgement, and 0.5, 1, 2 s of a pause,
    that is at 1, 2.5, 4.5, 7.5 and at 3, 4.5, 6.5, 9.5 s, and from then on the eight have 12.5 bytes/s each; the first
    ends when it has the rest of 500 - 150 - 25 - 50 - 40 - 100/6 - 200/7, the second's 12 s later.
    """
    calm = ["clients=2", "selection=all", "devices.failure=none", "training.rounds=1", "network.latency_s=0",
            "network.bandwidth_bytes_per_s=null", "learning={name: none, parameters: 125}", "network.loss=0",
            "network.server={up_bytes_per_s: 100}", "training.deadline_s=100",
            "devices.computation={name: per_sample, seconds: 1, speed: [1, 3]}"]  # fmt: skip
    first_s = 9.5 + (500 - 150 - 25 - 50 - 40 - 100 / 6 - 200 / 7) * 8 / 100
    for agent, arrives, sent in (
        ("plain_text", (9.0, 11.0), [1.0, 3.0]),
        ("again", (first_s, first_s + 12), [1.0, 2.5, 3.0, 4.5, 4.5, 6.5, 7.5, 9.5]),
    ):
        told = events(run(with_agents(agent, "fedavg", *calm), tmp_path / agent))
        updates = [e for e in told if e.get("kind") == "update"]
        assert sorted(e["sent_s"] for e in updates) == pytest.approx(sent)
        first = [min(e["arrives_s"] for e in updates if e["from"] == client) for client in range(2)]
        assert first == pytest.approx(arrives)
