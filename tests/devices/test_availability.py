"""Who is available when: frequencies, joint frequencies, run lengths, exact cases."""

from types import SimpleNamespace

import numpy as np
import pytest

from simfl.core.errors import ScenarioError
from simfl.core.rng import Streams
from simfl.devices import AVAILABILITY, Devices


def make(name, **fields):
    return AVAILABILITY.of({"name": name, **fields})


def build(clients, name, seed=0, **fields):
    plugin, scenario = make(name, **fields), SimpleNamespace(clients=clients)
    assert plugin.check(scenario) == []
    return plugin.build(scenario, Streams(seed))


def play(available, rounds):
    return np.array([available.draw(t, float(t)) for t in range(rounds)])


def near(share, p, n):
    return np.all(np.abs(share - p) <= 5 * np.sqrt(p * (1 - p) / n))


def test_always():
    available = build(5, "always")
    assert play(available, 3).all() and not available.dropout.any() and make("always").equal_rates
    assert isinstance(Devices().availability, type(make("always")))


def test_bernoulli_frequencies_of_each_client():
    rates = [0.0, 0.1, 0.5, 0.9, 1.0]
    available = build(5, "bernoulli", dropout=rates)
    seen = play(available, 4000)
    assert available.dropout.tolist() == rates
    assert near(1 - seen.mean(axis=0), np.array(rates), 4000)


def test_bernoulli_is_independent_over_clients_and_rounds():
    seen = play(build(2, "bernoulli", dropout=0.3), 20_000)
    assert near((seen[:, 0] & seen[:, 1]).mean(), 0.49, 20_000)
    assert near((seen[1:, 0] & seen[:-1, 0]).mean(), 0.49, 20_000 / 3)  # neighbours overlap: fewer effective samples


def test_bernoulli_draws_a_rate_for_each_client_once():
    available = build(1000, "bernoulli", dropout={"choices": [0.1, 0.2, 0.3, 0.4, 0.5]})
    assert set(available.dropout) == {0.1, 0.2, 0.3, 0.4, 0.5}
    assert np.array_equal(
        build(1000, "bernoulli", dropout={"choices": [0.1, 0.2, 0.3, 0.4, 0.5]}).dropout, available.dropout
    )
    between = build(1000, "bernoulli", dropout={"name": "uniform", "low": 0.1, "high": 0.5}).dropout
    assert 0.1 <= between.min() < 0.15 and 0.45 < between.max() <= 0.5
    with pytest.raises(ScenarioError, match="^dropout: the distribution gave"):
        build(3, "bernoulli", dropout={"name": "exponential", "mean": 1e9})


def test_the_same_draws_meet_every_rate():
    """Common random numbers: whoever is there at a high rate is there at a lower one too."""
    often, rarely = (play(build(50, "bernoulli", dropout=p), 40) for p in (0.2, 0.6))
    assert (often | ~rarely).all() and (often != rarely).any()


def test_markov_marginals_and_run_lengths():
    clients, rounds = 400, 400
    available = build(clients, "markov", mean_on_rounds=6, mean_off_rounds=2)
    seen = play(available, rounds)
    assert available.dropout == pytest.approx(0.25)
    # correlation (1 - 1/6 - 1/2)^lag: the variance of a client's mean is (1 + r) / (1 - r) times that of free draws
    assert abs(seen.mean() - 0.75) < 5 * np.sqrt(0.75 * 0.25 * 2 / (clients * rounds))
    assert near(seen[0].mean(), 0.75, clients) and near(seen[-1].mean(), 0.75, clients)
    leaving, coming = seen[:-1] & ~seen[1:], ~seen[:-1] & seen[1:]
    assert near(leaving.sum() / seen[:-1].sum(), 1 / 6, seen[:-1].sum())
    assert near(coming.sum() / (~seen[:-1]).sum(), 1 / 2, (~seen[:-1]).sum())


def test_markov_exact_cases():
    seen = play(build(20, "markov", mean_on_rounds=1, mean_off_rounds=1), 6)
    assert (seen[1:] != seen[:-1]).all() and 0 < seen[0].sum() < 20
    seen = play(build(2, "markov", mean_on_rounds=[1e9, 1], mean_off_rounds=[1, 1e9]), 50)
    assert seen[:, 0].all() and not seen[:, 1].any()


def test_markov_goes_on_from_its_state():
    fields = {"mean_on_rounds": 3, "mean_off_rounds": 2}
    whole = play(build(100, "markov", **fields), 20)
    first = build(100, "markov", **fields)
    assert first.state() == {}
    play(first, 9)
    state = {name: values.copy() for name, values in first.state().items()}
    second = build(100, "markov", **fields)
    second.restore(state)
    assert np.array_equal([second.draw(t, 0.0) for t in range(9, 20)], whole[9:])
    fresh = build(100, "markov", **fields)
    fresh.restore({})
    assert np.array_equal(play(fresh, 20), whole)
    shown = fresh.draw(20, 0.0)
    shown[:] = False  # a caller's changes do not reach the chains
    assert fresh.state()["on"].any()


def test_correlated_joint_frequencies():
    n = 20_000
    available = build(4, "correlated", groups=[2, 2], group_dropout=[0.3, 0.1], dropout=0.2)
    seen = play(available, n)
    assert available.dropout == pytest.approx([0.44, 0.44, 0.28, 0.28])
    assert near(seen.mean(axis=0), np.array([0.56, 0.56, 0.72, 0.72]), n)
    assert near((seen[:, 0] & seen[:, 1]).mean(), 0.7 * 0.64, n)  # one fate, own luck twice
    assert near((seen[:, 2] & seen[:, 3]).mean(), 0.9 * 0.64, n)
    assert near((seen[:, 0] & seen[:, 2]).mean(), 0.56 * 0.72, n)


def test_correlated_groups_are_of_one_mind():
    seen = play(build(7, "correlated", groups=3, group_dropout=0.5), 60)
    assert all(np.array_equal(seen[:, i], seen[:, i % 3]) for i in range(7))
    assert all((seen[:, i] != seen[:, j]).any() for i, j in ((0, 1), (0, 2), (1, 2)))
    rates = build(8, "correlated", groups=4, group_dropout={"choices": [0.1, 0.9]}).dropout
    assert np.array_equal(rates[:4], rates[4:])


def test_equal_only_where_all_rates_are():
    equal = [
        make("bernoulli", dropout=0.2),
        make("bernoulli", dropout=[0.2, 0.2]),
        make("markov", mean_on_rounds=3, mean_off_rounds=[2, 2]),
        make("correlated", groups=2, group_dropout=0.1),
    ]
    different = [
        make("bernoulli", dropout=[0.2, 0.1]),
        make("bernoulli", dropout={"choices": [0.1, 0.5]}),
        make("bernoulli", dropout={"name": "uniform", "low": 0, "high": 1}),
        make("markov", mean_on_rounds=[3, 4], mean_off_rounds=2),
        make("correlated", groups=2, group_dropout=[0.1, 0.2]),
        make("trace", inline=[[0, 0, 1]]),
    ]
    assert all(plugin.equal_rates for plugin in equal) and not any(plugin.equal_rates for plugin in different)


@pytest.mark.parametrize(
    ("fields", "keys"),
    [
        ({"name": "bernoulli", "dropout": [0.1, 0.2]}, ["dropout"]),
        ({"name": "markov", "mean_on_rounds": [2, 2], "mean_off_rounds": 1}, ["mean_on_rounds"]),
        ({"name": "correlated", "groups": [1, 1], "group_dropout": 0.1}, ["groups"]),
        ({"name": "correlated", "groups": 4, "group_dropout": 0.1}, ["groups"]),
        ({"name": "correlated", "groups": 2, "group_dropout": [0.1], "dropout": [0.1]}, ["dropout", "group_dropout"]),
    ],
)
def test_sizes_that_do_not_fit_are_found(fields, keys):
    assert [key for key, _ in AVAILABILITY.of(fields).check(SimpleNamespace(clients=3))] == keys


@pytest.mark.parametrize("zones", [1, 3, 24])
def test_time_of_day_keeps_the_mean_of_each_client_over_a_day(zones):
    rates = [0.0, 0.1, 0.5, 0.7, 1.0]
    available = build(5, "daily", dropout=rates, rounds_a_day=24, zones=zones)
    hours = np.array([available.now(t) for t in range(24)])
    assert available.dropout.tolist() == rates
    assert np.allclose(hours.mean(axis=0), rates, atol=1e-12) and (hours >= -1e-12).all() and (hours <= 1 + 1e-12).all()
    assert np.allclose(available.now(31), available.now(7))
    # at midnight twice as often, at most surely; at noon as little as leaves that mean
    home = np.array([(24 - 24 * (i % zones) // zones) % 24 for i in range(5)])
    clients = np.arange(5)
    assert np.allclose(hours[home, clients], np.minimum(2 * np.array(rates), 1))
    assert np.allclose(hours[(home + 12) % 24, clients], np.maximum(2 * np.array(rates) - 1, 0))


def test_time_of_day_draws_what_it_says_and_meets_the_draws_of_bernoulli():
    days = 4000
    seen = play(build(2, "daily", dropout=0.3, rounds_a_day=4, zones=2), 4 * days).reshape(days, 4, 2)
    swing = 0.3 * np.cos(2 * np.pi * np.array([[0, 0.5], [0.25, 0.75], [0.5, 0], [0.75, 0.25]]))
    assert all(near(1 - seen[:, hour, i].mean(), 0.3 + swing[hour, i], days) for hour in range(4) for i in range(2))
    rates = {"name": "uniform", "low": 0.1, "high": 0.9}
    ours, plain = (build(50, name, dropout=rates) for name in ("daily", "bernoulli"))
    assert np.array_equal(ours.dropout, plain.dropout)
    both = [(ours.draw(t, 0.0), plain.draw(t, 0.0), ours.now(t)) for t in range(24)]
    assert all((mine <= its)[now > ours.dropout].all() for mine, its, now in both)
    assert all((mine >= its)[now < ours.dropout].all() for mine, its, now in both)
