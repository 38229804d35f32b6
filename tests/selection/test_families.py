"""Families and what follows from them: published values, enumeration, Monte-Carlo of the policies themselves."""

import json
from itertools import product
from math import comb, log10
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from simfl.cli import simfl
from simfl.clients.client_agents import Agents
from simfl.compression.base import COMPRESSIONS
from simfl.core.rng import Streams
from simfl.core.types import View
from simfl.devices.failure import NoFailure
from simfl.privacy.base import PRIVACY
from simfl.runs.run import build, run
from simfl.scenario import Scenario
from simfl.secagg.base import PROTOCOLS
from simfl.selection.base import POLICIES
from simfl.selection.theory.expected_cardinality import expected_cardinality, theory
from simfl.selection.theory.families import full_rank_probability
from simfl.training.fedavg import FedAvg
from tests.support.selection_brute import family


def of(name, n, k, t=None):
    """The family of a policy with these sizes."""
    sized = {"k": k, "T": t} if "T" in POLICIES[name].__dataclass_fields__ else {"k": k}
    return POLICIES[name](**sized).family(n)


def rows(family):
    """Every row of a small family, 0/1, shape (size, clients); rows in the order of their first units."""
    result = np.zeros((family.size(), family.clients), dtype=np.uint8)
    for row, clients in zip(result, family.rows(), strict=True):
        row[clients] = 1
    return result


STRUCTURED = ("random", "weighted", "partition", "batch_partition", "half_partition")


# -- families ------------------------------------------------------------------------------------


def test_published_sizes():
    """MR Table 1 (its 91389 is a slip for C(40, 4)) and HP's formula."""
    assert [of("batch_partition", 120, 12, t).size() for t in (12, 6, 4, 3)] == [10, 190, 4060, 91390]
    assert of("partition", 120, 12).size() == 10
    assert of("batch_partition", 120, 12, 2).size() == 50063860
    assert of("half_partition", 120, 12, 2).size() == 20 * 140364532
    assert of("random", 120, 12).size() == of("weighted", 120, 12).size() == 10542859559688820
    assert of("bernoulli", 120, 12).size() == 2**120


def test_published_rows():
    listed = "111100 110110 110011 011110 011011 111001 001111 101101 100111".split()
    assert ["".join(map(str, row)) for row in rows(of("half_partition", 6, 4, 2))] == listed
    assert ["".join(map(str, row)) for row in rows(of("batch_partition", 6, 4, 2))] == ["111100", "110011", "001111"]


@pytest.mark.parametrize("n, t", [(4, 2), (12, 4), (120, 12)])
def test_half_partitions_have_twice_the_rows_of_partitions(n, t):
    """At K = T a half partition has a row for each of its 2N/T starts and a batch partition one for each batch."""
    starts = {frozenset((start + i) % n for i in range(t)) for start in range(0, n, t // 2)}
    assert of("half_partition", n, t, t).size() == len(starts) == 2 * of("batch_partition", n, t, t).size()


@pytest.mark.parametrize("name", [*STRUCTURED, "bernoulli", "all"])
def test_rows_are_the_enumerated_family(name):
    for n, k, t in product(range(1, 13), range(1, 13), range(1, 7)):
        if k > n or (name in STRUCTURED and (n % t or k % t)) or (name == "partition" and n % k):
            continue
        if name == "half_partition" and t % 2:
            continue
        if (t > 1 and "T" not in POLICIES[name].__dataclass_fields__) or (name not in STRUCTURED and 1 < k < n):
            continue  # the same family again
        listed = rows(of(name, n, k, t))
        expected = sorted(family(name, n, k, t))
        assert listed.shape == (of(name, n, k, t).size(), n) and len(expected) == len(listed)
        assert sorted(tuple(np.flatnonzero(row).tolist()) for row in listed) == expected


def test_large_families_have_a_size():
    assert of("batch_partition", 10**6, 1000, 2).size() > 10**1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("batch_partition", 120, 12, 5), "k is 12, no multiple of T = 5"),
        (("half_partition", 120, 12, 3), "even"),
        (("partition", 120, 7, None), "units of 7"),
        (("random", 6, 7, None), "there are 6 clients"),
        (("batch_partition", 12, 4, 0), "at least 1"),
    ],
)
def test_impossible_families_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        of(*arguments)


# -- expected cardinality ------------------------------------------------------------------------


def test_published_cardinalities():
    expected = {"batch_partition": (3.621672, 1.940008), "half_partition": (3.779136, 2.458624)}
    for name, values in expected.items():
        for p, value in zip((0.1, 0.3), values, strict=True):
            assert expected_cardinality(of(name, 6, 4, 2), p) == pytest.approx(value, abs=5e-7)


def brute_cardinality(name, n, k, t, dropout):
    """Over all 2^n availability patterns."""
    patterns = np.array(list(product((0, 1), repeat=n)), bool)
    probability = np.where(patterns, 1 - dropout, dropout).prod(axis=1)
    if name == "all":
        return probability @ patterns.sum(axis=1)
    if name == "bernoulli":
        return probability @ patterns.sum(axis=1) * min(1, k / (1 - dropout).sum())
    exists = np.zeros(len(patterns), bool)
    for row in family(name, n, k, t):
        exists |= patterns[:, list(row)].all(axis=1)
    return k * probability[exists].sum()


SIZES = [("all", 7, 3, None), ("bernoulli", 7, 3, None), ("random", 9, 4, None), ("weighted", 8, 8, None)]
SIZES += [("partition", 12, 4, None), ("partition", 12, 2, None), ("partition", 6, 6, None)]
SIZES += [("batch_partition", 12, k, t) for k, t in ((4, 2), (6, 3), (6, 2), (12, 4), (5, 1))]
SIZES += [("half_partition", n, k, t) for n, k, t in ((12, 4, 2), (12, 8, 4), (10, 8, 2), (10, 10, 2), (4, 4, 4))]
SIZES += [("half_partition", 12, 6, 6), ("half_partition", 2, 2, 2), ("half_partition", 12, 2, 2)]


@pytest.mark.parametrize(("name", "n", "k", "t"), SIZES)
def test_cardinality_by_enumeration(name, n, k, t):
    rng = np.random.default_rng(n * k)
    unequal = rng.choice([0.0, 0.1, 0.2, 0.5, 0.9, 1.0], n, p=[0.1, 0.3, 0.2, 0.2, 0.1, 0.1])
    for dropout in (np.zeros(n), np.full(n, 0.3), np.full(n, 0.95), rng.random(n), unequal):
        expected = brute_cardinality(name, n, k, t, dropout)
        assert expected_cardinality(of(name, n, k, t), dropout) == pytest.approx(expected, rel=1e-10, abs=1e-300)
        if (dropout == dropout[0]).all():
            assert expected_cardinality(of(name, n, k, t), float(dropout[0])) == pytest.approx(expected, rel=1e-10)
    assert expected_cardinality(of(name, n, k, t), 1.0) == 0.0


def test_small_probabilities_keep_their_digits():
    """One group of 100 clients out of 100 groups, and one half-batch pair out of ten: far below rounding of 1."""
    assert expected_cardinality(of("partition", 10**4, 100, None), 0.5) == pytest.approx(100 * 100 * 0.5**100, rel=1e-9)
    assert expected_cardinality(of("half_partition", 100, 20, 20), 0.9) == pytest.approx(20 * 10 * 0.1**20, rel=1e-6)


def test_theorem_1():
    """The published formula, term by term."""
    for t, p in product((2, 3, 4, 6, 12), (0.1, 0.3, 0.5)):
        n, k, q = 120 // t, 12 // t, 1 - (1 - p) ** t
        loss = sum(comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(n - k + 1, n + 1))
        assert expected_cardinality(of("batch_partition", 120, 12, t), p) == pytest.approx(12 * (1 - loss), rel=1e-9)


@given(st.sampled_from([2, 4, 6, 12]), st.lists(st.floats(0, 1), min_size=24, max_size=24))
@settings(max_examples=40, deadline=None)
def test_half_partition_loses_less_than_batches(t, dropout):
    """Every batch row is also a half-partition row, and the partition's rows are also batch rows."""
    half, batch = (expected_cardinality(of(name, 24, 12, t), dropout) for name in ("half_partition", "batch_partition"))
    group = expected_cardinality(of("partition", 24, 12, None), dropout)
    assert group <= batch + 1e-9 and batch <= half + 1e-9 <= 12 + 2e-9


@pytest.mark.parametrize("name", ["random", "half_partition"])
def test_certainty_is_no_approximation(name):
    """Near certainty is told from certainty; equal and single rates are calculated in different ways and agree."""
    q = 0.5 + 1e-9 * (np.arange(1200) - 599.5)
    assert expected_cardinality(of(name, 1200, 12, 2), q) == pytest.approx(12.0, rel=1e-12)
    if name == "random":
        for k in range(440, 600, 20):
            assert expected_cardinality(of(name, 1200, k, None), q) == pytest.approx(
                k * binom.sf(k - 1, 1200, 0.5), rel=2e-9
            )
            assert expected_cardinality(of(name, 1200, k, None), 0.5) == pytest.approx(
                k * binom.sf(k - 1, 1200, 0.5), rel=1e-13
            )
    for k in (600, 400, 300, 200):
        equal = expected_cardinality(of(name, 1200, k, 2), 0.5)
        assert expected_cardinality(of(name, 1200, k, 2), q) == pytest.approx(equal, rel=1e-4, abs=1e-12)


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), [0.1] * 5, [[0.1] * 6]])
def test_bad_dropout_is_refused(bad):
    with pytest.raises(ValueError, match="dropout"):
        expected_cardinality(of("random", 6, 3, None), bad)


MONTE_CARLO = [("all", {}), ("random", {"k": 84}), ("weighted", {"k": 84}), ("bernoulli", {"k": 60})]
MONTE_CARLO += [("partition", {"k": 4}), ("partition", {"k": 12})]
MONTE_CARLO += [("batch_partition", {"k": 12, "T": t}) for t in (2, 3, 4, 6, 12)]
MONTE_CARLO += [("half_partition", {"k": 12, "T": t}) for t in (2, 4, 6, 12)]


@pytest.mark.parametrize(("name", "sizes"), MONTE_CARLO)
@pytest.mark.parametrize("rates", ["equal", "unequal"])
def test_policies_reach_the_expected_cardinality(name, sizes, rates):
    """What the policies return agrees with theory within 4 standard errors; N = 120 as in MR section 6."""
    n, rounds = 120, 1500
    rng = np.random.default_rng(len(name) + sum(sizes.values()))
    dropout = np.full(n, 0.3) if rates == "equal" else rng.choice([0.1, 0.2, 0.3, 0.4, 0.5], n)
    selection = POLICIES[name](**sizes)
    scenario = fake(selection, n, dropout)
    scenario.selection = selection = selection.resolve(scenario)
    expected = theory(scenario)["expected_cardinality"]
    participation, sizes_seen = np.zeros(n, np.int64), []
    for t in range(rounds):
        units = selection.select(View(t, rng.random(n) >= dropout, participation), selection.k, rng)
        participation[units.ravel()] += 1
        sizes_seen.append(units.size)
    error = np.std(sizes_seen) / np.sqrt(rounds)
    k = selection.k
    if name not in ("all", "bernoulli"):  # the error of a share, when it was hardly ever seen
        error = max(error, k * np.sqrt((e := expected / k) * max(1 - e, 0) / rounds), 1e-9)
    assert abs(np.mean(sizes_seen) - expected) < 4 * error


# -- bounds --------------------------------------------------------------------------------------


def test_full_rank_probability():
    s, n = 12 / 120, 120
    expected = 1 - 2 * n * (1 - s) ** n - n * (n - 1) * (s**2 + (1 - s) ** 2) ** n
    assert full_rank_probability(120, 12) == pytest.approx(expected, rel=1e-12)
    assert full_rank_probability(40, 0) == full_rank_probability(40, 40) == 0.0
    assert full_rank_probability(40, 1) == 0.0  # the formula is negative: it says nothing
    assert full_rank_probability(1000, 300) == pytest.approx(1.0)
    ranks = [np.linalg.matrix_rank(np.random.default_rng(seed).random((60, 60)) < 0.25) == 60 for seed in range(100)]
    assert np.mean(ranks) >= full_rank_probability(60, 15) - 4 * np.sqrt(0.25 / 100)
    with pytest.raises(ValueError, match="needs"):
        full_rank_probability(10, 11)


# -- theory of a scenario ------------------------------------------------------------------------


def fake(selection, clients, dropout, seed=0, independent=True):
    def build(setting, streams):
        return SimpleNamespace(dropout=None if dropout is None else np.broadcast_to(dropout, clients))

    availability = SimpleNamespace(equal_rates=np.ndim(dropout) == 0, independent=independent, build=build)
    devices = SimpleNamespace(availability=availability, failure=NoFailure())
    training, secagg = FedAvg(rounds=1), PROTOCOLS.of("ideal")
    learning = SimpleNamespace(everybody_holds_samples=True, counts_change=False, per_client=True)
    return SimpleNamespace(
        selection=selection,
        clients=clients,
        seed=seed,
        devices=devices,
        network=SimpleNamespace(loss=0.0),
        agents=Agents(),
        training=training,
        secagg=secagg,
        learning=learning,
        compression=COMPRESSIONS.of("none"),
        privacy=PRIVACY.of("multi_round"),
    )


def test_theory_of_a_scenario():
    said = theory(fake(POLICIES["half_partition"](k=8, T=4, mode="fair"), 12, 0.1))
    assert (said["policy"], said["clients"], said["k"], said["T"], said["mode"]) == ("half_partition", 12, 8, 4, "fair")
    assert said["family_size"] == 9 and said["family_size_log10"] == pytest.approx(np.log10(9))
    assert said["guarantee"] == {"strong": 2, "semi_strong": 4, "weak": 4}
    cardinality = expected_cardinality(of("half_partition", 12, 8, 4), 0.1)
    assert said["expected_cardinality"] == pytest.approx(cardinality, rel=1e-11)
    assert said["full_rank_probability"] is None

    said = theory(fake(POLICIES["bernoulli"](k=12, probability=0.125), 120, 0.2))
    assert said["expected_cardinality"] == pytest.approx(12)
    assert said["full_rank_probability"] == pytest.approx(full_rank_probability(120, 12))
    assert theory(fake(POLICIES["bernoulli"](k=2, probability=0.5), 4, [0, 0.1, 0, 0]))["full_rank_probability"] is None


@pytest.mark.parametrize(
    ("name", "sizes", "dropout", "strong", "weak"),
    [
        ("random", {"k": 4}, 0.1, 1, 1),
        ("random", {"k": 12}, 0.1, 12, 12),
        ("partition", {"k": 4}, 0.1, 4, 4),
        ("batch_partition", {"k": 4, "T": 2}, 0.1, 2, 2),
        ("batch_partition", {"k": 12, "T": 2}, 0.1, 12, 12),
        ("half_partition", {"k": 12, "T": 2}, 0.1, 12, 12),
        ("all", {"k": 12}, 0.1, 1, 1),
        ("all", {"k": 12}, 0.0, 12, 12),
        ("bernoulli", {"k": 12, "probability": 1.0}, 0.0, 1, 1),
    ],
)
def test_guarantee_is_what_the_whole_family_leaves(name, sizes, dropout, strong, weak):
    """Identical columns of all rows together, and with k = n the only row there is."""
    said = theory(fake(POLICIES[name](**sizes), 12, dropout))
    assert said["guarantee"] == {"strong": strong, "semi_strong": weak, "weak": weak}
    if name not in ("all", "bernoulli"):
        everything = rows(of(name, 12, sizes["k"], sizes.get("T")))
        _, classes = np.unique(everything, axis=1, return_counts=True)
        assert classes.min() == strong


LOSING = """
name: losing
clients: 8
selection: {name: batch_partition, k: 8, T: 2}
training: {name: fedavg, rounds: 20, weighting: equal}
learning: {name: none, parameters: 4}
devices:
  failure: {name: bernoulli, probability: 0.2}
  computation: {name: random, distribution: {name: half_normal, sigma: 1.0}}
"""
RELIABLE = "devices.failure=none"
JITTER = "network={name: star, latency_s: 0.05, jitter_s: {name: exponential, mean: 0.03}}"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], (2, 2, 2)),
        ([RELIABLE], (8, 8, 8)),
        (["training.on_failure=abort"], (8, 8, 8)),
        (["training.on_failure=abort", "training.quorum=0.5"], (2, 2, 2)),
        ([RELIABLE, "training.deadline_s=2"], (2, 2, 2)),
        ([RELIABLE, "training.deadline_s=2", "training.on_failure=abort"], (8, 8, 8)),
        ([RELIABLE, "training.quorum=0.5"], (2, 2, 2)),
        (["selection=all"], (1, 1, 1)),
        (["devices.failure={name: bernoulli, probability: 0, phases: {share: 0.1}}", "secagg=secagg"], (2, 2, 2)),
        ([RELIABLE, "secagg=secagg"], (8, 8, 8)),
        ([RELIABLE, "secagg=secagg:deadline_s=0.3", JITTER], (1, 1, 1)),  # what is late opens sessions that failed
        ([RELIABLE, "selection=all"], (8, 8, 8)),
        (["selection=half_partition:k=8,T=4"], (2, 4, 4)),
        ([RELIABLE, "selection=half_partition:k=8,T=4", "training.deadline_s=2"], (2, 4, 4)),
        ([RELIABLE, "training={name: fedbuff, rounds: 20, concurrency: 8, buffer: 4, weighting: equal}"], (2, 2, 2)),
    ],
)
def test_what_everybody_together_promises_holds_where_nobody_is_lost(tmp_path, changes, expected):
    scenario = Scenario.parse(LOSING, overrides=changes)
    promised = theory(scenario)["guarantee"]
    assert tuple(promised.values()) == expected
    summary = run(scenario, tmp_path).summary
    notions = ("privacy_strong", "privacy_semi_strong", "privacy_weak_lower")
    assert all(summary[name] >= value for name, value in zip(notions, expected, strict=True))
    assert tuple(summary[name] for name in ("guarantee_strong", "guarantee_semi_strong", "guarantee_weak")) == expected


POOR = """
name: poor
clients: 24
selection: {name: batch_partition, k: 8, T: 2}
training: {name: fedavg, rounds: 12, weighting: equal}
learning: {name: supervised, model: logistic, data: digits, partition: {name: dirichlet, beta: 0.02, over: clients}}
"""


@pytest.mark.parametrize("policy", ["batch_partition:k=8,T=2", "half_partition:k=8,T=4", "partition:k=4"])
@pytest.mark.parametrize("training", ["{}", "{secagg: lightsecagg}", "{training.weighting: samples}"])
def test_a_unit_of_whom_one_holds_no_samples_promises_nothing(tmp_path, policy, training):
    """Such a client is in no sum; where the same partition leaves everybody a sample, the promise stands."""
    changes = [f"{key}={value}" for key, value in yaml.safe_load(training).items()]
    poor = Scenario.parse(POOR, overrides=[f"selection={policy}", *changes])
    assert theory(poor)["guarantee"] is None
    summary = run(poor, tmp_path / "poor").summary
    promised = [summary[f"guarantee_{notion}"] for notion in ("strong", "semi_strong", "weak")]
    assert promised == [None] * 3
    assert summary["privacy_strong"] == 1 or not policy.startswith("batch")  # of a unit of two the one with samples
    rich = Scenario.parse(POOR.replace("0.02", "10"), overrides=[f"selection={policy}", *changes])
    samples = build(rich).learner.samples
    assert samples.min() > 0 and theory(rich)["guarantee"] is None  # nobody has looked at the samples
    promised = theory(rich, samples)["guarantee"]
    summary = run(rich, tmp_path / "rich").summary
    for notion, column in (("strong", "strong"), ("semi_strong", "semi_strong"), ("weak", "weak_lower")):
        assert summary[f"guarantee_{notion}"] == promised[notion] <= summary[f"privacy_{column}"]


def test_the_command_counts_clients_without_samples_and_names_what_least_squares_assumes(tmp_path):
    (tmp_path / "poor.yaml").write_text(POOR)
    poor = CliRunner().invoke(simfl, ["theory", str(tmp_path / "poor.yaml")])
    assert "\nwithout_samples       " in poor.stdout and "\nguarantee  " not in poor.stdout
    assert "\nrows are drawn with everybody available, holding samples and of equal weight, and nobody" in poor.stdout
    rich = CliRunner().invoke(simfl, ["theory", str(tmp_path / "poor.yaml"), "learning.partition.beta=10", "--json"])
    known = json.loads(rich.stdout)
    assert known["guarantee"] == {"strong": 2, "semi_strong": 2, "weak": 2} and "without_samples" not in known
    assert known["least_squares_assumes"].startswith("everybody available")


def test_growing_data_promise_nothing_while_somebody_may_hold_none_yet():
    growing = "learning.partition={name: growing, first: [0, 9], new: 9, versions: 3}"
    scenario = Scenario.parse(POOR, overrides=["clients=2", "selection=batch_partition:k=2,T=2", growing])
    assert theory(scenario, build(scenario).learner.samples)["guarantee"] is None


def test_theory_follows_the_shuffled_assignment():
    dropout = np.linspace(0.0, 0.9, 12)
    shuffled_ = theory(fake(POLICIES["partition"](k=4, shuffle=True), 12, dropout, seed=7))
    order = Streams(7)("assignment").permutation(12)
    expected = 4 * (1 - np.prod([1 - np.prod(1 - dropout[group]) for group in order.reshape(3, 4)]))
    assert shuffled_["expected_cardinality"] == pytest.approx(expected)
    plain = theory(fake(POLICIES["partition"](k=4), 12, dropout, seed=7))
    assert plain["expected_cardinality"] != pytest.approx(expected)


def test_theory_says_what_it_does_not_know():
    said = theory(fake(POLICIES["random"](k=4), 12, None))
    assert said["expected_cardinality"] is None and said["family_size"] == 495
    said = theory(fake(POLICIES["random"](k=4), 12, 0.1, independent=False))
    assert said["expected_cardinality"] is None
    assert theory(fake(POLICIES["all"](k=12), 12, 0.25, independent=False))["expected_cardinality"] == 9.0
    own = SimpleNamespace(name="my_policy", k=4, unit_size=2, mode=None, family=lambda clients: None,
                          guarantee=lambda clients: None, receipts=lambda clients: None)  # fmt: skip
    said = theory(fake(own, 12, 0.1))
    assert (said["policy"], said["k"], said["T"]) == ("my_policy", 4, 2)
    assert said["family_size"] is said["guarantee"] is said["expected_cardinality"] is None


@pytest.mark.parametrize("name", ["random", "batch_partition", "half_partition", "bernoulli", "partition"])
def test_theory_of_a_million_clients(name):
    sizes = {"k": 1000} | ({"T": 2} if name in ("batch_partition", "half_partition") else {})
    sizes |= {"probability": 0.001} if name == "bernoulli" else {}
    rates = np.random.default_rng(0).random(10**6)
    said = theory(fake(POLICIES[name](**sizes), 10**6, rates))
    assert json.loads(json.dumps(said)) == said
    assert (said["family_size"] is None) == (name != "partition")
    if name in ("random", "batch_partition", "half_partition"):
        assert said["expected_cardinality"] == 1000.0
    if name != "bernoulli":
        exact = log10(of(name, 10**6, 1000, sizes.get("T")).size())
        assert said["family_size_log10"] == pytest.approx(exact, rel=1e-6)
