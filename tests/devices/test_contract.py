"""What holds for every model of devices: a further client changes nobody else, state suffices to go on."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from simfl.core.errors import PluginError
from simfl.core.registration.family_index import FAMILIES, undone
from simfl.core.registration.protocol import plain
from simfl.core.rng import Address, Streams
from simfl.devices import AVAILABILITY, COMPUTATION, FAILURE
from simfl.scenario.fields import describe

DRAWN = {"name": "uniform", "low": 0.1, "high": 0.9}
EXAMPLES = {
    AVAILABILITY: {
        "always": {},
        "bernoulli": {"dropout": DRAWN},
        "markov": {"mean_on_rounds": 3, "mean_off_rounds": 2},
        "correlated": {"groups": 3, "group_dropout": DRAWN, "dropout": DRAWN},
        "daily": {"dropout": DRAWN, "rounds_a_day": 4, "zones": 3},
        "profile": {},
        "trace": {"inline": [[0, 0, 2], [2, 1, 3]], "unit": "rounds"},
    },
    COMPUTATION: {
        "constant": {"seconds": 1},
        "per_sample": {"seconds": 0.1, "speed": DRAWN},
        "profile": {},
        "trace": {"path": "measured_seconds.csv"},
        "random": {"distribution": {"name": "half_normal", "sigma": 1}, "speed": DRAWN},
    },
    FAILURE: {"none": {}, "bernoulli": {"probability": DRAWN}},
}
CASES = [(family, name) for family, names in EXAMPLES.items() for name in names]


def _scenario(clients):
    devices = SimpleNamespace(profiles="profiles.csv")
    return SimpleNamespace(clients=clients, devices=devices, file=lambda name: Path(__file__).parent / name)


def make(family, name, clients, seed=0):
    plugin, scenario = family.of({"name": name, **EXAMPLES[family][name]}), _scenario(clients)
    assert plugin.check(scenario) == []
    return plugin.build(scenario, Streams(seed))


def answers(family, name, clients, of, seed=0):
    """What the model says of clients 0 .. of-1 in five rounds, shape (rounds, of)."""
    model, some = make(family, name, clients, seed), np.arange(of)
    if family is AVAILABILITY:
        return np.array([model.draw(t, float(t))[:of] for t in range(5)])
    wheres = [Address(t, some, clients) for t in range(5)]
    if family is FAILURE:
        return np.array([model.draw(some, where) for where in wheres])
    return np.array([model.duration_s(some, np.full(of, 7), 2, where) for where in wheres])


def test_every_model_has_an_example():
    for family, names in EXAMPLES.items():
        assert set(names) == set(family)


@pytest.mark.parametrize(("family", "name"), CASES)
def test_a_further_client_changes_nobody_else(family, name):
    for clients in (3, 8, 33):
        fewer, more = (answers(family, name, n, clients) for n in (clients, clients + 1))
        assert np.array_equal(fewer, more, equal_nan=True)


@pytest.mark.parametrize(("family", "name"), CASES)
def test_the_seed_decides(family, name):
    first = answers(family, name, 40, 40)
    assert np.array_equal(first, answers(family, name, 40, 40), equal_nan=True)
    fixed = {(AVAILABILITY, "always"), (AVAILABILITY, "trace"), (COMPUTATION, "constant"), (FAILURE, "none")}
    assert np.array_equal(first, answers(family, name, 40, 40, seed=1), equal_nan=True) == ((family, name) in fixed)


@pytest.mark.parametrize("name", EXAMPLES[AVAILABILITY])
def test_state_suffices_to_go_on(name):
    whole = make(AVAILABILITY, name, 30)
    rounds = [whole.draw(t, float(t)) for t in range(12)]
    first, second = (make(AVAILABILITY, name, 30) for _ in range(2))
    for t in range(5):
        first.draw(t, float(t))
    second.restore(first.state())
    assert np.array_equal([second.draw(t, float(t)) for t in range(5, 12)], rounds[5:])
    assert rounds[0].dtype == bool and rounds[0].shape == (30,)
    assert whole.dropout is None or (
        whole.dropout.shape == (30,) and 0 <= whole.dropout.min() <= whole.dropout.max() <= 1
    )


@pytest.mark.parametrize(("family", "name"), CASES)
def test_choices_are_described_and_survive_being_written_down(family, name):
    plugin = family.of({"name": name, **EXAMPLES[family][name]})
    assert family.of(json.loads(json.dumps(plain(plugin)))) == plugin
    assert plugin.__doc__ and all(field.description for field in describe(type(plugin)))


@pytest.mark.parametrize("part", ["availability", "computation", "failure"])
def test_what_is_built_of_another_class_is_refused_in_one_line(part, tmp_path):
    from simfl.runs.run import run
    from simfl.scenario import Scenario

    scenario = Scenario.load("quickstart", ["training.rounds=1"])
    members = {"build": lambda self, *arguments: SimpleNamespace(), "__module__": __name__}
    with undone():
        cls = FAMILIES[part]("wrong")(dataclass(frozen=True)(type("Wrong", (), members)))
        changed = replace(scenario, devices=replace(scenario.devices, **{part: cls()}))
        with pytest.raises(PluginError, match=f"{part} 'wrong': build must give .*, not SimpleNamespace"):
            run(changed, tmp_path)
    assert not list(tmp_path.glob("*/*"))
