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


def of(cls):
    """The column of a plugin that is an epsilon of its own, or nothing."""
    names = [column.name for column in getattr(cls, "columns", ()) if column.name.startswith("epsilon")]
    return names[-1] if names else ""


CERTIFIED = [(family, name) for family, registry in (("stage", STAGES), ("secagg", PROTOCOLS))
             for name, cls in registry.items() if of(cls) and cls.__module__.startswith("simfl.")]  # fmt: skip
BASE = {
    "name": "stated", "clients": 6, "seed": 1, "selection": "all",
    "training": {"name": "fedavg", "rounds": 2, "weighting": "equal", "weight_decay": 1.0, "learning_rate": 0.05},
    "learning": {"data": "digits", "model": "logistic", "evaluate": {"every": 0}},
}  # fmt: skip


def cells(found, tmp_path):
    """The certificate of each round, infinite where the cell is empty, and the folder."""
    folder = run(found, tmp_path).path
    names = [of(cls) for registry in (STAGES, PROTOCOLS) for _, cls in registry.items() if of(cls)]
    rows = table(folder / "rounds.csv")
    return [float(row[name] or "inf") for row in rows for name in names if name in row], folder


def scenario(family, name, keys, **more):
    chosen = {"name": name, "epsilon": 1.0, "noise_scale": "calibrated", **keys}
    place = {"secagg": chosen} if family == "secagg" else {"privacy": {"stages": [chosen | {"adds": "whole"}]}}
    return Scenario.parse(json.dumps(BASE | place | more))


@pytest.mark.parametrize("family, name", CERTIFIED)
def test_the_same_noise_has_the_same_epsilon_whatever_data_it_is_said_to_be_for(family, name, tmp_path):
    """Noise is of scale 2 radius / (samples alpha epsilon), and one sample moves a minimiser by 2 L / (k penalty)."""
    told = ({"samples": 100, "radius": 1.0}, {"samples": 100_000, "radius": 1000.0},
            {"samples": 100, "radius": 1e-3, "alpha": 1e-3})  # fmt: skip
    found = [cells(scenario(family, name, keys), tmp_path / str(i)) for i, keys in enumerate(told)]
    for other, _ in found[1:]:
        assert other == pytest.approx(found[0][0], rel=1e-4)
    folder = found[0][1]
    data = build(scenario(family, name, told[0])).learner.data
    longest = np.linalg.norm(data.x_train.reshape(len(data.x_train), -1).astype(float), axis=1).max()
    held = min(int(row["samples"]) for row in table(folder / "clients.csv"))
    weight = 2 * sqrt(2 * (longest**2 + 1)) / held / (2 / 100)
    said = float(table(folder / "rounds.csv")[0]["epsilon_weight"])
    assert said == pytest.approx(weight, rel=1e-3)


UNKNOWN = {
    "nothing is learned": {"learning": {"name": "none", "parameters": 20}},
    "no penalty": {"training": BASE["training"] | {"weight_decay": 0.0}},
    "a model that is not convex": {"learning": BASE["learning"] | {"model": {"name": "mlp", "hidden": [4]}}},
}


@pytest.mark.parametrize("why", UNKNOWN)
@pytest.mark.parametrize("family, name", CERTIFIED)
def test_an_epsilon_of_data_that_are_not_known_is_infinite(family, name, why, tmp_path):
    made = scenario(family, name, {"samples": 10**6}, **UNKNOWN[why])
    found, _ = cells(made, tmp_path)
    assert found and set(found) == {np.inf}
    assert any(word in text for text in made.cautions() for word in ("infinite", "of the latter"))


def test_a_rate_of_sampling_that_no_policy_states_is_refused():
    """Accountants claim the probability that the policy draws with, never one that the scenario makes up."""
    for name, cls in ACCOUNTANTS.items():
        if "rate" not in cls.__dataclass_fields__:
            continue
        accountant = ACCOUNTANTS.of({"name": name, "amplification": "poisson", "rate": 0.001})
        made = Scenario.parse(json.dumps(BASE | {"privacy": {"stages": ["central_gaussian"]}}))
        assert any(key == "rate" and "does not say" in why for key, why in accountant.check(made))
