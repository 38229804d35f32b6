"""Staleness functions, presets and what is refused before a run begins."""

from itertools import combinations

import numpy as np
import pytest

from simfl.scenario import Scenario
from simfl.scenario.yaml.places import InvalidScenario
from simfl.selection.base import POLICIES
from simfl.training.base import RULES
from simfl.training.fedbuff import FedBuff
from simfl.training.staleness import STALENESS, ConstantStaleness, HingeStaleness, PolynomialStaleness

TEXT = """
clients: 120
selection: {name: batch_partition, k: 12, T: 3}
training: {name: fedbuff, concurrency: 30, buffer: 12, rounds: 10}
learning: none
"""


def problems(*overrides):
    with pytest.raises(InvalidScenario) as caught:
        Scenario.parse(TEXT, "s.yaml", overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    "function, values",
    [
        (ConstantStaleness(), [1, 1, 1, 1, 1, 1]),
        (PolynomialStaleness(1.0), [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 6]),
        (PolynomialStaleness(0.0), [1, 1, 1, 1, 1, 1]),
        (PolynomialStaleness(0.5), [1, 2**-0.5, 3**-0.5, 0.5, 5**-0.5, 6**-0.5]),
        (HingeStaleness(a=10, b=4), [1, 1, 1, 1, 1, 1 / 11]),
        (HingeStaleness(a=0.5, b=1), [1, 1, 1 / 1.5, 1 / 2, 1 / 2.5, 1 / 3]),
    ],
)
def test_values_of_the_staleness_functions(function, values):
    np.testing.assert_allclose(function.weight(np.arange(6)), values, rtol=1e-15)


@pytest.mark.parametrize("name", STALENESS)
def test_every_staleness_function_starts_at_one_and_never_rises(name):
    weights = STALENESS[name]().weight(np.arange(1000))
    assert weights[0] == 1 and (np.diff(weights) <= 0).all() and (weights > 0).all() and weights.dtype == np.float64


@pytest.mark.parametrize("normaliser, divisor", [("count", 12.0), ("weight_sum", 5 + 2.5 + 0.5), ("none", 1.0)])
def test_weights_and_what_their_sum_is_divided_by(normaliser, divisor):
    rule = FedBuff(concurrency=1, rounds=1, normaliser=normaliser, staleness=PolynomialStaleness(1.0))
    examples, staleness = np.array([5, 5, 2]), np.array([0, 1, 3])
    assert rule.row(staleness).tolist() == [1, 0.5, 0.25]
    assert rule.weights(examples, staleness).tolist() == [5, 2.5, 0.5]
    assert rule.divisor(rule.weights(examples, staleness), examples) == divisor


def test_the_presets_are_fedbuff_with_the_choices_their_names_stand_for():
    presets = {name: RULES[name](concurrency=5, rounds=1) for name in ("fedbuff_paper", "fedasync", "flsim")}
    chosen = {name: (rule.weighting, rule.normaliser, rule.mix, rule.staleness) for name, rule in presets.items()}
    assert chosen == {
        "fedbuff_paper": ("equal", "count", "deltas", PolynomialStaleness(0.5)),
        "fedasync": ("equal", "count", "models", PolynomialStaleness(0.5)),
        "flsim": ("equal", "none", "deltas", ConstantStaleness()),
    }
    assert presets["fedasync"].buffer == 1 and presets["fedasync"].server_learning_rate == 0.6
    assert presets["flsim"].reference_staleness == 1


def test_a_preset_does_not_do_what_its_name_denies():
    assert "training.normaliser" in problems("training.name=fedbuff_paper", "training.normaliser=weight_sum")
    assert "training.buffer" in problems("selection=random:k=1", "training.name=fedasync", "training.buffer=2")
    assert "training.mix" in problems("training.name=flsim", "training.mix=models")


@pytest.mark.parametrize(
    "overrides, key, values",
    [
        (["training.buffer=10"], "training.buffer", ["9 and 12"]),
        (["training.buffer=2"], "training.buffer", ["unit of 3", "valid are 3"]),
        (["training.buffer=121"], "training.buffer", ["120 clients", "is 120"]),
        (["training.concurrency=2"], "training.concurrency", ["unit of 3", "is 3"]),
        (["training.concurrency=121"], "training.concurrency", ["120 clients", "is 120"]),
        (["selection=partition:k=12", "training.concurrency=11"], "training.concurrency", ["unit of 12", "is 12"]),
        (["selection=partition:k=24"], "training.buffer", ["unit of 24", "valid are 24"]),
        (["selection=half_partition:k=12,T=12", "training.buffer=96"], "training.buffer", ["only 84"]),
        (["training.rounds=null"], "training.rounds", ["client_updates", "time_s", "target_accuracy"]),
        (["training.stop.target_accuracy=0.9"], "training.stop.target_accuracy", ["learning.evaluate.every"]),
        (
            ["training.rounds=null", "training.stop.target_accuracy=0.9"],
            "training.rounds",
            ["target_accuracy", "never"],
        ),
        (["training.stop.accuracy=0.9"], "training.stop.accuracy", ["target_accuracy"]),
        (["training.client=scaffold"], "training.client", ["plain or fedprox"]),
        (
            ["training.aggregate=median", "training.weighting=equal", "training.staleness=polynomial"],
            "training.staleness",
            ["median", "constant"],
        ),
        (["training.staleness=polynomal"], "training.staleness", ["polynomial"]),
        (["training.concurency=2"], "training.concurency", ["concurrency"]),
    ],
)
def test_impossible_settings_are_refused_with_values_that_would_do(overrides, key, values):
    message = problems(*overrides)
    assert f"{key}:" in message and all(value in message for value in values), message


@pytest.mark.parametrize("halves", [4, 5, 6, 7, 8, 9, 10, 11])
def test_units_of_half_batches_that_can_be_found_however_badly_the_others_lie(halves):
    """The smallest set of disjoint neighbouring pairs on a circle to which no pair can be added, by trying them all."""
    pairs = [{h, (h + 1) % halves} for h in range(halves)]
    sets = (some for size in range(halves) for some in combinations(pairs, size))
    least = next(
        len(some)
        for some in sets
        if len(taken := set().union(*some)) == 2 * len(some) and not any(pair.isdisjoint(taken) for pair in pairs)
    )
    assert POLICIES["half_partition"](k=4, T=4).disjoint_units(2 * halves) == least


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["training.buffer=10", "training.partial=true"],
        ["training.concurrency=3", "training.buffer=3"],
        ["training.concurrency=null", "training.arrivals=uniform_staleness:max=3"],
        ["training.rounds=null", "training.stop.time_s=10"],
        ["training.staleness=hinge:a=2,b=3"],
        ["selection=half_partition:k=12,T=12", "training.buffer=84"],
    ],
)
def test_what_works_is_accepted_and_comes_back_from_its_own_yaml(overrides):
    scenario = Scenario.parse(TEXT, "s.yaml", overrides)
    again = Scenario.parse(scenario.to_yaml(), "s.yaml")
    assert again.training == scenario.training and again.digest == scenario.digest


def test_buffer_and_concurrency_are_the_cohort_unless_given():
    rule = Scenario.parse(
        "{clients: 40, selection: {name: batch_partition, k: 8, T: 4}, training: {name: fedbuff, rounds: 3}, "
        "learning: none}"
    ).training
    assert (rule.concurrency, rule.buffer) == (8, 8)
