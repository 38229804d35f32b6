"""Robust aggregates by small programs of their definitions, and what each update counts in them."""

import csv
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from simfl.training.aggregates import AGGREGATES, BesideUpdates
from tests.support.kills import files, killed_at_time

SCENARIO = """
clients: 11
seed: 4
selection: all
network: {name: star, latency_s: {name: uniform, low: 0.1, high: 0.4}}
training: {name: fedavg, rounds: 4, batch_size: 16, learning_rate: 0.3, weighting: equal}
learning: {data: {name: synthetic, samples: 220, test_samples: 40, shape: [4]}, model: logistic}
privacy: none
metrics: [attackers]
"""
RULES = {
    "krum": "{name: krum, f: 2}", "multi_krum": "{name: multi_krum, f: 2, m: 4}", "bulyan": "{name: bulyan, f: 2}",
    "geometric_median": "geometric_median", "norm_bound": "{name: norm_bound, bound: 0.3}",
    "centred_clipping": "{name: centred_clipping, radius: 0.2, iterations: 3}",
    "fltrust": "{name: fltrust, samples: 40}",
}  # fmt: skip


BUCKETS = {"bucketed": "{name: bucketed, rule: {name: centred_clipping, radius: 0.3}, size: 2}"}


def drawn(seed, n=11, d=4):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def combined(name, deltas, weights=None, **fields):
    weights = np.ones(len(deltas)) if weights is None else np.asarray(weights, dtype=np.float64)
    rule = AGGREGATES[name](**fields)
    return rule.combine(deltas, weights, float(weights.sum()))


def beside(previous, root, calls=None, clients=range(11), seed=0):
    """What a server has, that notes how many samples it is asked to train on."""

    def train(samples):
        if calls is not None:
            calls.append(samples)
        return root

    return BesideUpdates(previous, train, np.array(clients), lambda: np.random.default_rng(seed))


class Bound:
    """A rule of a server that has this besides."""

    def __init__(self, rule, server):
        self.combine, self.shares = partial(rule.combine, beside=server), partial(rule.shares, beside=server)


def krum_winner(vectors, f):
    """By all sets of n - f - 2 others: the update with the smallest sum of squared distances to one of these."""
    count = max(len(vectors) - f - 2, 1)
    best = []
    for i, each in enumerate(vectors):
        others = [vector for j, vector in enumerate(vectors) if j != i]
        sums = (
            sum(float(((each - it) ** 2).sum()) for it in some)
            for some in combinations(others, min(count, len(others)))
        )
        best.append(min(sums))
    return best


@pytest.mark.parametrize("f", [0, 1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_krum_by_all_sets_of_neighbours(seed, f):
    deltas = drawn(seed, 9).astype(np.float64)
    scores = krum_winner(deltas, f)
    assert np.allclose(combined("krum", deltas.astype(np.float32), f=f), deltas[np.argmin(scores)], atol=1e-6)
    first = deltas[np.argsort(scores)[:3]].mean(axis=0)
    assert np.allclose(combined("multi_krum", deltas.astype(np.float32), f=f, m=3), first, atol=1e-6)
    all_but = deltas[np.argsort(scores)[: 9 - f]].mean(axis=0)
    assert np.allclose(combined("multi_krum", deltas.astype(np.float32), f=f), all_but, atol=1e-6)


@pytest.mark.parametrize(("n", "f"), [(7, 1), (11, 2), (12, 2), (5, 0)])
@pytest.mark.parametrize("seed", range(4))
def test_bulyan_by_its_definition(seed, n, f):
    deltas = drawn(seed, n).astype(np.float64)
    left, selected = list(deltas), []
    while len(selected) < n - 2 * f:
        selected.append(left.pop(int(np.argmin(krum_winner(left, f)))))
    selected, wanted = np.array(selected), []
    for column in selected.T:
        nearest = sorted(column, key=lambda value: abs(value - np.median(column)))
        wanted.append(np.mean(nearest[: n - 4 * f]))
    assert np.allclose(combined("bulyan", deltas.astype(np.float32), f=f), wanted, atol=1e-5)


def test_bulyan_of_no_attackers_is_the_mean():
    deltas = drawn(3)
    assert np.allclose(combined("bulyan", deltas, f=0), deltas.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("weights", [np.ones(7), [1, 2, 3, 1, 5, 0, 2]])
@pytest.mark.parametrize("seed", range(4))
def test_the_geometric_median_by_an_optimiser(seed, weights):
    deltas, weights = drawn(seed, 7), np.asarray(weights, dtype=np.float64)

    def distance(point):
        return float((weights * np.linalg.norm(deltas - point, axis=1)).sum())

    best = minimize(
        distance, deltas.mean(axis=0), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 20_000}
    )
    point = combined("geometric_median", deltas, weights, iterations=5000)
    assert distance(point) <= best.fun * (1 + 1e-6) and np.allclose(point, best.x, atol=2e-3)


def test_norms_are_bounded_by_hand():
    deltas = np.float32([[3, 4], [0.3, 0.4], [0, -2]])
    assert np.allclose(combined("norm_bound", deltas, [1, 1, 2], bound=1.0), [(0.6 + 0.3) / 4, (0.8 + 0.4 - 2) / 4])
    assert np.allclose(combined("norm_bound", deltas, bound=100.0), deltas.mean(axis=0))


@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_centred_clipping_by_its_definition(iterations):
    deltas, previous = drawn(1), np.float32([1, -1, 0.5, 0])
    rule = AGGREGATES["centred_clipping"](radius=0.7, iterations=iterations)
    point = previous.astype(np.float64)
    for _ in range(iterations):
        moves = [(each - point) * min(1, 0.7 / np.linalg.norm(each - point)) for each in deltas.astype(np.float64)]
        point = point + np.mean(moves, axis=0)
    server = beside(previous, previous)
    weights = np.ones(len(deltas))
    assert np.allclose(Bound(rule, server).combine(deltas, weights, 11.0), point, atol=1e-5)
    shares = Bound(rule, server).shares(deltas, weights)
    rest = point - shares @ deltas.astype(np.float64)
    assert np.allclose(rest, (1 - shares.sum()) * previous, atol=1e-5), "what is left counts for the sum before"


def test_fltrust_by_its_definition():
    deltas, root = drawn(2), np.float32([1, 0.5, 0, -1])
    rule = AGGREGATES["fltrust"](samples=7)
    asked = []
    bound = Bound(rule, beside(root[:0], root, asked))
    trust = [max(0.0, float(each @ root / np.linalg.norm(each) / np.linalg.norm(root))) for each in deltas]
    wanted = sum(t * np.linalg.norm(root) / np.linalg.norm(each) * each for t, each in zip(trust, deltas))
    assert np.allclose(bound.combine(deltas, np.ones(11), 11.0), wanted / sum(trust), atol=1e-5) and asked == [7]
    assert not bound.combine(-np.tile(root, (3, 1)), np.ones(3), 3.0).any(), "nobody is trusted"


@pytest.mark.parametrize("name", RULES)
def test_single_and_equal_updates_and_those_without_weight(name):
    """Of equal updates that are within bounds it makes that update; one of weight 0 changes nothing."""
    fields = {"f": 0} if name in ("krum", "multi_krum", "bulyan") else {"radius": 9.0} if "clip" in name else {}
    fields |= {"bound": 9.0} if name == "norm_bound" else {}
    one = np.float32([[0.5, -1, 0, 2]])
    rule = Bound(AGGREGATES[name](**fields), beside(np.zeros(4, np.float32), one[0]))
    for n in (1, 2, 3, 8):
        assert np.allclose(rule.combine(np.tile(one, (n, 1)), np.ones(n), n), one[0], atol=1e-5)
    deltas, weights = drawn(5, 6), np.array([1, 1, 0, 1, 1, 1.0])
    without = rule.combine(deltas[weights > 0], np.ones(5), 5.0)
    assert np.array_equal(rule.combine(deltas, weights, 5.0), without) and rule.shares(deltas, weights)[2] == 0


@pytest.mark.parametrize("name", RULES)
def test_what_each_counts_makes_up_the_aggregate(name):
    """Shares times updates are the aggregate; of Bulyan, it moves by the share, on average, where one update moves."""
    text = Scenario.parse(SCENARIO, "robust", [f"training.aggregate={RULES[name]}"])
    deltas, weights = drawn(7), np.ones(11)
    root = deltas[:9].mean(axis=0)
    rule = Bound(text.training.aggregate, beside(np.zeros(4, np.float32), root))
    shares = rule.shares(deltas, weights)
    if name != "bulyan":
        assert np.allclose(shares.astype(np.float32) @ deltas, rule.combine(deltas, weights, 11.0), atol=1e-5)
    else:
        moved = [
            rule.combine(deltas + 1e-4 * (np.arange(11) == i)[:, None].astype(np.float32), weights, 11.0)
            for i in range(11)
        ]
        slopes = [float(((each - rule.combine(deltas, weights, 11.0)) / 1e-4).mean()) for each in moved]
        assert np.allclose(shares, slopes, atol=0.02)
    assert (shares >= 0).all() and shares.sum() <= 1 + 1e-6 or name == "fltrust"


def test_buckets_by_clients_are_units():
    """Of clients 0 .. 8 without 4, and one without weight, in units of three: a rule of three means."""
    deltas, clients = drawn(3, 8), [0, 1, 2, 3, 5, 6, 7, 8]
    weights = np.array([1, 1, 1, 1, 1, 0, 1, 1.0])
    rule = AGGREGATES["bucketed"](rule=AGGREGATES.of("median"), size=3, by="clients")
    rule = Bound(rule, beside(deltas[0], deltas[0], clients=clients))
    means = [deltas[:3].mean(axis=0), deltas[3:5].mean(axis=0), deltas[6:].mean(axis=0)]
    assert np.allclose(rule.combine(deltas, weights, 7.0), np.median(means, axis=0), atol=1e-6)
    assert rule.shares(deltas, weights) is None
    krum = AGGREGATES["bucketed"](rule=AGGREGATES["krum"](f=0), size=3, by="clients")
    shares = Bound(krum, beside(deltas[0], deltas[0], clients=clients)).shares(deltas, weights)
    assert shares.sum() == pytest.approx(1) and len(set(np.flatnonzero(shares) // 3)) == 1


def test_drawn_buckets_are_a_partition_of_the_updates():
    """Each update is in one bucket: the mean of equal buckets is the mean, and other rounds draw others."""
    deltas, rules = drawn(4, 12), []
    mean = AGGREGATES["bucketed"](rule=AGGREGATES.of("mean"), size=3)
    krum = AGGREGATES["bucketed"](rule=AGGREGATES["krum"](f=0), size=3)
    server = beside(deltas[0], deltas[0], clients=range(12))
    assert np.allclose(Bound(mean, server).combine(deltas, np.ones(12), 12.0), deltas.mean(axis=0), atol=1e-6)
    for seed in range(6):
        server = beside(deltas[0], deltas[0], clients=range(12), seed=seed)
        rules.append(tuple(np.flatnonzero(Bound(krum, server).shares(deltas, np.ones(12)))))
    assert {len(each) for each in rules} == {3} and len(set(rules)) > 1


@pytest.mark.parametrize("name", RULES)
def test_far_updates_are_not_believed(name, tmp_path):
    """Two of eleven send large noise: each rule gives them less than their number, and stays near the honest run."""
    noise = 'agents.client={name: mixed, groups: [{agent: {name: gaussian_noise, std: 20}, clients: "0-1"}]}'
    accuracy = {}
    for who, aggregate in (("mean", "mean"), (name, RULES[name])):
        path = run(Scenario.parse(SCENARIO, "robust", [noise, f"training.aggregate={aggregate}"]), tmp_path / who).path
        with open(path / "rounds.csv", newline="") as lines:
            rows = list(csv.DictReader(lines))
        accuracy[who] = float(rows[-1]["test_accuracy"])
        assert {row["attackers"] for row in rows} == {"2"} and {row["attack_success"] for row in rows} == {""}
        shares = [float(row["attacker_share"]) for row in rows]
        assert max(shares) < 0.15 if who != "mean" else np.allclose(shares, 2 / 11)
    assert accuracy[name] >= accuracy["mean"]


@pytest.mark.parametrize("name", ["centred_clipping", "fltrust", "bulyan", "bucketed"])
@pytest.mark.parametrize(
    "more",
    [
        [],
        ["training={name: fedbuff, buffer: 11, concurrency: 11, rounds: 4, batch_size: 16, weighting: equal}"],
        ["topology={name: tree, edges: 1}", "metrics=[]"],
    ],
    ids=["rounds", "buffer", "tree"],
)
def test_a_killed_run_goes_on_with_the_same_bytes(name, more, tmp_path):
    scenario = Scenario.parse(SCENARIO, "robust", [*more, f"training.aggregate={BUCKETS.get(name) or RULES[name]}"])
    whole = run(scenario, tmp_path / "whole").path
    with open(whole / "rounds.csv", newline="") as lines:
        time_s = 0.6 * float(list(csv.DictReader(lines))[-1]["time_s"])
    assert killed_at_time(time_s, lambda: run(scenario, tmp_path / "killed"))
    assert files(run(scenario, tmp_path / "killed").path) == files(whole)


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("{name: krum, f: 5}", [], "takes sums of 13 updates or more, and they have 11; the nearest valid value is 4"),
        (
            "{name: bulyan, f: 3}",
            [],
            "takes sums of 15 updates or more, and they have 11; the nearest valid value is 2",
        ),
        ("{name: bucketed, rule: {name: krum, f: 2}, size: 4}", [], "7 buckets or more of 11 updates; .* value is 1"),
        ("{name: krum, f: 2}", ["secagg=secagg"], "needs single updates, which secagg hides"),
        ("{name: krum, f: 2}", ["secagg=ideal"], "needs single updates, which ideal hides"),
        ("fltrust", ["learning={name: none, parameters: 10}"], "nothing is learned"),
        ("fltrust", ["training=gossip", "topology={name: gossip, graph: ring}"], "every client has its own"),
        ("{name: centred_clipping, radius: 1}", ["compression={name: random_k, share: 0.5}"], "compares whole updates"),
        ("{name: krum, f: 2}", ["training.weighting=samples"], "counts every client once"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(name, more, words):
    with pytest.raises(InvalidScenario, match=words):
        Scenario.parse(SCENARIO, "robust", [*more, f"training.aggregate={name}"])
