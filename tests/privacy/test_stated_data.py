"""Keys that say how much data there are set a scale of noise; what it protects follows from the run's own data."""

import json
from math import sqrt

import numpy as np
import pytest

from simfl.privacy.accountant import ACCOUNTANTS
from simfl.privacy.stage import STAGES
from simfl.runs.run import build, run
from simfl.scenario import Scenario
from simfl.secagg.base import PROTOCOLS
from tests.support.judge import table

CERTIFIED = [(family, name) for family, registry in (("stage", STAGES), ("secagg", PROTOCOLS))
             for name, cls in registry.items() if cls.__module__.startswith("simfl.")
             and registry.of({"name": name, **getattr(cls, "example", {})}).certificate]  # fmt: skip
BASE = {
    "name": "stated", "clients": 6, "seed": 1, "selection": "all",
    "training": {"name": "fedavg", "rounds": 2, "weighting": "equal", "weight_decay": 1.0, "learning_rate": 0.01},
    "learning": {"data": "digits", "model": "logistic", "evaluate": {"every": 0}},
}  # fmt: skip


def cells(found, tmp_path):
    """The certificate of each round, infinite where the cell is empty, and the folder."""
    folder = run(found, tmp_path).path
    rows = table(folder / "rounds.csv")
    return [
        float(row[name] or "inf") for row in rows for name in ("epsilon_model", "epsilon_weight") if name in row
    ], folder


def scenario(family, name, keys, **more):
    chosen = {"name": name, "epsilon": 1.0, "noise_scale": "calibrated", **keys}
    place = {"secagg": chosen} if family == "secagg" else {"privacy": {"stages": [chosen | {"adds": "whole"}]}}
    return Scenario.parse(json.dumps(BASE | place | more))


@pytest.mark.parametrize("family, name", CERTIFIED)
def test_the_same_noise_has_the_same_epsilon_whatever_data_it_is_said_to_be_for(family, name, tmp_path):
    """Noise is of scale 2 radius / (samples alpha epsilon); one sample moves a model as far as SGD's steps allow."""
    told = ({"samples": 100, "radius": 1.0}, {"samples": 100_000, "radius": 1000.0},
            {"samples": 100, "radius": 1e-3, "alpha": 1e-3})  # fmt: skip
    found = [cells(scenario(family, name, keys), tmp_path / str(i)) for i, keys in enumerate(told)]
    for other, _ in found[1:]:
        assert other == pytest.approx(found[0][0], rel=1e-4)
    folder = found[0][1]
    data = build(scenario(family, name, told[0])).learner.data
    longest = np.linalg.norm(data.x_train.reshape(len(data.x_train), -1).astype(float), axis=1).max()
    most = 0.0
    for held in (int(row["samples"]) for row in table(folder / "clients.csv")):
        last = held - range(0, held, 32)[-1]  # the batch in which the sample does most: no step comes after it
        most = max(most, 2 * 0.01 * sqrt(2 * (longest**2 + 1)) / last)
    weight = most / (2 / 100)
    said = float(table(folder / "rounds.csv")[0]["epsilon_weight"])
    assert said == pytest.approx(weight, rel=1e-3)


UNKNOWN = {
    "nothing is learned": {"learning": {"name": "none", "parameters": 20}},
    "a rate beyond two over smoothness": {"training": BASE["training"] | {"learning_rate": 0.05}},
    "momentum": {"training": BASE["training"] | {"momentum": 0.5}},
    "clipped gradients": {"training": BASE["training"] | {"clip_norm": 1.0}},
    "layers that stay": {"training": BASE["training"] | {"personal": {"name": "private_layers", "keep": ["1.bias"]}}},
    "a model that is not convex": {"learning": BASE["learning"] | {"model": {"name": "mlp", "hidden": [4]}}},
}


@pytest.mark.parametrize("why", UNKNOWN)
@pytest.mark.parametrize("family, name", CERTIFIED)
def test_an_epsilon_of_data_that_are_not_known_is_infinite(family, name, why, tmp_path):
    made = scenario(family, name, {"samples": 10**6}, **UNKNOWN[why])
    found, _ = cells(made, tmp_path)
    assert found and set(found) == {np.inf}
    assert "rate" in why or any("infinite" in text for text in made.cautions())


def test_a_rate_of_sampling_that_no_policy_states_is_refused():
    """Accountants claim the probability that the policy draws with, never one that the scenario makes up."""
    for name, cls in ACCOUNTANTS.items():
        if "rate" not in cls.__dataclass_fields__:
            continue
        accountant = ACCOUNTANTS.of({"name": name, "amplification": "poisson", "rate": 0.001})
        made = Scenario.parse(json.dumps(BASE | {"privacy": {"stages": ["central_gaussian"]}}))
        assert any(key == "rate" and "does not say" in why for key, why in accountant.check(made))
