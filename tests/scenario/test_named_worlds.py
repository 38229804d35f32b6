"""The key ``world``: each client is away as often as before, and absence hangs together as the world says."""

import numpy as np
import pytest

from simfl.core.rng import Streams
from simfl.experiments.sweep.grid import WITHOUT_FILE, parse, parse_mapping
from simfl.scenario import InvalidScenario, Scenario

BASE = {
    "clients": 15,
    "selection": {"name": "random", "k": 3},
    "training": {"name": "fedavg", "rounds": 3},
    "learning": "none",
}
AVAILABILITIES = {
    "number": {"name": "bernoulli", "dropout": 0.2},
    "list": {"name": "bernoulli", "dropout": [0.1, 0.3, 0.8, *[0.2] * 12]},
    "distribution": {"name": "bernoulli", "dropout": {"name": "uniform", "low": 0.1, "high": 0.6}},
    "markov": {"name": "markov", "mean_on_rounds": 3, "mean_off_rounds": 2},
    "correlated": {"name": "correlated", "groups": 3, "group_dropout": 0.1, "dropout": 0.5},
}


def scenario(availability, *overrides, **more):
    return Scenario.of({**BASE, "devices": {"availability": availability}, **more}, overrides=overrides)


def available(of):
    return of.devices.availability.build(of, Streams(of.seed))


def play(of, rounds):
    model = available(of)
    return np.array([model.draw(t, float(t)) for t in range(rounds)])


@pytest.mark.parametrize("world", WITHOUT_FILE)
@pytest.mark.parametrize("form", AVAILABILITIES)
def test_a_world_keeps_how_often_each_client_is_away(world, form):
    before = scenario(AVAILABILITIES[form])
    after = scenario(AVAILABILITIES[form], f"world={world}")
    rates = available(before).dropout
    assert np.allclose(available(after).dropout, rates, rtol=1e-12)
    rounds = 24 * 250
    # the slowest chain (away for 5 rounds, rates from .1) has at least an 11th of its rounds as effective samples
    error = 5 * np.sqrt(rates * (1 - rates) * 11 / rounds)
    assert (np.abs((1 - play(after, rounds).mean(axis=0)) - rates) < error).all()


def test_absence_hangs_together_as_each_world_says():
    away = {world: ~play(scenario(AVAILABILITIES["number"], f"world={world}"), 6000) for world in WITHOUT_FILE}

    def correlation(first, second):
        return float(np.corrcoef(first.ravel(), second.ravel())[0, 1])

    def next_round(world):
        return correlation(away[world][:-1], away[world][1:])

    def between(world, i, j):
        return correlation(away[world][:, i], away[world][:, j])

    error = 5 / np.sqrt(6000)
    assert abs(next_round("memoryless")) < error and abs(between("memoryless", 0, 5)) < error
    assert abs(next_round("sticky") - (1 - 1 / 20 - 1 / 5)) < error and abs(between("sticky", 0, 5)) < 3 * error
    assert np.array_equal(away["groups"][:, 0], away["groups"][:, 5]) and abs(between("groups", 0, 1)) < error
    assert abs(next_round("groups")) < error
    # swings of .2 about .2: covariance .2^2/2 cos(time or zone apart), of a variance of .16
    assert abs(next_round("day_and_night") - 0.125 * np.cos(2 * np.pi / 24)) < error
    assert abs(between("day_and_night", 0, 3) - 0.125) < error
    assert abs(between("day_and_night", 0, 1) - 0.125 * np.cos(2 * np.pi / 3)) < error


def test_the_resolved_scenario_says_what_a_world_stands_for():
    plain, sticky = AVAILABILITIES["number"], {"name": "markov", "mean_on_rounds": 20.0, "mean_off_rounds": 5.0}
    assert scenario(plain, "world=memoryless").digest == scenario(plain).digest == scenario(plain, "world=null").digest
    named = scenario(plain, world="sticky")
    assert named.digest == scenario(sticky).digest and named.world is None and "world" not in named.plain()
    assert any("world: sticky, devices are markov" in note for note in named.notes)
    assert Scenario.parse(named.to_yaml()).digest == named.digest


def problem(*arguments, **more):
    with pytest.raises(InvalidScenario) as raised:
        scenario(*arguments, **more)
    assert len(raised.value.problems) == 1, str(raised.value)
    return str(raised.value)


def test_what_a_world_replaces_is_not_given_besides():
    markov = AVAILABILITIES["markov"]
    text = problem(
        AVAILABILITIES["number"], "world=sticky", "devices.availability=correlated:groups=2;group_dropout=0.1"
    )
    assert "world: sticky replaces devices.availability" in text and "leave one of the two out" in text
    assert "replaces devices.availability" in problem(markov, "devices.availability.mean_on_rounds=4", world="groups")
    assert "mean_off_rounds is given, too" in problem(markov, world="groups")  # in one file
    kept = scenario(AVAILABILITIES["number"], "world=groups", "devices.availability.dropout=0.4")
    assert available(kept).dropout == pytest.approx(0.4)
    assert scenario(markov, "world=memoryless").devices.availability.dropout == pytest.approx(0.4), "given before"


def test_a_file_may_put_another_into_a_world_but_not_out_of_it(tmp_path):
    base = tmp_path / "base.yaml"
    base.write_text(scenario(AVAILABILITIES["markov"]).to_yaml())
    (tmp_path / "world.yaml").write_text("extends: base.yaml\nworld: groups\n")
    (tmp_path / "seed.yaml").write_text("extends: world.yaml\nseed: 3\n")
    (tmp_path / "out.yaml").write_text("extends: world.yaml\ndevices: {availability: {mean_on_rounds: 4}}\n")
    for name in ("world.yaml", "seed.yaml"):
        assert Scenario.load(tmp_path / name).devices.availability.groups == 5
    with pytest.raises(InvalidScenario, match=r"mean_on_rounds is given, too \(.*out.yaml:2"):
        Scenario.load(tmp_path / "out.yaml")


def test_worlds_that_cannot_be_had_are_refused_in_one_line(tmp_path, monkeypatch):
    number = AVAILABILITIES["number"]
    assert "did you mean 'sticky'" in problem(number, "world=stiky")
    assert "no client is ever unavailable" in problem("always", "world=groups")
    assert "dropouts up to 0.8333 fit" in problem({"name": "bernoulli", "dropout": 0.9}, "world=sticky")
    assert "one is never away" in problem({"name": "bernoulli", "dropout": [0.0, *[0.2] * 14]}, "world=groups")
    trace = {"name": "trace", "inline": [[0, 0, 2]], "unit": "rounds"}
    assert "how often clients are unavailable does not follow" in problem(trace, "world=groups")
    monkeypatch.setenv("SIMFL_DATA", str(tmp_path))
    assert "needs the file availability.csv" in problem(number, "world=trace")
    (tmp_path / "availability.csv").write_text("client,start_round,end_round\n0,0,2\n3,1,2\n")
    seen = play(scenario(number, "world=trace"), 3)
    assert [np.flatnonzero(row).tolist() for row in seen] == [[0], [0, 3], []]


def test_all_worlds_are_those_that_need_no_file():
    for axes in (parse(["world=all"]), parse_mapping({"world": "all"}), parse_mapping({"world": ["all"]})):
        assert [(axis.key, axis.values) for axis in axes] == [("world", WITHOUT_FILE)]
    assert parse(["world=all,trace"])[0].values == (*WITHOUT_FILE, "trace")
    assert parse(["metrics=all"])[0].values == ("all",)
