"""Edges that a user has written: a tree's bytes where they do the same; what observers learn; kills; errors."""

import csv
import json
from collections import defaultdict
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from simfl.core.errors import SimflError
from simfl.runs.coalition import coalition
from simfl.runs.run import run, verify
from simfl.scenario import InvalidScenario, Scenario
from tests.agents.test_trees import BASE, KINDS, rows_of, shares_of, smallest_support
from tests.plugins.test_loading import forgotten  # noqa: F401  # what a test registers is gone after it
from tests.support.kills import files, killed_at_time
from tests.support.search import PLUGINS

OWN = ["plugins=[own_edges.py]"]
BUFFERS = ("cloud buffer", "edge buffers")


def made(name, *overrides):
    of = "servers: 3" if "servers" in name else "edges: 3"
    topology = f"topology={{name: {name}, {of}, latency_s: 0.2}}"
    others = [each for each in overrides if not each.startswith("topology={")]
    return Scenario.parse(BASE, "t", [*OWN, topology, *others], PLUGINS)


def same_but_for_names(one, other):
    """Files that two runs do not have in common, but for those that hold the scenario or the run's digest."""
    told = {"scenario.yaml", "summary.json", "manifest.json"}
    return [name for name in {**one, **other} if name not in told and one.get(name) != other.get(name)]


@pytest.mark.parametrize("kind", ["deadline", "agents", "states", "cloud selects", *BUFFERS])
def test_the_standard_edge_by_hand_has_its_bytes(kind, tmp_path):
    keys = [*KINDS[kind], *(["topology.edge_rounds=2"] if kind == "states" else [])]
    mine = files(run(made("by_hand", *keys), tmp_path / "mine").path)
    tree = files(run(made("tree", *keys), tmp_path / "tree").path)
    assert {name for name in tree if name.endswith((".csv", ".npy", ".jsonl"))} <= {*mine}
    assert same_but_for_names(mine, tree) == []


def test_what_two_aggregations_of_an_own_edge_are_no_table_says(tmp_path):
    """One model or two: beside a buffer the cloud is taken to have their sums apart. All else has the same bytes."""
    keys = [*KINDS["cloud buffer"], "topology.edge_rounds=2"]
    mine, tree = (run(made(name, *keys), tmp_path / name).path for name in ("by_hand", "tree"))
    assert same_but_for_names(files(mine), files(tree)) == ["observers.csv", "rounds.csv"]
    for own, known in zip(rows_of(mine), rows_of(tree), strict=True):
        assert all(name.startswith("privacy_") for name in own if own[name] != known[name])
        assert all(float(own[name]) <= float(known[name]) for name in ("privacy_strong", "privacy_weak_upper"))


@pytest.mark.parametrize("name", ["uneven_tree", "uneven_servers"])
def test_what_observers_of_uneven_edges_learn_is_that_of_brute_force(name, tmp_path):
    """Together, from exact rows that are made by hand, of edges that aggregate once, twice and three times."""
    keys = ["training.weighting=equal", "learning={name: none, parameters: 3}", "training.rounds=3",
            "selection=batch_partition:k=2,T=2"]  # fmt: skip
    folder = run(made(name, *keys), tmp_path).path
    members = {edge: list(range(4 * edge, 4 * edge + 4)) for edge in range(3)}
    edges, averages = shares_of(folder, members)
    assert [len(edges[edge]) for edge in range(3)] == [3, 6, 9]
    is_tree = name == "uneven_tree"

    def rows_of_observer(who):
        place = who.partition("/")[2]
        apart = [[row[i] for i in range(12)] for row in averages.values()]
        if not place or not is_tree:  # the models of each edge, or of each other server
            apart = [[row[i] if i in mine else 0 for i in range(12)] for row in apart for mine in members.values()]
        own = members[int(place)] if place else []
        return [*apart, *([dict(zip(own, row, strict=True)).get(i, 0) for i in range(12)]
                          for row in (edges[int(place)] if place else []))]  # fmt: skip

    names = [*(["server"] if is_tree else []), *(f"{'edge' if is_tree else 'server'}/{edge}" for edge in range(3))]
    for size in (1, 2, len(names)):
        for together in combinations(names, size):
            columns, _ = coalition(folder, together)
            least = smallest_support([row for who in together for row in rows_of_observer(who) if any(row)], 12)
            assert columns["privacy_weak_lower"][-1] == columns["privacy_weak_upper"][-1] == least, together


def test_the_root_is_taken_to_have_all_sums_where_an_edge_steps_otherwise(tmp_path):
    """Of edges that aggregate more often than once: with momentum their change is no combination of their sums."""
    keys = ["training.weighting=equal", "learning={name: none, parameters: 3}", "training.rounds=1", "seed=5"]
    least = {}
    for optimiser in ("sgd", "adam"):
        made_so = made("uneven_tree", *keys, f"training.server_optimiser={optimiser}")
        summary = json.loads((run(made_so, tmp_path / optimiser).path / "summary.json").read_text())
        least[optimiser] = {who: each["privacy_weak_upper"] for who, each in summary["observers"].items()}
    edges = [least["adam"][f"edge/{edge}"] for edge in range(3)]
    assert least["adam"]["server"] == min(edges) < least["sgd"]["server"]


@pytest.mark.parametrize("seed", range(3))
def test_a_row_of_the_average_is_that_of_brute_force(seed, tmp_path):
    """Also of edges that aggregate once, beside others that do so more often."""
    keys = ["training.weighting=equal", "learning={name: none, parameters: 3}", f"seed={seed}"]
    folder = run(made("uneven_tree", *keys), tmp_path).path
    averages = shares_of(folder, {edge: list(range(4 * edge, 4 * edge + 4)) for edge in range(3)})[1]
    rows = defaultdict(dict)
    for row in rows_of(folder, "participation.csv"):
        if row["aggregator"] == "-1":
            rows[int(row["round"])][int(row["client"])] = Fraction(row["weight"])
    assert rows
    for t, row in rows.items():
        assert row.keys() == averages[t].keys()
        assert len({weight / averages[t][client] for client, weight in row.items()}) == 1, t


QUICK = [*KINDS["cloud buffer"], "training.weighting=equal", "learning={name: none, parameters: 3}",
         "training.rounds=1", "devices={}"]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_a_cloud_with_a_buffer_has_each_model_of_an_edge_apart(seed, tmp_path):
    """Of one round, too: their sum is what others see."""
    folder = run(made("uneven_rests", *QUICK, f"seed={seed}"), tmp_path).path
    edges, _ = shares_of(folder, {edge: list(range(4 * edge, 4 * edge + 4)) for edge in range(3)})
    averaged = [row["aggregator"] for row in rows_of(folder, "aggregations.csv") if row["round"] == "0"]
    assert averaged == ["-2", "-2"]  # what edges have summed besides only they have
    models = edges[0][:2]
    together = [sum(column) for column in zip(*models, strict=True)]
    own = smallest_support(edges[1], 4) if 1 in edges else 4
    least = {"server": smallest_support(models, 4), "edge/1": min(own, smallest_support([together], 4))}
    learned = json.loads((folder / "summary.json").read_text())["observers"]
    for who, number in least.items():
        assert learned[who]["privacy_weak_lower"] == learned[who]["privacy_weak_upper"] == number, who


def test_an_edge_draws_anew_and_remembers_also_for_the_same_model(tmp_path):
    folder = run(made("uneven_rests", *QUICK, "topology.cloud_buffer=3"), tmp_path).path
    sent = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    sent_s = [each["sent_s"] for each in sent if each.get("kind") == "edge model" and each["from"] == "edge/0"]
    ended_s = [float(row["time_s"]) for row in rows_of(folder, "aggregations.csv") if row["aggregator"] == "-2"]
    rests = np.subtract(sent_s, ended_s)
    assert len(rests) == 3 and [int(rest) for rest in rests] == [1, 2, 3]
    assert len(set(np.round(rests % 1, 9))) == 3


CLOUD = ["topology.noise=cloud", "topology.selects=cloud"]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ([], None),
        (["topology.name=by_hand"], "who takes part may decide how often an edge of its own aggregates"),
        (["topology.cloud_buffer=2"], "who takes part may decide whose models fill the cloud's buffer"),
        (["topology.noise=cloud"], "each edge draws from its own clients, and the cloud noises all"),
        (CLOUD, None),
        (
            [*CLOUD, "training.denominator=2"],
            "the cloud divides by the weights of those who came, which tells about them",
        ),
    ],
)
def test_what_edges_do_is_no_sampling(keys, says):
    sampled = [*KINDS["noise"][:2], "secagg=ideal", "selection=random:k=2", "devices={}",
               "privacy.accountants=[{name: rdp, amplification: fixed_size}]"]  # fmt: skip
    if says is None:
        made("tree", *sampled, *keys)
        return
    with pytest.raises(InvalidScenario, match=f"amplification is fixed_size, but {says}; use amplification: none"):
        made("tree", *sampled, *keys)


@pytest.mark.parametrize("kind", ["secagg", "agents", *BUFFERS])
def test_an_edge_that_remembers_and_rests(kind, tmp_path):
    """Both engines, again, and after kills: the same bytes; more aggregations in the time, rests of its own."""
    keys = [*KINDS[kind], "topology.budget_s=1.5"]
    whole = run(made("in_time", *keys), tmp_path / "whole").path
    assert all(verify(whole).values())
    processes = run(made("in_time", *keys, "agents.engine=processes"), tmp_path / "processes").path
    assert same_but_for_names(files(whole), files(processes)) == []
    assert len(rows_of(whole, "aggregations.csv")) > 3 * len(rows_of(whole))
    end_s = float(rows_of(whole)[-1]["time_s"])
    for place, time_s in enumerate(np.linspace(0, end_s, 4)[1:-1].tolist()):
        out = tmp_path / f"at{place}"
        assert killed_at_time(time_s, lambda out=out: run(made("in_time", *keys), out))
        assert files(run(made("in_time", *keys), out).path) == files(whole), (kind, time_s)


def test_an_edge_rests_between_its_last_aggregation_and_its_model(tmp_path):
    """By the records of messages and aggregations: rests are drawn anew each time."""
    folder = run(made("in_time", "topology.budget_s=0.01"), tmp_path).path
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    sent_s, rests = defaultdict(list), []
    for event in events:
        if event["event"] == "message" and event["kind"] == "edge model":
            sent_s[event["from"]].append(event["sent_s"])
    for row in rows_of(folder, "aggregations.csv"):
        ends_s = float(row["time_s"])
        rests.append(sent_s[f"edge/{-2 - int(row['aggregator'])}"][int(row["round"])] - ends_s)
    last = [rest for rest in rests if rest < 5]
    assert all(len(times) == 5 for times in sent_s.values())
    assert len(set(np.round(last, 9))) == len(last) >= 15 and min(last) > 0


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("nothing", "ends without an aggregation; write yield edge.aggregate()"),
        ("raises", "own_edges.py:73: KeyError: 'gone'"),
        ("asks, and does not wait", "ends before it has waited for what its node gave; write yield before it"),
        ("counts what it has not waited for", "write yield before what its node gives"),
        ("asks twice", "does not wait for what it gives; write yield before it"),
        ("number", "waits for a float, and not for what a method of its node has just given"),
        ("times", "aggregates 0 times, and a whole number from 1 is needed"),
        ("back", "gives -1 as seconds, and a finite number from 0 is needed"),
        ("memory", "keeps 'words' in memory, which is no array of numbers"),
        ("mask", "keeps 'mask' in memory, which is no array of numbers"),
        ("anew", "sets its memory anew"),
        ("loop", "goes on 10000 times without letting time pass"),
    ],
)
def test_what_no_edge_can_do_is_one_line(how, says, tmp_path):
    with pytest.raises(SimflError, match=r"^edge/\d at [\d.]+ s: run_edge of topology 'errs' ") as error:
        run(made("errs", f"topology.how={how}"), tmp_path)
    assert says in str(error.value)


def test_a_hook_that_is_no_generator_is_one_line(tmp_path):
    with pytest.raises(SimflError, match="topology 'no_generator': run_edge must give a generator"):
        run(made("no_generator"), tmp_path)


def test_noise_of_the_cloud_is_refused_where_edges_may_aggregate_twice():
    with pytest.raises(InvalidScenario, match="topology.noise: is cloud, but what is noised is one sum"):
        made("by_hand", *KINDS["cloud's noise"])


def test_it_is_not_for_a_plugin_to_say_that_edges_aggregate_once(tmp_path):
    (tmp_path / "claims.py").write_text(
        "from dataclasses import dataclass\nfrom simfl.plugins.topology import TOPOLOGIES, Tree\n"
        "@TOPOLOGIES('claims')\n@dataclass(frozen=True, kw_only=True)\nclass Claims(Tree):\n"
        '    """It."""\n    has_root = True\n    aggregates_once = True\n'
    )
    with pytest.raises(SimflError, match="'aggregates_once' follows from what else it says"):
        Scenario.parse(BASE, "t", ["plugins=[claims.py]", "topology.name=claims"], tmp_path)


def test_rows_have_each_aggregation_once(tmp_path):
    folder = run(made("uneven_tree"), tmp_path).path
    with open(folder / "aggregations.csv", newline="") as file:
        rows = [(int(row["aggregator"]), int(row["number"]), int(row["round"])) for row in csv.DictReader(file)]
    by_hand = [(-2 - edge, t * (edge + 1) + i, t) for t in range(5) for edge in range(3) for i in range(edge + 1)]
    assert sorted(rows) == sorted(by_hand)
