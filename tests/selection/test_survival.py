"""Expected cardinality with failures, against every availability and failure of small scenarios; then simulated."""

from itertools import product

import numpy as np
import pytest

from simfl.api.result_objects import Result
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.selection.theory import families
from simfl.selection.theory.expected_cardinality import theory

LOSSES = ("drop_unit", "abort", "partial")


def brute(rows, unit, present, survive, on_failure):
    """Rows equally likely among the available ones; every availability and every failure, one by one."""
    n, total = len(present), 0.0
    for here in product((0, 1), repeat=n):
        weight = np.prod([p if h else 1 - p for p, h in zip(present, here, strict=True)])
        usable = [row for row in rows if all(here[c] for c in row)]
        for row in usable:
            for alive in product((0, 1), repeat=len(row)):
                chance = np.prod([survive[c] if a else 1 - survive[c] for c, a in zip(row, alive, strict=True)])
                if on_failure == "partial":
                    kept = sum(alive)
                elif on_failure == "abort":
                    kept = len(row) * all(alive)
                else:
                    kept = sum(unit * all(alive[i : i + unit]) for i in range(0, len(row), unit))
                total += weight * chance * kept / len(usable)
    return total


@pytest.mark.parametrize("on_failure", LOSSES)
@pytest.mark.parametrize(
    ("n", "k", "unit"), [(5, 2, 1), (6, 3, 1), (6, 4, 2), (6, 2, 2), (6, 3, 3), (6, 6, 2), (4, 4, 1)]
)
def test_disjoint_units_of_uniform_policies(n, k, unit, on_failure):
    rng = np.random.default_rng(n + 10 * k + 100 * unit)
    family = families.DisjointUnits(n, k, unit)
    present, survive = rng.random(n), rng.random(n)
    rows = [row.tolist() for row in family.rows()]
    expected = brute(rows, unit, present, survive, on_failure)
    assert family.aggregated_cardinality(present, survive, on_failure, True) == pytest.approx(expected, rel=1e-10)
    told = family.aggregated_cardinality(
        present, survive, on_failure, False
    )  # who looks at the past changes who is selected
    assert told == pytest.approx(expected) if k == n else told is None
    equal = np.full(n, survive[0])
    expected = brute(rows, unit, present, equal, on_failure)
    assert family.aggregated_cardinality(present, equal, on_failure, False) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("on_failure", LOSSES)
def test_neighbouring_pairs_that_fail_equally_often(on_failure):
    family = families.NeighbourPairs(6, 4, 2)
    present, survive = np.array([0.3, 0.9, 0.8, 0.5, 1.0, 0.7]), np.full(6, 0.8)
    rows = [row.tolist() for row in family.rows()]
    expected = brute(rows, 2, present, survive, on_failure)
    assert family.aggregated_cardinality(present, survive, on_failure, False) == pytest.approx(expected, rel=1e-10)
    assert family.aggregated_cardinality(present, np.linspace(0.5, 1, 6), on_failure, True) is None


@pytest.mark.parametrize("on_failure", LOSSES)
@pytest.mark.parametrize("certain", [False, True])
def test_clients_selected_one_by_one(on_failure, certain):
    rng = np.random.default_rng(3)
    present, survive, coin = rng.random(5), rng.random(5), 0.4
    if certain:
        present[:2], survive[:2] = 1, (0, 1)  # one that is always there and always fails
    for family, taken in ((families.AllAvailable(5), present), (families.Coins(5, 2, coin), present * coin)):
        total = 0.0
        for states in product((0, 1, 2), repeat=5):  # not selected, failed, aggregated
            chance = np.prod([[1 - t, t * (1 - s), t * s][x] for x, t, s in zip(states, taken, survive, strict=True)])
            lost = on_failure == "abort" and 1 in states
            total += chance * (0 if lost else states.count(2))
        assert family.aggregated_cardinality(present, survive, on_failure, False) == pytest.approx(
            total, rel=1e-10, abs=1e-300
        )


def test_many_units_of_different_rates_are_not_known():
    survive = np.linspace(0.5, 1, 4000)
    assert families.DisjointUnits(4000, 8).aggregated_cardinality(np.ones(4000), survive, "abort", True) is None


SCENARIO = """
clients: 12
seed: 3
devices:
  availability: {name: bernoulli, dropout: 0.3}
  computation: 1
  failure: {name: bernoulli, probability: 0.02}
selection: {name: random, k: 8}
training: {name: fedavg, rounds: 300}
learning: none
privacy: none
"""


def scenario(*overrides):
    return Scenario.parse(SCENARIO, "failing", list(overrides))


def test_the_figures_that_were_off():
    """8 random clients of always enough, and whole batches of four: 8 * 0.98 and 7.673 * 0.98^4."""
    always = "devices.availability=always"
    assert theory(scenario(always))["expected_cardinality"] == pytest.approx(7.84)
    batch = theory(scenario("clients=40", "selection=batch_partition:T=4", "devices.availability.dropout=0.2"))
    assert batch["expected_cardinality"] == pytest.approx(batch["expected_selected"] * 0.98**4)
    assert round(7.673 * 0.98**4, 2) == 7.08
    reliable = theory(scenario("devices.failure=none"))
    assert reliable["expected_cardinality"] == pytest.approx(reliable["expected_selected"])


def test_theory_says_what_it_left_out():
    assert theory(scenario())["left_out"] == []
    assert theory(scenario("training.deadline_s=3"))["left_out"] == ["training.deadline_s"]
    for learning, poor in (
        ("none:samples=0", True),
        ("{data: digits, model: logistic}", False),
        ("{data: digits, model: logistic, partition: {name: dirichlet, beta: 0.1}}", False),
        ("{data: digits, model: logistic, partition: {name: dirichlet, beta: 0.1, over: clients}}", True),
        (
            "{data: digits, model: logistic, partition: {name: dirichlet, beta: 9, over: clients, min_samples: 1}}",
            False,
        ),
        ("{data: digits, model: logistic, partition: quantity}", True),
    ):
        found = theory(scenario(f"learning={learning}"))["left_out"]
        assert found == ["learning (clients without samples)"] * poor, learning
    known = theory(scenario("training=fedbuff"))
    assert known["expected_cardinality"] is None and known["expected_selected"] > 0
    weighted = theory(scenario("selection=weighted", "devices.failure.probability={choices: [0, 0.5]}"))
    assert weighted["expected_cardinality"] is None and weighted["expected_selected"] > 0


@pytest.mark.parametrize("rates", ["0.1", "{choices: [0, 0.1, 0.4]}"])
@pytest.mark.parametrize("on_failure", LOSSES)
@pytest.mark.parametrize(
    ("policy", "looks_back"),
    [("{name: all}", False), ("{name: random, k: 4}", False), ("{name: bernoulli, k: 4}", False),
     ("{name: weighted, k: 4}", True), ("{name: partition, k: 4}", True),
     ("{name: partition, k: 4, mode: uniform, shuffle: true}", False), ("{name: batch_partition, k: 4, T: 2}", False),
     ("{name: half_partition, k: 4, T: 2}", True)],
)  # fmt: skip
def test_simulated_cardinalities_agree(tmp_path, policy, looks_back, on_failure, rates):
    chosen = scenario(
        f"selection={policy}", f"training.on_failure={on_failure}", f"devices.failure.probability={rates}"
    )
    expected = theory(chosen)["expected_cardinality"]
    assert (expected is None) == (looks_back and "choices" in rates)
    if expected is None:
        return
    result = Result.open(run(chosen, tmp_path).path)
    cardinality = result.rounds.cardinality.to_numpy()
    assert result.summary["expected_cardinality"] == expected
    assert abs(cardinality.mean() - expected) <= 4 * cardinality.std() / np.sqrt(len(cardinality)) + 1e-12
