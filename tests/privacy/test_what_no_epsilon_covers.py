"""What makes an epsilon that simfl prints larger than it says is refused, in one line, or makes it infinite."""

from dataclasses import dataclass

import numpy as np
import pytest

import simfl
from simfl.core.certificate_words import ENDS
from simfl.core.columns import ROUND_COLUMNS
from simfl.core.errors import SimflError
from simfl.core.registration.family_index import FAMILIES
from simfl.privacy.dp.mechanisms import gaussian
from simfl.scenario.column_owners import plugin_columns, with_bases
from simfl.training.fedavg import FedAvg

OBLIVIOUS = {
    "clients": 5, "selection": "all", "secagg": {"name": "oblivious", "epsilon": 1.0, "samples": 50},
    "training": {"name": "fedavg", "rounds": 2, "weighting": "equal", "weight_decay": 1.0, "learning_rate": 0.001},
    "learning": {"data": "digits", "model": "logistic"},
}  # fmt: skip
SHARES = OBLIVIOUS | {
    "secagg": "secagg", "privacy": {"stages": [{"name": "output_perturbation", "epsilon": 1.0, "samples": 50}]},
}  # fmt: skip
POISSON = OBLIVIOUS | {
    "secagg": "plain", "selection": {"name": "bernoulli", "k": 2},
    "training": OBLIVIOUS["training"] | {"denominator": 2.0, "deadline_s": 3.0},
    "network": {"name": "star", "latency_s": 0.1},
    "privacy": {"stages": ["central_gaussian"], "accountants": [{"name": "pld", "amplification": "poisson"}]},
}  # fmt: skip


def refused(scenario, why, **changes):
    with pytest.raises(SimflError, match=why) as raised:
        simfl.load(scenario | changes)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("order", [1, 2])
def test_noise_of_a_protocol_is_for_what_clients_train_not_for_what_a_stage_makes_of_it(order):
    """A clip in L1 may move two updates further apart in L2 than they were."""
    clip = {"stages": [{"name": "clipping", "norm": 0.01, "order": order}]}
    if order == 1:
        refused(
            OBLIVIOUS, "is of what clients train, which privacy.stages: clipping may move further apart", privacy=clip
        )
    else:
        simfl.load(OBLIVIOUS | {"privacy": clip})


@pytest.mark.parametrize("name", ["power_of_choice", "oort"])
def test_what_is_public_for_sums_is_not_public_for_one_sample(name):
    told = {"name": name, "k": 3, "scalars": "clear"} | ({"d": 4} if name == "power_of_choice" else {})
    for scenario in (OBLIVIOUS, SHARES):
        refused(scenario, "reads the loss of the model on its samples, which epsilon_", selection=told)


@pytest.mark.parametrize(("adds", "changes"), [
    ("share", {"devices": {"failure": 0.1}}),
    ("share", {"training": OBLIVIOUS["training"] | {"deadline_s": 3.0}, "network": {"name": "star", "latency_s": 0.1}}),
])  # fmt: skip
def test_no_client_knows_how_many_others_will_have_come(adds, changes):
    refused(SHARES, "no client can know how many others will have come", **changes)
    stages = [{"name": "output_perturbation", "epsilon": 1.0, "samples": 50, "adds": "whole"}]
    simfl.load(SHARES | changes | {"privacy": {"stages": stages}})
    simfl.load(SHARES)


@pytest.fixture
def registered():
    taken = []

    def register(family, name, cls):
        FAMILIES[family](name)(cls)
        taken.append((family, name))

    yield register
    for family, name in taken:
        FAMILIES[family]._plugins.pop(name)


def test_amplification_needs_clients_that_do_not_slow_each_other_down(registered):
    from dataclasses import dataclass

    from simfl.devices.computation import ConstantTime

    @dataclass(frozen=True)
    class Crowd(ConstantTime):
        """A machine for all."""

        def build(self, setting, streams):
            return super().build(setting, streams)

    simfl.load(POISSON | {"devices": {"computation": 1.0}})
    registered("computation", "crowd", Crowd)
    refused(POISSON, "jobs may take longer as others work", devices={"computation": "crowd"})


def test_amplification_needs_weights_that_follow_nobody_else(registered):
    from dataclasses import dataclass

    from simfl.plugins.training import FedAvg

    @dataclass(frozen=True, kw_only=True)
    class Confident(FedAvg):
        """The more come, the more each one counts."""

        def weights(self, examples, staleness):
            return super().weights(examples, staleness) * len(examples) / 4

    registered("training", "confident", Confident)
    rule = POISSON["training"] | {"name": "confident"}
    refused(POISSON, "has weights of its own, which may follow who takes part", training=rule)


def test_no_number_of_updates_says_how_many_aggregations_there_are():
    """An update that is in no sum is not counted, so that there may be more of them."""
    rule = {"name": "fedbuff", "buffer": 4, "stop": {"client_updates": 8}, "weighting": "equal"}
    assert simfl.load(OBLIVIOUS | {"secagg": "ideal", "training": rule}).training.most_rounds is None
    assert simfl.load(OBLIVIOUS | {"secagg": "ideal", "training": rule | {"rounds": 3}}).training.most_rounds == 3


def test_a_run_that_stops_where_it_likes_tells_more_than_its_rounds_allow():
    """What the words are for, by simulation: Gaussian losses of mu = 1/2, stopped where one is 1 above the epsilon of
    the rounds so far; a delta of 0.001 is said, and 0.004 is true.
    """
    rng, delta, mu, runs = np.random.default_rng(0), 1e-3, 0.5, 100_000
    loss, true, running = np.zeros(runs), np.zeros(runs), np.ones(runs, dtype=bool)
    for t in range(1, 61):
        epsilon = float(gaussian.epsilon(mu * np.sqrt(t), delta))
        loss += mu * rng.standard_normal(runs) + mu**2 / 2
        over = running & ((loss > epsilon + 1) | (t == 60))
        true[over] = np.maximum(0, 1 - np.exp(epsilon - loss[over]))
        running &= ~over
    assert true.mean() > 3 * delta


STOPS = {
    "a target": ({"stop": {"target_accuracy": 0.9}}, True), "patience": ({"stop": {"patience": 3}}, True),
    "rounds": ({}, False), "time": ({"stop": {"time_s": 100.0}}, False),
    "a rule of its own": ({"name": "ends_so"}, True),
}  # fmt: skip


@pytest.mark.parametrize("case", STOPS)
def test_epsilons_say_that_no_model_decides_when_the_run_ends(case, registered):
    """Rules that end otherwise may look at models, too; guarantees of sums hold whenever a run ends."""

    @dataclass(frozen=True, kw_only=True)
    class EndsSo(FedAvg):
        """Its own end."""

        def ends(self, progress):
            return progress.accuracy is not None

    registered("training", "ends_so", EndsSo)
    training, says = STOPS[case]
    scenario = simfl.load(POISSON | {
        "training": OBLIVIOUS["training"] | training,
        "learning": OBLIVIOUS["learning"] | {"evaluate": {"every": 1, "validation": 0.2}},
        "privacy": {"stages": ["central_gaussian"], "accountants": ["zero_out", "rdp", "pld"]},
    })  # fmt: skip
    columns = with_bases(scenario, (*ROUND_COLUMNS, *plugin_columns(scenario)))
    epsilons = [column for column in columns if column.name.startswith("epsilon")]
    assert len(epsilons) == 4
    assert all((ENDS in column.assumes) == says for column in epsilons)
    assert not any(ENDS in column.assumes for column in columns if column not in epsilons)
