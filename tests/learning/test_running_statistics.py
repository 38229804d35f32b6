"""Running statistics that are averaged: set to the weighted mean of the clients', whatever makes the server's step."""

from types import SimpleNamespace

import numpy as np
import pytest
from torch import nn

import simfl
from simfl.agents.aggregation.global_model import set_statistics
from simfl.core.errors import ScenarioError
from simfl.training.fedavg import FedAvg
from simfl.training.fedbuff import FedBuff

HIDDEN = 8


class Net(nn.Sequential):
    def __init__(self, in_features, num_classes):
        super().__init__(
            nn.Flatten(), nn.Linear(in_features, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, num_classes),
        )  # fmt: skip


SCENARIO = {
    "clients": 6,
    "selection": {"name": "random", "k": 3},
    "network": {"name": "star", "latency_s": 0.1},
    "training": {"name": "fedavg", "rounds": 1, "batch_size": 16, "learning_rate": 0.1},
    "learning": {"data": "digits", "model": Net, "partition": "iid", "norm_statistics": "averaged"},
}


def statistics(tmp_path, **changes):
    result = simfl.run(SCENARIO, {key.replace("__", "."): value for key, value in changes.items()}, out=tmp_path)
    assert result.summary.get("diverged_round") is None
    return np.load(result.path / "model.npy")[-2 * HIDDEN :]


STEPS = {
    "rate": {"training__server_learning_rate": 2.0},
    "momentum": {"training__server_optimiser": {"name": "sgd", "momentum": 0.9}},
    "adam": {"training__server_optimiser": {"name": "adam", "epsilon": 0.001}, "training__server_learning_rate": 0.05},
    "masked": {"training__aggregate": {"name": "masked", "tau": 0.4}},
    "secagg": {"secagg": "secagg", "training__server_learning_rate": 3.0},
}


STILL = {"training__rounds": 3, "training__learning_rate": 1e-9}
"""Weights stay where they are, so that they move no statistic, and a server's momentum has something to remember."""


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("rounds", [{}, STILL], ids=["one", "three"])
def test_no_step_of_the_server_moves_them(step, rounds, tmp_path):
    """The first step of a server's momentum is the plain one, so that it can be wrong in later rounds only."""
    np.testing.assert_allclose(statistics(tmp_path, **rounds, **STEPS[step]), statistics(tmp_path, **rounds), atol=1e-5)


@pytest.mark.parametrize("changes", [{"training__rounds": 8, **STEPS["momentum"]}, {
    "training": {"name": "fedbuff", "rounds": 8, "concurrency": 5, "buffer": 3, "batch_size": 16}}])  # fmt: skip
def test_variances_are_never_negative(changes, tmp_path):
    assert (statistics(tmp_path, **changes)[HIDDEN:] > 0).all()


@pytest.mark.parametrize("rule", [
    FedAvg(rounds=1), FedBuff(rounds=1, concurrency=3, buffer=3),
    FedBuff(rounds=1, concurrency=3, buffer=3, mix="models"),
])  # fmt: skip
def test_the_mean_is_of_the_clients_statistics_however_old_their_downloads_are(rule):
    rng, n, d = np.random.default_rng(0), 4, 5
    for _ in range(50):
        starts, theirs = rng.uniform(0, 9, (n, d)), rng.uniform(0, 9, (n, d))
        before, shares, at = rng.uniform(0, 9, d), rng.uniform(0, 2, n), np.array([3, 4])
        if isinstance(rule, FedAvg):
            starts[:] = before
        contributions = rule.contributions(theirs - starts, lambda starts=starts: list(starts), before)
        jobs = [SimpleNamespace(client=i, start=i) for i in range(n)]
        result = SimpleNamespace(
            total=SimpleNamespace(shares=shares, clients=np.arange(n)),
            client_updates=SimpleNamespace(jobs=jobs), summed=shares @ contributions,
        )  # fmt: skip
        learner = SimpleNamespace(statistics=(at, np.zeros(2)), get=starts.__getitem__)
        after = set_statistics(SimpleNamespace(learner=learner, rule=rule), rng.normal(size=d), result, before)
        np.testing.assert_allclose(after[at], np.average(theirs, axis=0, weights=shares)[at])


@pytest.mark.parametrize("changes", [
    {"privacy__stages": [{"name": "central_gaussian", "clip_norm": 1, "noise_multiplier": 1}]},
    {"privacy__stages": [{"name": "local_laplace", "clip_norm": 1, "epsilon": 1}]},
    {"compression": {"name": "top_k", "share": 0.1}, "secagg": "plain"},
    {"training": {"name": "fedbuff", "rounds": 2, "concurrency": 5, "buffer": 3, "aggregate": "median"},
     "secagg": "plain"},
])  # fmt: skip
def test_what_would_change_the_mean_is_refused(changes, tmp_path):
    with pytest.raises(ScenarioError, match=r"running statistics.*GroupNorm"):
        statistics(tmp_path, training__weighting="equal", **changes) if "training" not in changes else statistics(
            tmp_path, **{**changes, "training": changes["training"] | {"weighting": "equal"}}
        )
