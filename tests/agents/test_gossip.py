"""Gossip: on the complete graph it is `serverless`, byte for byte; who hears whom, when, and what that tells."""

import csv
import json
from collections import defaultdict
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from click.testing import CliRunner

from simfl.cli import simfl as main
from simfl.core.errors import SimflError
from simfl.core.rng import Streams
from simfl.runs.coalition import coalition
from simfl.runs.run import run, verify
from simfl.scenario import InvalidScenario, Scenario
from tests.agents.test_trees import smallest_support
from tests.support.kills import files, killed_at_time
from tests.support.random_scenarios import random_text
from tests.support.search import PLUGINS, impatient
from tests.support.sizes import repeats

PARTS = 2
BASE = """
name: small
seed: 5
clients: 10
topology: {name: gossip, graph: ring}
network: {name: star, latency_s: {name: uniform, low: 0.1, high: 0.4}}
devices:
  computation: {name: random, distribution: {name: exponential, mean: 0.5}}
  failure: {name: bernoulli, probability: 0.1}
selection: {name: random, k: 6}
training: {name: fedavg, rounds: 5}
learning: {data: digits, partition: iid, model: mlp}
trace: events
"""
KINDS = {
    "ring": [],
    "pull": ["topology.exchange=pull"],
    "both, one peer": ["topology.exchange=push_pull", "topology.peers=1"],
    "regular": ["topology.graph=regular", "topology.degree=3"],
    "all": ["selection=all", "secagg=plain"],
}
SERVERLESS = ["topology=star", "training={name: serverless, rounds: 5}"]


def rows_of(folder, name="rounds.csv"):
    with open(folder / name, newline="") as file:
        return list(csv.DictReader(file))


def drawn(number):
    """A random serverless scenario, and the same by gossip on the complete graph."""
    rng = np.random.default_rng([58, number])
    while True:
        text, _ = random_text(rng, plugins=True)
        changes = ["training={name: serverless, rounds: 4}"]
        complete = ["training={name: gossip, rounds: 4}", "topology={name: gossip, graph: complete}"]
        try:
            return tuple(Scenario.parse(text, "random", each, PLUGINS) for each in (changes, complete))
        except InvalidScenario:
            continue


@pytest.mark.parametrize("part", range(PARTS))
def test_the_complete_graph_is_serverless(part, tmp_path):
    """The same rounds, participation and models."""
    learned = 0
    for number in range(part, repeats(16, 300), PARTS):
        seen = []
        for made in drawn(number):
            try:
                with impatient():
                    folder = run(made, tmp_path / f"{number}", force=True).path
            except SimflError as error:
                seen.append(str(error))
                continue
            rounds = [{key: cell for key, cell in row.items() if not key.startswith(("privacy", "measured"))}
                      for row in rows_of(folder)]  # fmt: skip
            matrix = sorted((row["round"], row["aggregator"], row["client"], float(row["weight"]))
                            for row in rows_of(folder, "participation.csv"))  # fmt: skip
            seen.append((rounds, matrix, files(folder).get("model.npy")))
        assert seen[0] == seen[1], f"scenario {number}"
        learned += not isinstance(seen[0], str)
    assert learned > 2


def test_certificates_on_the_complete_graph_are_those_of_serverless(tmp_path):
    keys = ["devices.failure=none", "learning={name: none, parameters: 4}", "clients=7", "selection.k=4"]
    rows = [
        [{key: row[key] for key in row if key.startswith("privacy")} for row in rows_of(run(made, tmp_path).path)]
        for made in (
            Scenario.parse(BASE, "g", [*keys, "topology.graph=complete"]),
            Scenario.parse(BASE, "s", [*keys, "topology=star", "training={name: serverless, rounds: 5}"]),
        )
    ]
    assert rows[0] == rows[1]


OBSERVED = ["devices.failure=none", "learning={name: none, parameters: 4}", "clients=7", "selection.k=4"]


@pytest.mark.parametrize(
    "keys", [[], ["devices.failure={name: bernoulli, probability: 0.3}"], ["secagg=plain"], ["privacy=none"],
             ["privacy={name: multi_round, colluders: 2}"]],
)  # fmt: skip
def test_observers_on_the_complete_graph_are_those_of_serverless(keys, tmp_path):
    """A row for each client and round, also of clients that never aggregate; the worst of them stands in rounds.csv."""
    gossip, serverless = (
        run(Scenario.parse(BASE, "t", [*OBSERVED, *more, *keys]), tmp_path).path
        for more in (["topology.graph=complete"], ["topology=star", "training={name: serverless, rounds: 5}"])
    )
    assert (gossip / "observers.csv").read_bytes() == (serverless / "observers.csv").read_bytes()
    summaries = [json.loads((folder / "summary.json").read_text())["observers"] for folder in (gossip, serverless)]
    assert summaries[0] == summaries[1] and len(summaries[0]) == 7
    seen, rounds = rows_of(serverless, "observers.csv"), rows_of(serverless)
    assert [(row["observer"], row["round"]) for row in seen] == [
        (f"client/{i}", str(t)) for i in range(7) for t in range(5)
    ]
    for t, row in enumerate(rounds):
        for name in [name for name in seen[0] if name.startswith("privacy") and not name.endswith("colluders")]:
            of_each = [float(each[name]) for each in seen if each["round"] == str(t) and each[name]]
            assert (min(of_each) if of_each else None) == (float(row[name]) if row[name] else None)


AGENTS = [
    "patient", "{name: patient, timeout_s: 0.05}", "{name: dozing, online_s: 0.6, offline_s: 0.3}", "for_ever",
    "{name: joining, joins_s: {name: exponential, mean: 1.0}}", "{name: mixed, groups: [{agent: again, share: 0.5}]}",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["ring", "pull", "both, one peer", "serverless"])
@pytest.mark.parametrize("agent", ["plain_text", *AGENTS])
def test_agents_of_ones_own_talk_with_their_neighbours(agent, kind, tmp_path):
    """What they do changes times and bytes, never who is summed; it goes on after a kill."""
    keys = [*(SERVERLESS if kind == "serverless" else KINDS[kind]), "plugins=[own_agents.py]"]
    made = Scenario.parse(BASE, "t", [*keys, f"agents.client={agent}"], PLUGINS)
    folder = run(made, tmp_path / "whole").path
    usual = run(Scenario.parse(BASE, "t", keys, PLUGINS), tmp_path / "usual").path
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    updates = [each for each in events if each.get("kind") == "update"]
    rows = rows_of(folder)
    assert sum(int(row["bytes_sent_up"]) for row in rows) == sum(each["bytes"] for each in updates)
    arrived = {(each["from"], each["to"], t) for each, t in timed(events, "update") if not each.get("lost")}
    assert sum(int(row["bytes_up"]) for row in rows) == 19240 * len(arrived)
    for each, t in timed(events, "update"):
        assert (each["from"], each["to"], t) in arrived and each["arrives_s"] >= each["sent_s"]
    if agent == "plain_text":
        assert (folder / "events.jsonl").read_bytes() == (usual / "events.jsonl").read_bytes()
    elif "joining" not in agent:
        assert (folder / "participation.csv").read_bytes() == (usual / "participation.csv").read_bytes()
        again = any(key in agent for key in ("0.05", "dozing", "for_ever"))
        assert len(updates) > len(arrived) if again else len(updates) >= len(arrived)
    assert killed_at_time(0.6 * float(rows[-1]["time_s"]), lambda: run(made, tmp_path / "killed"))
    assert files(run(made, tmp_path / "killed").path) == files(folder)


def timed(events, kind):
    """The messages of a kind, each with its round."""
    t = -1
    for event in events:
        t += event["event"] == "round_start"
        if event.get("kind") == kind:
            yield event, t


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("never receives", "without receiving"),
        ("never answers", "ends before its update has reached all clients that wait for it"),
        ("waits", "ends before its update has reached all clients that wait for it"),
        ("keeps a word", "keeps 'word' in memory"),
        ("raises", "no such thing"),
        ("forgets yield", "write yield before it"),
        ("loops", "without letting time pass"),
        ("goes on", "waits 100000 times in a round"),
        ("trains twice", "trains a request twice"),
    ],
)
def test_agents_that_err_end_a_run_without_a_server_in_one_line(how, says, tmp_path):
    made = Scenario.parse(BASE, "t", ["plugins=[own_agents.py]", f"agents.client={{name: errs, how: {how}}}"], PLUGINS)
    with pytest.raises(SimflError, match=says) as refusal:
        run(made, tmp_path)
    assert "client/" in str(refusal.value) and "\n" not in str(refusal.value)


def graph_by_hand(made):
    neighbours = made.topology.neighbours(made.clients, Streams(made.seed))
    n = made.clients
    assert all(i not in neighbours[i] and all(i in neighbours[j] for j in neighbours[i]) for i in range(n))
    return neighbours


@pytest.mark.parametrize("kind", KINDS)
def test_models_go_to_neighbours_and_are_averaged(kind, tmp_path):
    """Who averages whom follows from the messages; a model is heard in the round in which it was trained."""
    made = Scenario.parse(BASE, "t", KINDS[kind])
    folder, neighbours = run(made, tmp_path).path, graph_by_hand(made)
    heard, t = defaultdict(set), -1
    for line in (folder / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        t += event["event"] == "round_start"
        if event["event"] == "message" and event["kind"] == "failure":
            assert not event["bytes"]
        elif event["event"] == "message":
            assert event["to"] in neighbours[event["from"]] and event["arrives_s"] >= event["sent_s"]
            heard[t, event["to"]].add(event["from"])
        elif event["event"] == "compute" and event["completed"]:
            heard[t, event["client"]].add(event["client"])
    told = defaultdict(set)
    for row in rows_of(folder, "participation.csv"):
        told[int(row["round"]), int(row["aggregator"])].add(int(row["client"]))
    assert told == heard
    sizes = [int(row["bytes_up"]) for row in rows_of(folder)]
    assert sizes == [sum(len(others - {who}) for (t, who), others in heard.items() if t == number) * 19240
                     for number in range(5)]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_repeated_and_goes_on_after_a_kill(kind, tmp_path):
    made = Scenario.parse(BASE, "t", KINDS[kind])
    whole = run(made, tmp_path / "whole").path
    assert all(verify(whole).values())
    for place, time_s in enumerate(np.linspace(0, float(rows_of(whole)[-1]["time_s"]), repeats(3, 100))[1:-1].tolist()):
        out = tmp_path / f"at{place}"
        assert killed_at_time(time_s, lambda out=out: run(made, out))
        assert files(run(made, out).path) == files(whole), (kind, time_s)


def test_a_model_is_the_average_of_those_that_were_heard(tmp_path):
    """By hand, of the participation matrix: a consensus step is a doubly stochastic one on a ring of equals."""
    keys = ["devices.failure=none", "selection=all", "training.weighting=equal", "training.learning_rate=0.0"]
    with pytest.raises(InvalidScenario):
        Scenario.parse(BASE, "t", keys)  # who does not learn is no case
    folder = run(Scenario.parse(BASE, "t", keys[:-1]), tmp_path).path
    weights = defaultdict(dict)
    for row in rows_of(folder, "participation.csv"):
        weights[int(row["round"]), int(row["aggregator"])][int(row["client"])] = float(row["weight"])
    for (_, who), row in weights.items():
        assert row == {(who - 1) % 10: 1.0, who: 1.0, (who + 1) % 10: 1.0}


@pytest.mark.parametrize("graph", ["ring", "regular", "complete"])
def test_what_a_neighbour_learns_is_that_of_brute_force(graph, tmp_path):
    """Every combination that a client is ever sent, followed exactly from model to model, hides no fewer clients."""
    n, rounds = 6, 3
    keys = ["clients=6", "selection.k=4", f"topology.graph={graph}", "topology.degree=3", "training.rounds=3",
            "training.weighting=equal", "learning={name: none, parameters: 4}", "devices.failure=none"]  # fmt: skip
    folder = run(Scenario.parse(BASE, "t", keys), tmp_path).path
    groups = defaultdict(list)
    for row in rows_of(folder, "participation.csv"):
        groups[int(row["round"]), int(row["aggregator"])].append(int(row["client"]))
    models = [[Fraction(0)] * n for _ in range(n)]
    learned = defaultdict(list)
    for t in range(rounds):
        after = [list(model) for model in models]
        for who in range(n):
            if group := groups.get((t, who)):
                total = [sum(models[other][i] + (i == other) for other in group) for i in range(n)]
                after[who] = [Fraction(value) / len(group) for value in total]
                learned[who].append(after[who])
        models = after
    observers = json.loads((folder / "summary.json").read_text())["observers"]
    for who in range(n):
        others = [i for i in range(n) if i != who]
        rows = [[row[i] for i in others] for row in learned[who]]
        claimed = observers[f"client/{who}"]["privacy_weak_lower"]
        if any(any(row) for row in rows):
            assert claimed is not None and claimed <= smallest_support(rows, len(others)), who


def of_coalitions(n, sizes=(1, 2, 3)):
    return [group for size in sizes for group in combinations(range(n), size)]


def least_of_others(rows, group, n):
    """The fewest others in a combination of exact rows, of which a group knows its own parts; None without any."""
    others = [[row[i] for i in range(n) if i not in group] for row in rows]
    others = [row for row in others if any(row)]
    return smallest_support(others, n - len(group)) if others else None


def together_of(folder, group):
    columns, _ = coalition(folder, [f"client/{who}" for who in group])
    last = {name: [value for value in values if value is not None][-1:] for name, values in columns.items()}
    return last["privacy_weak_lower"], last["privacy_weak_upper"]


@pytest.mark.parametrize("graph", ["ring", "regular"])
def test_what_clients_learn_together_is_that_of_their_sums_stacked(graph, tmp_path):
    """Which one-step sums are in a model is followed from message to message; each of a coalition has those of the
    models that it was sent. Models that are the exact combinations tell no more.
    """
    n, rounds = 6, 3
    keys = [f"clients={n}", "selection=all", f"topology.graph={graph}", "topology.degree=3",
            f"training.rounds={rounds}", "training.weighting=equal", "devices.failure=none",
            "learning={name: none, parameters: 4}", "topology.peers=1"]  # fmt: skip
    keys = keys if graph == "ring" else keys[:-1]
    folder = run(Scenario.parse(BASE, "t", keys), tmp_path).path
    groups = defaultdict(list)
    for row in rows_of(folder, "participation.csv"):
        groups[int(row["round"]), int(row["aggregator"])].append(int(row["client"]))
    models, inside = [[Fraction(0)] * n for _ in range(n)], [set() for _ in range(n)]
    sent, reached = defaultdict(list), [set() for _ in range(n)]
    for t in range(rounds):
        after, then = [list(model) for model in models], [set(sums) for sums in inside]
        for who in range(n):
            group = groups[t, who]
            total = [sum(models[other][i] + (i == other) for other in group) for i in range(n)]
            after[who] = [Fraction(value) / len(group) for value in total]
            then[who] = {(t, who)}.union(*(inside[other] for other in group))
            sent[who].append(after[who])
            reached[who] |= then[who]
        models, inside = after, then
    for group in of_coalitions(n):
        lower, upper = together_of(folder, group)
        stacked = [[Fraction(int(i in groups[each])) for i in range(n)] for who in group for each in reached[who]]
        least = least_of_others(stacked, group, n)
        if graph == "regular":  # all neighbours send each round, so that what can have come has come
            assert lower == upper == [least], group
        exact = least_of_others([row for who in group for row in sent[who]], group, n)
        assert lower[0] <= least <= exact, group


@pytest.mark.parametrize("weighting", ["equal", "samples"])
def test_what_clients_learn_together_without_a_server_is_that_of_all_sums(weighting, tmp_path):
    keys = [*SERVERLESS, "clients=7", "selection.k=4", f"training.weighting={weighting}", "learning.partition=iid"]
    folder = run(Scenario.parse(BASE, "t", keys), tmp_path).path
    sums = defaultdict(set)
    for row in rows_of(folder, "participation.csv"):
        sums[int(row["round"])].add(int(row["client"]))
    rows = [[Fraction(int(i in who)) for i in range(7)] for who in sums.values()]
    alone = json.loads((folder / "summary.json").read_text())["observers"]
    for group in of_coalitions(7, (1, 2, 4, 6)):
        least = least_of_others(rows, group, 7)
        assert together_of(folder, group) == ([least], [least]), group
        if len(group) == 1:
            assert alone[f"client/{group[0]}"]["privacy_weak_lower"] == least


def test_a_coalition_of_clients_hides_nobody_whose_models_are_seen_and_must_be_one(tmp_path):
    keys = ["clients=5", "selection.k=3", "learning={name: none, parameters: 4}", "training.rounds=2"]
    plain = run(Scenario.parse(BASE, "t", [*keys, "secagg=plain"]), tmp_path).path
    assert together_of(plain, (0, 3)) == ([1], [1])
    folder = run(Scenario.parse(BASE, "t", keys), tmp_path).path
    said = CliRunner().invoke(main, ["audit", str(folder), "--colluders", "client/0,client/3"])
    assert said.exit_code == 0 and "against client/0 and client/3 together; protects" in said.output
    everybody = ",".join(f"client/{who}" for who in range(5))
    star = run(Scenario.parse(BASE, "t", [*keys, "topology=star"]), tmp_path).path
    for of, names, says in (
        (folder, "client/9", "client/9: the run has no such observer"), (folder, everybody, "leave none of 5 clients"),
        (folder, "server", "server: the run has no such observer"), (star, "client/1", "--colluder names a client"),
        (folder, "client/x", "is no number"),
    ):  # fmt: skip
        refused = CliRunner().invoke(main, ["audit", str(of), "--colluders", names])
        assert refused.exit_code == 2 and says in refused.output, refused.output


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["training=serverless"], "topology"),
        (["training.deadline_s=3"], "training.deadline_s: topology has no server that reads it"),
        (["topology.graph=regular", "clients=9", "topology.degree=3"], "topology.degree: no graph of 9 clients"),
        (["secagg=secagg"], "secagg"),
        (["agents.client={name: deciding, loss_from: 1}"], "agents.client: training 'gossip' has no server with a"),
        (["network.loss=0.1"], "network.loss"),
        (["compression={name: quantise}"], "compression"),
        (["training=fedbuff", "training.concurrency=3", "training.buffer=2", "training.rounds=3"], "topology"),
    ],
)
def test_impossible_gossip_is_refused(overrides, says):
    with pytest.raises(InvalidScenario) as refusal:
        Scenario.parse(BASE, "t", overrides)
    assert says in str(refusal.value)


def test_no_two_draws_of_peers_are_told_apart_by_who_asks():
    """Each round everybody draws so many of its neighbours, each equally often."""
    made = Scenario.parse(BASE, "t", ["topology.peers=1"])
    neighbours, counts = graph_by_hand(made), np.zeros((10, 10))
    for t in range(2000):
        for who, mine in enumerate(made.topology.draw_peers(neighbours, t, Streams(made.seed))):
            counts[who, mine] += 1
    for row, mine in zip(counts, neighbours, strict=True):
        assert row.sum() == 2000 and np.ptp(row[mine]) < 300
