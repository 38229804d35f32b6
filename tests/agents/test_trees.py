"""Trees of edges and several servers: one edge is a star, byte for byte; both engines; what everybody learns."""

import csv
import json
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from click.testing import CliRunner

from simfl.cli import simfl as main
from simfl.core.errors import SimflError
from simfl.privacy.dp.mechanisms import gaussian
from simfl.runs.coalition import coalition
from simfl.runs.run import run, verify
from simfl.scenario import InvalidScenario, Scenario
from tests.support.kills import files, killed_at, killed_at_time
from tests.support.random_scenarios import random_text
from tests.support.search import PLUGINS, impatient
from tests.support.sizes import repeats

PARTS = 2
BASE = """
name: small
seed: 3
clients: 12
topology: {name: tree, edges: 3, latency_s: 0.2}
network: {name: star, latency_s: {name: uniform, low: 0.1, high: 0.4}}
devices:
  computation: {name: random, distribution: {name: exponential, mean: 0.5}}
  failure: {name: bernoulli, probability: 0.1}
  availability: {name: bernoulli, dropout: 0.2}
selection: {name: random, k: 3}
training: {name: fedavg, rounds: 5}
learning: {data: digits, partition: iid, model: mlp}
trace: events
"""
OWN_COLUMNS = ("bytes_edges_down", "bytes_edges_up")
KINDS = {
    "sync": [],
    "inner rounds": ["topology.edge_rounds=2"],
    "servers": ["topology={name: servers, servers: 3}"],
    "cloud buffer": ["topology.cloud_buffer=2"],
    "edge buffers": ["training={name: fedbuff, rounds: 5, concurrency: 3, buffer: 2}"],
    "secagg": ["secagg={name: secagg, deadline_s: 3}"],
    "deadline": ["training.deadline_s=1.5", "network.loss=0.1"],
    "agents": ["agents.client={name: patient}", "network.loss=0.2", "training.deadline_s=3"],
    "policy": ["selection={name: batch_partition, k: 4, T: 2}"],
    "cloud selects": ["topology.selects=cloud", "selection={name: random, k: 7}"],
    "asks": ["selection={name: power_of_choice, k: 2, d: 3}"],
    "noise": ["training.weighting=equal", "privacy.stages=[{name: central_gaussian}]", "secagg=secagg"],
    "cloud's noise": ["training.weighting=equal", "privacy.stages=[{name: central_gaussian}]", "topology.noise=cloud"],
    "residuals": ["compression={name: top_k, share: 0.1, error_feedback: true}", "secagg=plain"],
    "states": ["training.client={name: scaffold}"],
}


def rows_of(folder, name="rounds.csv"):
    with open(folder / name, newline="") as file:
        return list(csv.DictReader(file))


def without_edges(folder):
    """The tables of a run as a star's: of the one edge, without what trees have besides."""
    shown = {}
    for name in ("rounds.csv", "participation.csv", "phases.csv", "messages.csv", "facts.csv", "jobs.csv"):
        if (folder / name).exists():
            rows = [row for row in rows_of(folder, name) if row.get("aggregator") in (None, "-2")]
            dropped = ("aggregator", *OWN_COLUMNS, "measured_recovered", "measured_error")
            shown[name] = [{key: cell for key, cell in row.items() if key not in dropped} for row in rows]
    if (folder / "observers.csv").exists():  # an edge sees what a server does, the cloud its models
        learned = [row for row in rows_of(folder, "observers.csv") if row["observer"] == "edge/0"]
        for row, against in zip(shown["rounds.csv"], learned, strict=True):
            row |= {name: cell for name, cell in against.items() if name.startswith("privacy")}
    return {name: rows for name, rows in shown.items() if rows}


def drawn(number):
    """A random scenario of a star that a tree of one edge can play, too."""
    rng = np.random.default_rng([57, number])
    while True:
        text, _ = random_text(rng, plugins=True)
        try:
            tree = Scenario.parse(text, "random", ["topology={name: tree, edges: 1}"], PLUGINS)
            star = Scenario.parse(text, "random", (), PLUGINS)
        except InvalidScenario:
            continue
        if tree.training.server in ("synchronous", "buffered") and star.network.independent:
            return star, tree


@pytest.mark.parametrize("part", range(PARTS))
def test_one_edge_is_a_server(part, tmp_path):
    """Rounds, participation, phases, messages, facts and jobs are those of a star, and so is the model."""
    ends = Counter()
    for number in range(part, repeats(24, 600), PARTS):
        star, tree = drawn(number)
        seen = []
        for made in (star, tree):
            try:
                with impatient():
                    folder = run(made, tmp_path / str(number), force=True).path
                seen.append((without_edges(folder), files(folder).get("model.npy")))
            except SimflError as error:
                seen.append(str(error))
        if any(isinstance(each, str) for each in seen):
            ends["ended early"] += 1
            continue
        one, other = seen
        assert one[0].keys() == other[0].keys(), f"scenario {number}"
        for name, rows in one[0].items():
            assert rows == other[0][name], f"scenario {number}: {name}"
        assert one[1] == other[1], f"scenario {number}: model"
        ends[tree.training.server] += 1
    assert ends["synchronous"] and ends["ended early"] < sum(ends.values()) / 2, ends


@pytest.mark.parametrize("kind", KINDS)
def test_both_engines_have_the_same_bytes(kind, tmp_path):
    arrays, processes = (
        files(run(Scenario.parse(BASE, "t", [*KINDS[kind], f"agents.engine={engine}"]), tmp_path / engine).path)
        for engine in ("auto", "processes")
    )
    assert [name for name in {**arrays, **processes} if arrays.get(name) != processes.get(name)] == []


@pytest.mark.parametrize("kind", ["sync", "servers", "cloud buffer", "edge buffers"])
def test_a_run_is_repeated(kind, tmp_path):
    folder = run(Scenario.parse(BASE, "t", KINDS[kind]), tmp_path).path
    assert all(verify(folder).values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_was_killed_goes_on(kind, tmp_path):
    """At some times, and at some writes; also twice."""
    made = Scenario.parse(BASE, "t", KINDS[kind])
    whole = run(made, tmp_path / "whole").path
    end_s = float(rows_of(whole)[-1]["time_s"])
    times = np.linspace(0, end_s, repeats(3, 200))[1:-1].tolist()
    for place, time_s in enumerate(times):
        out = tmp_path / f"at{place}"
        assert killed_at_time(time_s, lambda out=out: run(made, out))
        if place % 2 == 0:
            killed_at_time(time_s + 0.3, lambda out=out: run(made, out))
        assert files(run(made, out).path) == files(whole), (kind, time_s)
    for step in range(7, repeats(50, 4000), repeats(40, 17)):
        out = tmp_path / f"step{step}"
        if not killed_at(step, lambda out=out: run(made, out)):
            break
        assert files(run(made, out).path) == files(whole), (kind, step)


def test_an_edge_a_client_is_federated_averaging(tmp_path):
    """Where every client trains in every round; but for the order in which sums are rounded."""
    keys = ["devices.failure=none", "devices.availability=always", "clients=6"]
    tree = run(Scenario.parse(BASE, "t", [*keys, "topology.edges=6", "selection=all"]), tmp_path / "tree").path
    star = run(Scenario.parse(BASE, "t", [*keys, "topology=star", "selection=all"]), tmp_path / "star").path
    np.testing.assert_allclose(np.load(tree / "model.npy"), np.load(star / "model.npy"), rtol=1e-4, atol=1e-6)
    assert [row["cardinality"] for row in rows_of(tree)] == [row["cardinality"] for row in rows_of(star)]


def test_so_many_rounds_of_one_edge_are_as_many_of_a_server(tmp_path):
    tree = run(
        Scenario.parse(BASE, "t", ["topology={name: tree, edges: 1, edge_rounds: 3, latency_s: 0}"]), tmp_path / "tree"
    ).path
    star = run(Scenario.parse(BASE, "t", ["topology=star", "training.rounds=15"]), tmp_path / "star").path
    assert np.array_equal(np.load(tree / "model.npy"), np.load(star / "model.npy"))
    assert rows_of(tree)[-1]["time_s"] == rows_of(star)[-1]["time_s"]


# -- what everybody learns --------------------------------------------------------------------------


def smallest_support(rows, clients):
    """The fewest clients in any combination of exact rows that is not 0: whether some k columns can be alone in one."""
    from itertools import combinations

    def rank(matrix):
        matrix, done = [list(row) for row in matrix], 0
        for column in range(len(matrix[0]) if matrix else 0):
            pivot = next((i for i in range(done, len(matrix)) if matrix[i][column]), None)
            if pivot is None:
                continue
            matrix[done], matrix[pivot] = matrix[pivot], matrix[done]
            for i in range(done + 1, len(matrix)):
                factor = matrix[i][column] / matrix[done][column]
                matrix[i] = [a - factor * b for a, b in zip(matrix[i], matrix[done], strict=True)]
            done += 1
        return done

    whole = rank(rows)
    for size in range(1, clients + 1):
        for alone in combinations(range(clients), size):
            others = [[row[i] for i in range(clients) if i not in alone] for row in rows]
            if rank(others) < whole:
                return size
    return clients


def shares_of(folder, members):
    """What each update counts in each aggregation of each edge and in the cloud's average, exactly, by hand: equal
    weights, so that of n updates each counts 1/n, and an edge as many as it has summed."""
    sums = defaultdict(dict)
    for row in rows_of(folder, "participation.csv"):
        if int(row["aggregator"]) < -1:
            sums[-2 - int(row["aggregator"]), int(row["round"])].setdefault("who", []).append(int(row["client"]))
    rounds = {(-2 - int(row["aggregator"]), int(row["number"])): int(row["round"])
              for row in rows_of(folder, "aggregations.csv")}  # fmt: skip
    edges, averages = defaultdict(list), defaultdict(lambda: defaultdict(Fraction))
    weight = Counter()
    for (edge, number), t in sorted(rounds.items()):
        who = sums.get((edge, number), {}).get("who", [])
        edges[edge].append([Fraction(int(client in who)) for client in members[edge]])
        weight[edge, t] += len(who)
    for (edge, number), t in sorted(rounds.items()):
        for client in (who := sums.get((edge, number), {}).get("who", [])):
            averages[t][client] += Fraction(weight[edge, t], len(who))
    return edges, averages


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", ["tree", "servers"])
def test_what_each_observer_learns_is_that_of_brute_force(kind, count, tmp_path):
    """The weak notion against edges, the cloud and servers, from combinations of exact sums that are made by hand."""
    which = "edges" if kind == "tree" else "servers"
    made = Scenario.parse(BASE, "t", [f"topology={{name: {kind}, {which}: 3, edge_rounds: {count}}}",
                                      "training.weighting=equal", "learning={name: none, parameters: 3}",
                                      "training.rounds=3"])  # fmt: skip
    folder = run(made, tmp_path).path
    members = {edge: list(range(4 * edge, 4 * edge + 4)) for edge in range(3)}
    edges, averages = shares_of(folder, members)

    def of_averages(clients):
        return smallest_support([[averages[t][client] for client in clients] for t in averages], len(clients))

    own = {edge: smallest_support(rows, 4) for edge, rows in edges.items()}
    observers = json.loads((folder / "summary.json").read_text())["observers"]
    learned = {name: values["privacy_weak_lower"] for name, values in observers.items()}
    assert all(values["privacy_weak_lower"] == values["privacy_weak_upper"] for values in observers.values())
    separate = {edge: of_averages(clients) for edge, clients in members.items()}
    if kind == "tree":
        assert learned.pop("server") == min(separate.values())
    for edge in members:
        others = [client for other in members if other != edge for client in members[other]]
        beside = of_averages(others) if kind == "tree" else min(separate[other] for other in members if other != edge)
        assert learned[f"{'edge' if kind == 'tree' else 'server'}/{edge}"] == min(own[edge], beside), edge


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", ["tree", "servers"])
def test_what_observers_learn_together_is_that_of_their_rows_stacked(kind, count, tmp_path):
    """Exact rows over all clients, of all that each of them has; which are not taken apart by edges here."""
    which, each = ("edges", "edge") if kind == "tree" else ("servers", "server")
    made = Scenario.parse(BASE, "t", [f"topology={{name: {kind}, {which}: 3, edge_rounds: {count}}}",
                                      "training.weighting=equal", "learning={name: none, parameters: 3}",
                                      "selection=batch_partition:k=2,T=2", "training.rounds=4"])  # fmt: skip
    folder = run(made, tmp_path).path
    members = {edge: list(range(4 * edge, 4 * edge + 4)) for edge in range(3)}
    edges, averages = shares_of(folder, members)

    def rows_of_observer(name):
        place = name.partition("/")[2]
        if not place or kind == "servers":  # the models of each edge, or of each other server
            apart = [[row[i] if i in mine else Fraction(0) for i in range(12)]
                     for row in averages.values() for mine in members.values()]  # fmt: skip
        else:
            apart = [[row[i] for i in range(12)] for row in averages.values()]
        own = members[int(place)] if place else []
        return [*apart, *([dict(zip(own, row, strict=True)).get(i, Fraction(0)) for i in range(12)]
                          for row in (edges[int(place)] if place else []))]  # fmt: skip

    names = [*(["server"] if kind == "tree" else []), *(f"{each}/{edge}" for edge in range(3))]
    for size in (1, 2, 3, len(names)):
        for together in combinations(names, size):
            columns, _ = coalition(folder, together)
            stacked = [row for name in together for row in rows_of_observer(name) if any(row)]
            least = smallest_support(stacked, 12)
            assert columns["privacy_weak_lower"][-1] == columns["privacy_weak_upper"][-1] == least, together


def test_the_command_says_what_observers_learn_together(tmp_path):
    folder = run(Scenario.parse(BASE, "t", ["topology={name: tree, edges: 3}"]), tmp_path).path
    said = CliRunner().invoke(main, ["audit", str(folder), "--colluders", "server,edge/1"])
    assert said.exit_code == 0 and "against server and edge/1 together; protects" in said.output
    for words in (["--colluders", "edge/9"], ["--colluders", "server,edge/1", "--every", "2"], ["--colluders", "0"]):
        assert CliRunner().invoke(main, ["audit", str(folder), *words]).exit_code == 2


def test_an_epsilon_is_that_of_the_worst_edge(tmp_path):
    stage = "{name: central_gaussian, clip_norm: 1.0, noise_multiplier: 2.0}"
    keys = [f"privacy.stages=[{stage}]", "training.weighting=equal"]
    folder = run(Scenario.parse(BASE, "t", keys), tmp_path).path
    observers = json.loads((folder / "summary.json").read_text())["observers"]
    edges = [values["epsilon_max"] for name, values in observers.items() if name != "server"]
    assert observers["server"]["epsilon_max"] == max(edges) > min(edges)
    in_sums = Counter(int(row["client"]) for row in rows_of(folder, "participation.csv") if row["aggregator"] != "-1")
    by_hand = max(in_sums.values())
    always = ["selection=all", "devices.failure=none", "devices.availability=always"]
    star = Scenario.parse(BASE, "t", [*keys, *always, "topology=star", f"training.rounds={by_hand}"])
    alone = run(star, tmp_path).path
    known = json.loads((alone / "summary.json").read_text())["epsilon_max"]
    assert observers["server"]["epsilon_max"] == pytest.approx(known, rel=1e-6)


def test_noise_of_the_cloud_is_that_of_a_server(tmp_path):
    """One edge clips and the cloud noises: but for rounding the models of a server that does both, and its epsilons."""
    keys = [*KINDS["cloud's noise"][:2], "topology.edges=1", "topology.latency_s=0"]
    tree = run(Scenario.parse(BASE, "t", [*keys, "topology.noise=cloud"]), tmp_path / "tree").path
    star = run(Scenario.parse(BASE, "t", [*keys[:2], "topology=star"]), tmp_path / "star").path
    np.testing.assert_allclose(np.load(tree / "model.npy"), np.load(star / "model.npy"), rtol=1e-3, atol=1e-5)
    cells = [[(row["epsilon_max"], row["epsilon_median"], row["noise_std"]) for row in rows_of(folder)]
             for folder in (tree, star)]  # fmt: skip
    assert cells[0] == cells[1] and all(cells[0][-1])
    seen = [row for row in rows_of(tree, "observers.csv") if row["observer"] == "edge/0"]
    assert {row["epsilon_max"] for row in seen} == {""}  # it has the sums without noise


@pytest.mark.parametrize(("denominator", "factor"), [("weights", 1), (2.0, 2), (3.0, 4 / 3)])
def test_noise_of_the_cloud_is_that_of_what_updates_count(denominator, factor, tmp_path):
    """An edge that divides four updates by two sends twice their mean, and the cloud noises as if it were once."""
    always = ["devices.failure=none", "devices.availability=always", "selection=all:k=4"]
    keys = [*KINDS["cloud's noise"], *always, f"training.denominator={denominator}", "training.rounds=3"]
    summary = json.loads((run(Scenario.parse(BASE, "t", keys), tmp_path).path / "summary.json").read_text())
    assert summary["epsilon_max"] == pytest.approx(float(gaussian.epsilon(factor * 3**0.5, 1e-5)), rel=1e-6)


# -- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_messages_are_between_a_client_and_its_edge(kind, tmp_path):
    folder = run(Scenario.parse(BASE, "t", KINDS[kind]), tmp_path).path
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    messages, edges = [each for each in events if each["event"] == "message"], range(3)
    name = "server" if kind == "servers" else "edge"
    assert messages and all(each["arrives_s"] >= each["sent_s"] for each in messages)
    for each in messages:
        ends = {each["from"], each["to"]}
        client = next((end for end in ends if isinstance(end, int) and end >= 0), None)
        if client is None:
            assert ends in [{-1, f"{name}/{edge}"} for edge in edges], each
        else:
            assert ends == {client, f"{name}/{client // 4}"}, each
    summary = json.loads((folder / "summary.json").read_text())
    least = min(values["privacy_weak_lower"] for who, values in summary["observers"].items() if who != "server")
    assert summary["privacy_weak_lower"] >= least  # the cloud learns no more than all edges
    seen = rows_of(folder, "observers.csv")
    assert {row["observer"] for row in seen} == summary["observers"].keys()
    assert len(seen) == len(summary["observers"]) * int(summary["rounds"])
    between = [each for each in messages if -1 in (each["from"], each["to"])]
    assert sum(each["bytes"] for each in between) == sum(
        float(row[column]) for row in rows_of(folder) for column in OWN_COLUMNS
    )


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["topology.edges=20"], "topology.edges: one has no clients; use at most 12"),
        (["topology.edges=['0-5', '5-11']"], "topology.edges: each of the 12 clients belongs to exactly one"),
        (["topology.cloud_buffer=4"], "topology.cloud_buffer: is 4, but there are 3 edges; use at most 3"),
        (["training=serverless"], "topology: is no star, which training 'serverless' has none of"),
        (["attacks=[{name: rank}]"], "attacks"),
        (["selection.k=5"], "selection.k"),
        (["topology.noise=cloud"], "topology.noise: is cloud, but the noise of one stage central_gaussian"),
        (["topology.noise=cloud", "topology.edge_rounds=2"], "topology.noise: is cloud, but what is noised is one sum"),
        (["topology.selects=cloud", "selection=oort:k=3"], "topology.selects: is cloud, but selection 'oort' reads"),
        (["topology.selects=cloud", "topology.cloud_buffer=2"], "topology.selects: is cloud, but with buffers nobody"),
        (["topology.edges=['0-3', '4-11']", "selection=all"], "selection.k: is not set, and would be 4 in an edge of"),
        (["topology.latencys_s=1"], "latency_s"),
    ],
)
def test_impossible_trees_are_refused(overrides, says):
    with pytest.raises(InvalidScenario) as refusal:
        Scenario.parse(BASE, "t", overrides)
    assert says in str(refusal.value)


@pytest.mark.parametrize(("edges", "hidden"), [(3, 4), (["0-5", "6-11"], 2), (["0-2", "3-8", "9-11"], 1)])
def test_batches_hide_their_clients_inside_edges_only(edges, hidden, tmp_path):
    """The cloud selects batches of four neighbouring clients; what an edge sums is the part of a batch that it has."""
    keys = [f"topology.edges={edges}", "topology.selects=cloud", "selection={name: batch_partition, k: 4, T: 4}",
            "devices.failure=none", "devices.availability=always", "training.rounds=12",
            "learning={name: none, parameters: 3}"]  # fmt: skip
    summary = json.loads((run(Scenario.parse(BASE, "t", keys), tmp_path).path / "summary.json").read_text())
    assert summary["privacy_weak_lower"] == summary["privacy_strong"] == hidden


@pytest.mark.parametrize("edges", [3, ["0-1", "2-11"]])
def test_an_edge_has_what_it_has_aggregated_when_the_run_ends(edges, tmp_path):
    """With a buffer of the cloud edges are at work then: a run of more rounds says what they have done until then."""
    keys = ["topology.cloud_buffer=1", "topology.edge_rounds=6", f"topology.edges={json.dumps(edges)}", "selection.k=2",
            "training.weighting=equal", "learning={name: none, parameters: 3}"]  # fmt: skip
    tables = {}
    for rounds in (2, 9):
        folder = run(Scenario.parse(BASE, "t", [*keys, f"training.rounds={rounds}"]), tmp_path / str(rounds)).path
        tables[rounds] = [rows_of(folder, "aggregations.csv"), rows_of(folder, "participation.csv")]
        if rounds == 2:
            end_s, learned = float(rows_of(folder)[-1]["time_s"]), rows_of(folder, "observers.csv")
    done = {(row["aggregator"], row["number"]) for row in tables[9][0] if float(row["time_s"]) < end_s}
    assert {(row["aggregator"], row["number"]) for row in tables[2][0]} >= done
    if edges == 3:
        assert any(int(row["round"]) == 2 for row in tables[2][0])  # in no average of these two rounds
    rows = defaultdict(lambda: defaultdict(Fraction))
    for row in tables[9][1]:
        if (row["aggregator"], row["round"]) in done:
            rows[row["aggregator"]][int(row["round"]), int(row["client"])] = Fraction(1)
    for who, cells in rows.items():
        numbers, clients = ({place[i] for place in cells} for i in (0, 1))
        matrix = [[cells[number, client] for client in sorted(clients)] for number in sorted(numbers)]
        seen = next(row for row in reversed(learned) if row["observer"] == f"edge/{-2 - int(who)}")
        assert int(seen["privacy_weak_upper"]) <= smallest_support(matrix, len(clients)), who


@pytest.mark.parametrize("secagg", ["plain", "secagg", "lightsecagg"])
def test_what_edges_have_heard_when_the_run_ends_is_told(secagg, tmp_path):
    """Updates that have left before the end, also those of sums that only a longer run opens."""
    heard = 0
    for seed in range(4):
        keys = ["topology.cloud_buffer=1", f"secagg={secagg}", "learning={name: none, parameters: 3}", f"seed={seed}"]
        folders = {}
        for rounds in (2, 5):
            of = ["training.weighting=equal", f"training.rounds={rounds}"]
            folders[rounds] = run(Scenario.parse(BASE, "t", [*keys, *of]), tmp_path / f"{seed}/{rounds}").path
        end_s = float(rows_of(folders[2])[-1]["time_s"])
        told = defaultdict(set)
        for row in [*rows_of(folders[2], "messages.csv"), *rows_of(folders[2], "participation.csv")]:
            clients = row["clients"] if "clients" in row else row["client"]
            told[-2 - int(row["aggregator"])] |= {*map(int, clients.split())}
        for line in (folders[5] / "events.jsonl").read_text().splitlines():
            event = json.loads(line)
            if event.get("kind") == "update" and event["sent_s"] < end_s:
                heard += 1
                assert event["from"] in told[int(event["to"].partition("/")[2])], event
    assert heard > 10
