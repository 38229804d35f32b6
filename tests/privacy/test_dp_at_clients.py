"""Noise that clients add is refused where what is summed depends on a model that they do not know."""

from dataclasses import dataclass

import numpy as np
import pytest

from simfl.privacy.certify.maps import Noise
from simfl.privacy.stage import STAGES, Stage
from simfl.scenario import InvalidScenario, Scenario
from simfl.training.base import RULES
from simfl.training.fedbuff import FedBuff

BASE = """
clients: 10
selection: {name: random, k: 4}
learning: {data: digits, model: logistic, partition: iid}
"""
AT_CLIENTS = [name for name, cls in STAGES.items() if cls.adds_noise and cls.adds_noise.where == "client"]
PARTS = [name for name, cls in STAGES.items() if "sharers" in cls.__dataclass_fields__]
MODELS = [
    "fedasync, rounds: 3, staleness: constant",
    "fedbuff, rounds: 3, mix: models, weighting: equal",
    "blends, rounds: 3, weighting: equal",
    "says_so, rounds: 3, weighting: equal",
]


@RULES("blends")
@dataclass(frozen=True, kw_only=True)
class Blends(FedBuff):
    """A rule that says nothing of it."""

    sends_changes = True

    def contributions(self, deltas, downloaded, model):
        return np.asarray(deltas - 0.5 * model, dtype=np.float32)


@RULES("says_so")
@dataclass(frozen=True, kw_only=True)
class SaysSo(FedBuff):
    """A rule that says it, although one trial shows nothing."""

    sends_changes = False


@STAGES("own_noise")
@dataclass(frozen=True)
class OwnNoise(Stage):
    """A user's stage, without a check."""

    adds_noise = Noise("client")


def scenario(stage, training):
    protocol = "basecagg" if STAGES[stage].whole else "plain"
    text = f"training: {{name: {training}}}\nsecagg: {protocol}\nprivacy: {{stages: [{{name: {stage}}}]}}\n"
    return Scenario.parse(BASE + text, "at-clients")


@pytest.mark.parametrize("training", MODELS)
@pytest.mark.parametrize("stage", [*AT_CLIENTS, *PARTS, "own_noise"])
def test_what_a_client_cannot_compute_it_cannot_noise(stage, training):
    with pytest.raises(InvalidScenario) as refused:
        scenario(stage, training)
    problems = [p for p in refused.value.problems if p.key == "privacy.stages.0" and "mix: deltas" in p.message]
    assert len(problems) == 1 and "before the model exists" in problems[0].message, refused.value


@pytest.mark.parametrize("training", ["fedbuff, rounds: 3, weighting: equal", "fedavg, rounds: 3, weighting: equal"])
@pytest.mark.parametrize("stage", [*AT_CLIENTS, "own_noise", "laplace_shares"])
def test_changes_since_the_download_a_client_knows(stage, training):
    scenario(stage, training)


@pytest.mark.parametrize("stage", ["central_gaussian", "tree_gaussian", "clipping"])
def test_a_trusted_server_may_clip_and_noise_what_only_it_knows(stage):
    scenario(stage, MODELS[0])
