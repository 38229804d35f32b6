"""What is recovered of single updates: exact where updates stay, by another calculation where they change."""

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simfl
from simfl.attacks.base import ServerView, TrueUpdates
from simfl.attacks.measured_recovery import COORDINATES, KEEP, RIDGES, RecoveryMeter, work
from simfl.core.rng import Streams
from simfl.core.types import Aggregate, Job
from simfl.runs.run import run
from simfl.scenario import Scenario

N, D = 5, 8


def seen(t, members, updates, shown=False):
    members = np.array(members, dtype=np.int32)
    shares = np.full(len(members), 1 / len(members))
    mean = updates[members].mean(axis=0)
    jobs = tuple(Job.of(t, int(client), 0, 0.0) for client in members)
    total = Aggregate(mean, members, np.ones(len(members)), shares=shares)
    zero = np.zeros(D, dtype=np.float32)
    view = ServerView(t, float(t), total, jobs, {}, updates[members] if shown else None, zero, zero, mean)
    return view, TrueUpdates(members, updates[members])


def meter(budget=10**9):
    return RecoveryMeter(N, D, Streams(0), budget)


def drawn(seed=0, rounds=12):
    rng = np.random.default_rng(seed)
    sets = [np.sort(rng.choice(N, rng.integers(1, N + 1), replace=False)).tolist() for _ in range(rounds)]
    return sets, [rng.standard_normal((N, D)).astype(np.float32) for _ in range(rounds)]


def test_updates_that_stay_are_recovered_as_soon_as_the_sums_have_full_rank():
    updates = drawn()[1][0]
    m = meter()
    for t, members in enumerate([[0, 1], [1, 2], [0, 2], [3, 4]]):
        m.learn(*seen(t, members, updates))
    assert m.measure(False)["measured_recovered"] == 3  # 3 and 4 hide each other
    m.learn(*seen(4, [0, 3], updates))
    after = m.measure(True)
    assert after["measured_recovered"] == N and after["measured_error"] < 1e-6


def test_a_server_that_is_shown_updates_has_them():
    m, (sets, updates) = meter(), drawn()
    for t, members in enumerate(sets):
        m.learn(*seen(t, members, updates[t], shown=True))
    assert m.measure(True) == {"measured_recovered": N, "measured_error": 0.0}


def test_two_clients_that_are_always_together_hide_each_other():
    m = meter()
    rng = np.random.default_rng(3)
    updates = rng.standard_normal((N, D)).astype(np.float32) * 5
    for t in range(20):
        m.learn(*seen(t, [0, 1], updates))
    assert m.measure(True)["measured_recovered"] == 0


@given(st.integers(0, 10**6))
def test_each_estimator_is_the_weighted_ridge_solution(seed):
    sets, updates = drawn(seed, 6)
    m = meter()
    for t, members in enumerate(sets):
        m.learn(*seen(t, members, updates[t]))
    got = list(m._estimates(np.arange(N)))
    P = np.array([[float(client in members) for client in range(N)] for members in sets])
    Y = np.array([updates[t][members].sum(axis=0, dtype=np.float64) for t, members in enumerate(sets)])
    place = 0
    for keep in KEEP:
        ages = keep ** (np.arange(len(sets))[::-1] / 2)
        A, B = P * ages[:, None], Y * ages[:, None]
        mean = (ages**2 @ Y) / (ages**2 @ P.sum(axis=1))
        for ridge in RIDGES:
            for prior in (np.zeros(D), mean):
                rows = np.vstack([A, np.sqrt(ridge) * np.eye(N)])
                values = np.vstack([B - A.sum(axis=1)[:, None] * prior, np.zeros((N, D))])
                expected = np.linalg.lstsq(rows, values, rcond=1e-9)[0] + prior
                if ridge or np.linalg.matrix_rank(A, tol=1e-6) == np.linalg.matrix_rank(P):
                    np.testing.assert_allclose(got[place], expected, atol=1e-3)
                place += 1
    assert place == len(got) - 1 and not got[place].any(), "and one says that all are 0"


def test_it_goes_on_from_a_checkpoint_as_if_nothing_had_been():
    sets, updates = drawn(5, 15)
    whole, first = meter(), meter()
    said = []
    for t, members in enumerate(sets):
        whole.learn(*seen(t, members, updates[t]))
        said.append(whole.measure(t == 14))
    for t in range(7):
        first.learn(*seen(t, sets[t], updates[t]))
        first.measure(False)
    then = meter()
    then.restore(first.state())
    for t in range(7, 15):
        then.learn(*seen(t, sets[t], updates[t]))
        assert then.measure(t == 14) == said[t]
    ours, theirs = then.state(), whole.state()
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name])


def test_no_more_than_the_budget_is_spent_and_the_last_measurement_is_made():
    sets, updates = drawn(1, 30)
    m = meter(3 * work(N))
    measured = 0
    for t, members in enumerate(sets):
        m.learn(*seen(t, members, updates[t]))
        measured += bool(m.measure(t == 29))
    assert measured == 3 and m.spent <= m.budget and m.measured == 30


def test_a_run_has_it_beside_its_guarantee_and_under_plain_everybody_is_recovered(tmp_path):
    words = ["training.rounds=6", "learning.model=logistic"]
    ideal = simfl.run("quickstart", words, out=tmp_path).summary
    plain = simfl.run("quickstart", [*words, "secagg=plain"], out=tmp_path).summary
    took_part = len(np.unique(simfl.run("quickstart", words, out=tmp_path).participation.indices))
    assert plain["measured_recovered"] == took_part and plain["privacy_weak_upper"] == 1
    assert ideal["measured_recovered"] == 0 and ideal["privacy_weak_lower"] > 1
    assert ideal["test_accuracy"] == plain["test_accuracy"]


@pytest.mark.parametrize("words", [["privacy=none"], ["learning=none"], ["privacy.budget=1000"]])
def test_it_is_left_out_where_nobody_asks_nothing_is_learned_or_it_costs_too_much(words, tmp_path):
    summary = simfl.run("quickstart", ["training.rounds=2", *words], out=tmp_path).summary
    assert summary["measured_recovered"] is None and summary["measured_error"] is None


def test_coordinates_are_drawn_once_and_are_few():
    assert RecoveryMeter(3, 10**6, Streams(0), 1).latest.shape == (3, COORDINATES)


EMPTY = """
clients: 12
seed: 1
selection: all
training: {name: fedavg, rounds: 3}
learning:
  data: digits
  model: logistic
  partition: {name: quantity, proportions: {name: log_normal, median: 1, sigma: 6}}
secagg: plain
agents: {client: {name: mixed, groups: [{agent: {name: gaussian_noise, std: 1}, clients: "3"}]}}
attacks: [least_squares]
"""


def test_who_holds_no_samples_is_no_update_to_recover(tmp_path):
    """An attacker without samples sends one, which no sum holds; where nothing is sent, nothing is measured."""
    done = run(Scenario.parse(EMPTY), tmp_path)
    assert pandas.read_csv(done.path / "clients.csv").samples[3] == 0 and done.summary["measured_recovered"] > 0
    assert done.summary["measured_error"] < 1e-9 and done.summary["recovery_weighted"] < 1e-9
    nothing = ("training.personal=local", "attacks=[]", "agents.client=standard")
    alone = run(Scenario.parse(EMPTY, "alone", nothing), tmp_path)
    assert alone.summary.get("measured_error") is None
