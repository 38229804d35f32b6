"""Noise in equal parts protects updates that count the same; others are refused, and never certified."""

from dataclasses import dataclass
from math import inf

import numpy as np
import pytest

from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.papers.privacyfl.output_perturbation import OutputPerturbation
from simfl.privacy.stage import STAGES, Members
from simfl.scenario import InvalidScenario, Scenario
from simfl.training.fedbuff import FedBuff
from simfl.training.sgd_rule import Stop
from simfl.training.staleness import STALENESS, ConstantStaleness, HingeStaleness, PolynomialStaleness, UniformStaleness
from tests.support.privacy_losses import own_loss

BASE = """
clients: 40
selection: {name: random, k: 4}
learning: {data: digits, model: logistic, partition: iid}
training: {name: fedbuff, rounds: 30, buffer: 4, concurrency: 36, weighting: equal}
"""
STAGES_OF_EQUAL_PARTS = {
    "laplace_shares": "plain", "discrete_laplace": "basecagg", "skellam": "basecagg", "discrete_gaussian": "basecagg",
    "output_perturbation: {epsilon: 1, samples: 30}": "plain",
}  # fmt: skip


def scenario(stage, secagg, *overrides):
    name, _, fields = stage.partition(": ")
    choice = f"{{name: {name}, {fields[1:-1]}}}" if fields else f"{{name: {name}}}"
    return Scenario.parse(BASE + f"secagg: {secagg}\nprivacy: {{stages: [{choice}]}}\n", "weights", overrides)


@STALENESS("level_at_first")
@dataclass(frozen=True)
class LevelAtFirst:
    """A user's function that says nothing of itself."""

    def weight(self, staleness):
        return np.where(np.asarray(staleness) > 7, 0.01, 1.0)


@STALENESS("level_and_says_so")
@dataclass(frozen=True)
class LevelAndSaysSo:
    """A user's function that says that it is constant."""

    level_until = inf

    def weight(self, staleness):
        return np.ones(np.shape(staleness))


@pytest.mark.parametrize("staleness", ["hinge", "{name: hinge, a: 1000.0, b: 3.0}", "level_at_first", "polynomial"])
@pytest.mark.parametrize("stage, secagg", STAGES_OF_EQUAL_PARTS.items())
def test_a_weight_that_falls_at_any_age_is_refused(stage, secagg, staleness):
    with pytest.raises(InvalidScenario, match="staleness: constant"):
        scenario(stage, secagg, f"training.staleness={staleness}")


@pytest.mark.parametrize(
    "overrides",
    [
        ["training.staleness=constant"],
        ["training.staleness=level_and_says_so"],
        ["training.staleness={name: polynomial, alpha: 0}"],
        ["training.staleness={name: hinge, a: 0}"],
        ["training.staleness=hinge", "training.max_staleness=4"],
        ["training.staleness=hinge", "training.max_staleness=4", "training.too_stale=clip"],
        ["training.staleness=hinge", "training.rounds=5"],
        ["training.staleness=hinge", "training.arrivals={name: uniform_staleness, max: 4}"],
    ],
)
@pytest.mark.parametrize("stage, secagg", STAGES_OF_EQUAL_PARTS.items())
def test_weights_that_are_certainly_level_are_not(stage, secagg, overrides):
    scenario(stage, secagg, *overrides)


LEVEL = [
    ConstantStaleness(), HingeStaleness(), HingeStaleness(a=0), HingeStaleness(b=2.5), PolynomialStaleness(alpha=0),
    PolynomialStaleness(), LevelAndSaysSo(),
]  # fmt: skip


@pytest.mark.parametrize("function", LEVEL)
def test_functions_are_level_as_far_as_they_say(function):
    ages = np.arange(0, 1000)
    weights = function.weight(ages)
    assert (weights[ages <= function.level_until] == 1).all()
    assert (weights[ages > function.level_until] < 1).all()


@pytest.mark.parametrize("known, differ", [({}, True), ({"max_staleness": 5}, True), ({"max_staleness": 4}, False),
                                           ({"rounds": 6}, True), ({"rounds": 5}, False),
                                           ({"arrivals": UniformStaleness(max=4)}, False),
                                           ({"stop": Stop(client_updates=20)}, True)])  # fmt: skip
def test_what_bounds_the_age_decides_whether_it_weighs(known, differ):
    assert FedBuff(buffer=4, staleness=HingeStaleness(), **known).weighs_staleness == differ


def members(*weights):
    jobs = tuple(Job(i, i, 0, 0.0) for i in range(len(weights)))
    apart = tuple(np.arange(30) + 30 * i for i in range(len(weights)))
    return Members(10, jobs, np.array(weights), 4.0, examples=np.full(len(weights), 30), slope=1.0, positions=apart)


def epsilon(stage, summed):
    """Of one sum, or infinity where a divergence is infinite at every order."""
    loss = own_loss(stage, {name: np.array([value]) for name, value in stage.facts(summed, stage.start(65)).items()})
    return float(loss.rdp.min() if loss.rdp is not None else loss.pure[0])


@pytest.mark.parametrize("name", ["laplace_shares", "discrete_laplace", "skellam", "discrete_gaussian", "xnoise"])
def test_a_sum_whose_updates_count_differently_has_no_finite_epsilon(name):
    """Whatever a rule says of itself: the fresh update is covered by hardly more than its own part."""
    protocol = "plain" if name == "laplace_shares" else "secagg"
    stage = scenario(name, protocol, "training={name: fedavg, weighting: equal}").privacy.stages[0]
    assert epsilon(stage, members(1.0, 1.0, 1.0, 1.0)) < inf
    assert epsilon(stage, members(0.3, 0.3, 0.3, 0.1 + 0.2)) == epsilon(stage, members(1.0, 1.0, 1.0, 1.0))
    assert epsilon(stage, members(1.0, 0.0005, 0.00014, 0.00014)) == inf


@pytest.mark.parametrize("mechanism, adds", [("laplace", "share"), ("gaussian", "share"), ("gaussian", "whole")])
def test_output_perturbation_says_what_the_weights_leave(mechanism, adds):
    stage = OutputPerturbation(
        epsilon=1.0, samples=30, penalty=1.0, mechanism=mechanism, adds=adds, noise_scale="calibrated"
    )
    state, uneven = stage.start(65), members(1.0, 0.0005, 0.00014, 0.00014)
    even, half = (stage.facts(summed, state) for summed in (members(1.0, 1.0, 1.0, 1.0), members(0.5, 0.5, 0.5, 0.5)))
    assert half["epsilon_weight"] == pytest.approx(even["epsilon_weight"], rel=1e-9)
    one = stage.facts(members(1.0), state)["epsilon_weight"] if adds == "whole" else even["epsilon_weight"]
    assert stage.facts(uneven, state)["epsilon_weight"] > 0.999 * one > 0
    if adds == "share":
        assert stage.facts(uneven, state)["epsilon_weight"] > 1.5 * even["epsilon_weight"]


def test_every_stage_of_equal_parts_is_here():
    equal = {name.partition(":")[0] for name in STAGES_OF_EQUAL_PARTS} | {"xnoise"}
    own = {name: cls for name, cls in STAGES.items() if cls.__module__.startswith("simfl.")}
    assert {name for name, cls in own.items() if "sharers" in cls.__dataclass_fields__} <= equal


MEAN = "training={name: fedavg, weighting: equal}"
OF_REAL_NUMBERS = [stage for stage, secagg in STAGES_OF_EQUAL_PARTS.items() if secagg == "plain"]
"""The others stand beside protocols that refuse what is no sum."""


@pytest.mark.parametrize("aggregate", ["median", "trimmed_mean", "masked", "shrunk"])
@pytest.mark.parametrize("stage", OF_REAL_NUMBERS)
def test_equal_parts_are_refused_where_the_aggregate_is_no_sum(stage, aggregate):
    """A median is, in each coordinate, the value of one client, which its own part alone covers."""
    with pytest.raises(InvalidScenario, match="aggregate: mean"):
        scenario(stage, "plain", MEAN, f"training.aggregate={aggregate}")
    scenario(stage, "plain", MEAN)


@pytest.mark.parametrize("stage", OF_REAL_NUMBERS)
def test_parts_of_noise_are_refused_in_models_that_clients_do_not_know(stage):
    with pytest.raises(InvalidScenario, match="mix: deltas"):
        scenario(stage, "plain", "training.staleness=constant", "training.mix=models")


OUTPUT = "{name: output_perturbation, epsilon: 1, samples: 30}"


@pytest.mark.parametrize("stages, why", [
    (f"{OUTPUT}, clipping", "is made for"), (f"{OUTPUT}, central_gaussian", "is made for"),
    (f"{{name: clipping, order: 1}}, {OUTPUT}", "changes that"), (f"adaptive_gaussian, {OUTPUT}", "changes that"),
    (f"local_laplace, {OUTPUT}", "changes that"), (f"{OUTPUT}, laplace_shares", "is made for"),
])  # fmt: skip
def test_output_perturbation_is_refused_beside_stages_that_change_what_was_trained(stages, why):
    with pytest.raises(InvalidScenario, match=why):
        scenario("clipping", "plain", MEAN, f"privacy.stages=[{stages}]")


@pytest.mark.parametrize("name", [name for name in STAGES if STAGES[name].__module__.startswith("simfl.")])
def test_stages_that_contract_move_no_two_updates_apart(name):
    """And the others are refused above, or may do it: two updates on one sphere of L1, scaled to a smaller one."""
    stage, rng = STAGES.of({"name": name, **getattr(STAGES[name], "example", {})}), np.random.default_rng(0)
    if stage.certificate or any(link.stability > 1 for link in stage.links):
        return
    scenario("clipping", "plain", MEAN, f"privacy.stages=[{name}, {OUTPUT}]")
    for length in (0.1, 1.0, 10.0):
        pairs = (rng.normal(size=(200, 2, 9)) * length).astype("f4")
        pairs[:100, 1] = pairs[:100, 0] + 0.1 * pairs[:100, 1]
        for pair in pairs:
            sent = [stage.client(one[None], (Job.of(0, 0, 0, 0.0),), stage.start(9), Streams(0))[0] for one in pair]
            assert np.linalg.norm(sent[0] - sent[1]) <= np.linalg.norm(pair[0] - pair[1]) + 1e-4
    assert name in {
        "clipping",
        "central_gaussian",
        "tree_gaussian",
        "local_gaussian",
        "local_staircase",
        "output_perturbation",
    }


def test_clipping_in_l1_may_move_two_updates_apart():
    one, other = np.float32([[1.0] + [0.0] * 99]), np.float32([[1.0] + [0.01] * 99])
    sent = [STAGES.of({"name": "clipping", "order": 1}).client(x, (), {}, Streams(0)) for x in (one, other)]
    assert np.linalg.norm(sent[0] - sent[1]) > 4 * np.linalg.norm(one - other)
