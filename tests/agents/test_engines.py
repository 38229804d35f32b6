"""Clients as processes and clients as arrays: the same bytes, whatever else a scenario holds."""

import csv
import json
from collections import Counter
from unittest import mock

import numpy as np
import pytest

from simfl.agents import peer_rounds, servers
from simfl.agents.peer_nodes import PeerNodes
from simfl.agents.trips import Trips
from simfl.agents.world import World
from simfl.core.errors import ScenarioError, SimflError
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from tests.support.kills import files, killed_at_time
from tests.support.random_scenarios import random_text
from tests.support.search import PLUGINS, impatient
from tests.support.sizes import repeats

PARTS = 4

BASE = """
name: small
seed: 3
clients: 8
network: {name: star, latency_s: {name: uniform, low: 0.1, high: 0.4}}
devices:
  computation: {name: random, distribution: {name: exponential, mean: 0.5}}
  failure: {name: bernoulli, probability: 0.1}
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 6, on_failure: drop_unit, deadline_s: 3}
learning: {name: none, parameters: 10, samples: 5}
privacy: none
trace: events
"""
ALONE = [
    "learning={data: digits, model: mlp, holdout: {validation: 0.5}}",
    "training.personal={name: jump_start, alone_rounds: 1}",
]
BUFFERED = ["training={name: fedbuff, buffer: 3, concurrency: 4, rounds: 8, deadline_s: 3}"]


def peers_drawn(rng: np.random.Generator) -> list[str]:
    """Serverless or gossip, as overrides of a scenario."""
    if rng.random() < 0.4:
        return ["training={name: serverless, rounds: 4}"]
    graph, exchange = rng.choice(["ring", "complete", "regular"]), rng.choice(["push", "pull", "push_pull"])
    keys = f"graph: {graph}, degree: {int(rng.integers(2, 5))}, exchange: {exchange}"
    peers = f", peers: {int(rng.integers(1, 3))}" * bool(rng.random() < 0.3)
    return ["training={name: gossip, rounds: 4}", f"topology={{name: gossip, {keys}{peers}}}"]


def drawn(number: int) -> tuple[str, list[str]]:
    """A random scenario whose clients can be processes, as text and overrides; where deadlines allow it half of them
    lose messages. A third have ties, and a quarter have no server."""
    rng = np.random.default_rng([56, number])
    while True:
        text, _ = random_text(rng, plugins=True)
        if number % 4 == 1:
            overrides = peers_drawn(rng)
            try:
                Scenario.parse(text, "random", [*overrides, "agents.engine=processes"], PLUGINS)
            except InvalidScenario:
                continue
            return text, overrides
        lossy = ["network.loss=0.15", "training.deadline_s=8"] + ["secagg.deadline_s=2"] * ("three_phases" in text)
        for overrides in (lossy, [])[int(rng.random() < 0.5) :]:
            try:
                made = Scenario.parse(text, "random", [*overrides, "agents.engine=processes"], PLUGINS)
            except InvalidScenario:
                continue
            if made.training.server != "drawn":
                return text, overrides


def played(text: str, overrides: list[str], engine: str, out) -> dict[str, bytes] | str:
    """Every table and event of a run, or why it ended."""
    made = Scenario.parse(text, "random", [*overrides, f"agents.engine={engine}"], PLUGINS)
    try:
        with impatient():
            found = files(run(made, out / engine, force=True).path)
    except SimflError as error:
        return str(error)
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_processes_have_the_bytes_of_arrays(part, tmp_path):
    ends = Counter()
    for number in range(part, repeats(120, 3000), PARTS):
        text, overrides = drawn(number)
        arrays, processes = (played(text, overrides, engine, tmp_path) for engine in ("arrays", "processes"))
        if isinstance(arrays, dict) and isinstance(processes, dict):
            differing = [name for name in {**arrays, **processes} if arrays.get(name) != processes.get(name)]
            assert not differing, f"scenario {number}: {differing}"
        assert arrays == processes, f"scenario {number}"
        kind = "peers" if number % 4 == 1 else "lossy" if overrides else "whole"
        ends["ended early" if isinstance(arrays, str) else kind] += 1
    assert (ends["peers"] if part == 1 else ends["lossy"] and ends["whole"]) and ends["ended early"] < sum(
        ends.values()
    ) / 2, ends


@pytest.mark.parametrize("overrides", [[], BUFFERED, ["secagg={name: secagg, deadline_s: 3}"]])
def test_every_client_at_work_is_a_process(overrides, tmp_path):
    """Started when the request arrives and ended when its answer leaves, and array code is never entered."""
    begun, ended = Counter(), Counter()
    receive, send = Trips._receive, Trips.send

    def on_receive(trips, trip):
        begun[trip.client, trips.world.now] += 1
        receive(trips, trip)
        assert trip.process.is_alive

    def on_send(trips, trip, computed_s):
        ended[trip.client, trips.world.now] += 1
        assert computed_s == trips.world.now
        send(trips, trip, computed_s)

    planted = mock.Mock(side_effect=AssertionError("array code"))
    made = Scenario.parse(BASE, "t", [*overrides, "agents.engine=processes"])
    with (
        mock.patch.object(servers, "exchange", planted),
        mock.patch.object(servers, "run_session", planted),
        mock.patch.object(Trips, "_receive", on_receive),
        mock.patch.object(Trips, "send", on_send),
    ):
        folder = run(made, tmp_path).path
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    messages = [each for each in events if each["event"] == "message" and each["kind"] != "cancel"]
    end_s = max(event["time_s"] for event in events if event["event"] == "round_end")
    asked = Counter((each["to"], each["arrives_s"]) for each in messages if each["from"] == -1)
    answered = Counter((each["from"], each["sent_s"]) for each in messages if each["from"] != -1)
    assert sum(begun.values()) > 20
    assert {key for key in begun if key[1] < end_s} <= asked.keys()
    assert answered.keys() <= ended.keys()


PEERS = {
    "serverless": ["training={name: serverless, rounds: 5}"],
    "masked": ["training={name: serverless, rounds: 5}", "secagg=pairwise_ratchet"],
    "push": ["training={name: gossip, rounds: 5}", "topology={name: gossip, graph: ring}"],
    "pull": ["training={name: gossip, rounds: 5}", "topology={name: gossip, graph: regular, exchange: pull}"],
    "both": ["training={name: gossip, rounds: 5}", "topology={name: gossip, exchange: push_pull, peers: 1}"],
}


@pytest.mark.parametrize("kind", PEERS)
def test_every_client_without_a_server_is_a_process_while_it_works(kind, tmp_path):
    """From when it is ready until its update has left it or it has died, and array code is never entered."""
    lived = set()
    begin, finish = PeerNodes._begin, PeerNodes._finish

    def on_begin(nodes, place):
        begin(nodes, place)
        run = nodes.runs[int(nodes.plan.clients[place])]
        assert run.process.is_alive
        lived.add((run.client, "from", nodes.world.now))

    def on_finish(nodes, place):
        lived.add((int(nodes.plan.clients[place]), "to", nodes.world.now))
        finish(nodes, place)

    planted = mock.Mock(side_effect=AssertionError("array code"))
    with (
        mock.patch.object(peer_rounds, "exchange_at_once", planted),
        mock.patch.object(servers, "exchange", planted),
        mock.patch.object(servers, "run_session", planted),
        mock.patch.object(PeerNodes, "_begin", on_begin),
        mock.patch.object(PeerNodes, "_finish", on_finish),
    ):
        folder = run(Scenario.parse(BASE, "t", [*PEERS[kind], "agents.engine=processes"]), tmp_path).path
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    works = [each for each in events if each["event"] == "compute"]
    spans = {(each["client"], *end) for each in works for end in (("from", each["start_s"]), ("to", each["end_s"]))}
    assert spans == lived and len(works) == 20
    times = {(each["client"], each["end_s"]) for each in works}
    pushed = [each for each in events if each["event"] == "message" and (each["from"], each["sent_s"]) in times]
    assert pushed and all(each["arrives_s"] > each["sent_s"] for each in pushed)
    with pytest.raises(AssertionError, match="array code"), mock.patch.object(peer_rounds, "exchange_at_once", planted):
        run(Scenario.parse(BASE, "t", [*PEERS[kind], "agents.engine=arrays"]), tmp_path / "arrays")


def test_more_processes_are_not_alive_than_clients_at_work(tmp_path):
    """What has answered, has died or is waited for no longer has no process left at the end of a round."""
    alive = []
    spawn = World.spawn

    def spawned(world, process):
        made = spawn(world, process)
        alive.append(made)
        return made

    made, counts = Scenario.parse(BASE, "t", ["agents.engine=processes"]), []
    with mock.patch.object(World, "spawn", spawned):
        run(made, tmp_path, on_round=lambda row: counts.append(sum(each.is_alive for each in alive)))
    assert len(counts) == 6 and max(counts) <= 1 + 4, counts


@pytest.mark.parametrize("overrides", [[], BUFFERED, [*BUFFERED, "network.loss=0.2"], PEERS["both"], PEERS["masked"]])
@pytest.mark.parametrize(("first", "second"), [("processes",) * 2, ("arrays", "processes"), ("processes", "arrays")])
def test_a_run_goes_on_with_either_engine(first, second, overrides, tmp_path):
    before, after = (Scenario.parse(BASE, "t", [*overrides, f"agents.engine={engine}"]) for engine in (first, second))
    expected = files(run(after, tmp_path / "whole").path)
    with open(next((tmp_path / "whole").glob("*/*/rounds.csv"))) as table:
        times = [float(row["time_s"]) for row in csv.DictReader(table)]
    for i, time_s in enumerate(times[2:]):
        out = tmp_path / str(i)
        assert killed_at_time(time_s, lambda out=out: run(before, out))
        assert files(run(after, out).path) == expected


def test_what_is_lost_is_in_no_sum_and_pays(tmp_path):
    """Read from the events alone, and as many as were asked for are lost."""
    made = Scenario.parse(BASE, "t", ["network.loss=0.3", "training.rounds=300", "devices.failure=none"])
    folder = run(made, tmp_path).path
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    messages = [each for each in events if each["event"] == "message"]
    lost = sum(each.get("lost", False) for each in messages)
    spread = (len(messages) * 0.3 * 0.7) ** 0.5
    assert abs(lost - 0.3 * len(messages)) < 4 * spread
    starts = [event["time_s"] for event in events if event["event"] == "round_start"]
    with open(folder / "participation.csv") as table:
        summed = {(int(row["round"]), int(row["client"])) for row in csv.DictReader(table)}
    for each in messages:
        if each["kind"] == "update":
            t = int(np.searchsorted(starts, each["sent_s"], side="right")) - 1
            if each.get("lost"):
                assert (t, each["from"]) not in summed
    heard = sum(each["bytes"] for each in messages if each["kind"] == "update" and not each.get("lost"))
    with open(folder / "rounds.csv") as table:
        rows = list(csv.DictReader(table))
    on_time = sum(int(row["bytes_up"]) for row in rows)
    assert on_time <= heard and sum(int(row["cardinality"]) for row in rows) == len(summed)


def test_the_engine_is_no_part_of_the_scenario():
    """Its digest, and what is stored, are those without the key."""
    plain, *others = (
        Scenario.parse(BASE, "t", overrides)
        for overrides in ([], ["agents.engine=arrays"], ["agents={client: standard, engine: processes}"])
    )
    for each in others:
        assert (each.digest, each.to_yaml()) == (plain.digest, plain.to_yaml())
    assert "agents" not in plain.to_yaml()


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["training={name: serverless, rounds: 3}", "agents.client={name: deciding, loss_from: 1}"], "agents.client"),
        (["training={name: serverless, rounds: 3}", "network.loss=0.1"], "network.loss"),
        (["training.deadline_s=null", "network.loss=0.1"], "network.loss"),
        ([*BUFFERED, "training.deadline_s=null", "network.loss=0.1"], "network.loss"),
        (["secagg=secagg", "network.loss=0.1"], "network.loss"),
        (["network.loss=1"], "network.loss"),
        (["agents.client=standrd"], "agents.client"),
    ],
)
def test_what_cannot_be_is_refused_before_the_run(overrides, key):
    with pytest.raises(InvalidScenario, match=key):
        Scenario.parse(BASE, "t", overrides)


def test_what_nobody_would_ever_tell_is_refused(tmp_path):
    """A client trains alone before the first round, and the server waits for all of them."""
    made = Scenario.parse(BASE, "t", [*ALONE, "network.loss=0.1"])
    with pytest.raises(ScenarioError, match="without a deadline"):
        run(made, tmp_path)
    assert not list(tmp_path.glob("*/*/summary.json"))
