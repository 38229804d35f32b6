"""Of which noise an epsilon of output perturbation may speak: of what nobody knows, and nobody has clipped."""

from math import inf, log, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from simfl.clients.base import CLIENTS, PERSONAL, ClientAlgorithm
from simfl.clients.local_training import PlainSgd
from simfl.core.types import Job
from simfl.privacy.dp.stages.output_perturbation import OutputPerturbation
from simfl.privacy.stage import Members
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.plugins.test_public_interface import rows

BASE = """
clients: 3
selection: all
devices: {computation: 1}
training: {name: fedavg, rounds: 2, weighting: equal, weight_decay: 0.1, batch_size: null}
learning: {data: digits, model: logistic, evaluate: {every: 0}}
privacy: {stages: [{name: output_perturbation, epsilon: 1, samples: 479, alpha: 0.1, noise_scale: calibrated}]}
"""
SERVERLESS = "training={name: serverless, rounds: 2, weighting: equal, weight_decay: 0.1, batch_size: null}"


def epsilons(tmp_path, *overrides, text=BASE):
    """Of a weight and of the model in each round, and how many coordinates were clipped."""
    found = rows(run(Scenario.parse(text, "output", overrides), tmp_path).path, "rounds.csv")
    return [(float(row["epsilon_weight"] or inf), float(row["epsilon_model"] or inf), int(row.get("clipped") or 0))
            for row in found]  # fmt: skip


def density(x, shape):
    """Of shares of Laplace(1) noise, from their characteristic function (1 + t²)^-shape."""
    return quad(lambda t: (1 + t * t) ** -shape / np.pi, 0, inf, weight="cos", wvar=x)[0] if x else (
        quad(lambda t: (1 + t * t) ** -shape / np.pi, 0, inf)[0])  # fmt: skip


def gaussian_epsilon(mu, delta=1e-5):
    """From the exact profile of Gaussian noise, Balle and Wang 2018."""
    return brentq(lambda e: norm.cdf(mu / 2 - e / mu) - np.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta, 0, 500)


def summed(n, **known):
    jobs = tuple(Job.of(0, client, 0, 0.0) for client in range(n))
    return Members(0, jobs, np.ones(n), float(n), **known)


def stage(**keys):
    return OutputPerturbation(epsilon=1.0, samples=30, noise_scale="calibrated", **keys)


def of_weight(members, **keys):
    return stage(**keys).facts(members, {"dimension": np.int64(1)})["epsilon_weight"]


def test_who_knows_its_own_share_meets_the_noise_of_the_others_only():
    """The density of two of three shares, 1 apart, against 1 for all of them."""
    told = log(density(0.0, 2 / 3) / density(1.0, 2 / 3))
    assert of_weight(summed(3, known="own")) == pytest.approx(told, rel=1e-3) and told > 1.5
    assert of_weight(summed(3)) == pytest.approx(1.0)
    assert of_weight(summed(2, known="own")) == inf  # half of the shares have a pole
    assert of_weight(summed(1, known="own")) == pytest.approx(1.0)  # the others look


@pytest.mark.parametrize("unprotected", [{"known": "all"}, {"clipped": 1}])
def test_shares_of_others_do_not_count_where_they_are_seen_or_clipped(unprotected):
    assert of_weight(summed(3, **unprotected)) == inf
    assert of_weight(summed(3, **unprotected), adds="whole") == pytest.approx(1.0)
    assert of_weight(summed(3, **unprotected), adds="whole", mechanism="staircase") == pytest.approx(1.0)
    one = stage(mechanism="gaussian").scales(summed(1).jobs)[0] / sqrt(3)
    found = of_weight(summed(3, **unprotected), mechanism="gaussian")
    assert found == pytest.approx(gaussian_epsilon(2 / 30 / one), rel=1e-4)
    own = of_weight(summed(3, known="own"), mechanism="gaussian")
    assert own == pytest.approx(gaussian_epsilon(2 / 30 / one / sqrt(2)), rel=1e-4) and 1 < own < found


def test_clipped_shares_hardly_cover_anything():
    """What the rule is for, by simulation: six shares of scale 10, clipped at 1, and an update that moves by 1."""
    rng, n, draws = np.random.default_rng(0), 6, 200_000
    shares = rng.gamma(1 / n, 10.0, (2, n, draws))
    noise = shares[0] - shares[1]

    def nearby(first, clip):
        sums = np.clip(noise[0] + first, -clip, clip) + np.clip(noise[1:], -clip, clip).sum(axis=0)
        return np.histogram(sums, bins=21, range=(-5.25, 5.25))[0] + 1

    loss = {clip: np.abs(np.log(nearby(0.0, clip) / nearby(1.0, clip))).max() for clip in (1.0, 1e9)}
    assert loss[1e9] < 0.2 and loss[1.0] > 0.5  # of 0.1, as the scale has it


def test_without_a_server_clients_know_their_own_noise_or_see_each_update(tmp_path):
    ratchet = ["secagg={name: pairwise_ratchet, clip: 1000}"]
    (server, _, _), *_ = epsilons(tmp_path / "server", *ratchet)
    for weight, model, clipped in epsilons(tmp_path / "ratchet", SERVERLESS, *ratchet):
        peak = density(0.0, 2 / 3)
        assert weight == pytest.approx(log(peak / density(server, 2 / 3)), rel=1e-3)
        assert model > sqrt(650) * server and clipped == 0
    assert epsilons(tmp_path / "plain", SERVERLESS) == [(inf, inf, 0)] * 2
    notes = Scenario.parse(BASE, "output", [SERVERLESS]).cautions()
    assert any("see each update by itself" in note and "infinite" in note for note in notes)


@pytest.mark.parametrize("protocol", ["secagg", "lightsecagg", "pairwise_ratchet"])
@pytest.mark.parametrize("execute", ["true", "cost_only"])
def test_a_round_whose_noise_was_clipped_has_no_finite_epsilon(tmp_path, protocol, execute):
    keys = "privacy.stages.0.radius=100", f"secagg={{name: {protocol}, execute: {execute}}}"
    found = epsilons(tmp_path / "clipped", *keys)
    assert all(found_in[:2] == (inf, inf) and found_in[2] > 0 for found_in in found)
    assert all(
        weight < inf and not clipped for weight, _, clipped in epsilons(tmp_path / "a", *keys, "secagg.clip=1e6")
    )
    notes = Scenario.parse(BASE, "output", keys).cautions()
    assert any("clips updates and their noise at 4" in note for note in notes)


# -- client algorithms ------------------------------------------------------------------------------------

NOT_THE_MINIMISER = {"fedltn", "jump_start", "lotteryfl", "scaffold", "local"}
"""They prune, shift gradients by what data have said, or send nothing; a plugin's algorithm that says nothing, too."""


@pytest.mark.parametrize("name, registry", [*((name, CLIENTS) for name in CLIENTS), *((n, PERSONAL) for n in PERSONAL)])
def test_algorithms_say_whether_they_send_minimisers(name, registry):
    algorithm = registry.of({"name": name, **getattr(registry[name], "example", {})}).combine(PlainSgd())
    assert algorithm.minimises == (name not in NOT_THE_MINIMISER)
    assert not ClientAlgorithm.minimises


PRUNING = """
clients: 2
selection: all
devices: {computation: 1}
training: {name: fedavg, rounds: 1, weighting: equal, weight_decay: 0.5, local_epochs: 60, batch_size: null}
learning: {data: digits, model: logistic, holdout: {validation: 0.1}, evaluate: {every: 0}}
privacy: {stages: [{name: output_perturbation, epsilon: 1, samples: 600, alpha: 0.5, noise_scale: calibrated}]}
"""
FEDLTN = "training.personal={name: fedltn, compress: false, threshold: 0.3, step: 0.5, pull: 0}"


def test_a_model_that_data_decide_to_prune_has_no_epsilon_of_a_minimiser(tmp_path):
    """One sample more or less that is classified rightly prunes half of all weights or none."""
    assert all(weight < inf for weight, _, _ in epsilons(tmp_path / "plain", text=PRUNING))
    assert epsilons(tmp_path / "pruned", FEDLTN, text=PRUNING) == [(inf, inf, 0)]
    pruned = Scenario.parse(PRUNING, "output", [FEDLTN])
    assert any("fedltn sends others" in note and "infinite" in note for note in pruned.cautions())
    assert not any("minimiser" in note for note in Scenario.parse(PRUNING, "output").cautions())
    oblivious = "secagg={name: oblivious, epsilon: 1, samples: 600}"
    noisy = Scenario.parse(PRUNING, "output", [FEDLTN, oblivious, "privacy.stages=[]"])
    assert any("epsilon_weight is of minimisers" in note for note in noisy.cautions())


def test_a_proximal_term_only_holds_minimisers_nearer_together():
    """By the closed form of ridge regression: mean of (x w - y)²/2 plus penalty/2 w² plus mu/2 (w - start)²."""
    rng, penalty = np.random.default_rng(1), 0.3
    x, y, start = rng.normal(size=20), rng.choice([-1.0, 1.0], 20), 2.0
    other = np.append(-y[:1], y[1:])

    def best(labels, mu):
        return (np.mean(x * labels) + mu * start) / (np.mean(x * x) + penalty + mu)

    moved = [abs(best(y, mu) - best(other, mu)) for mu in (0.0, 0.1, 1.0, 10.0)]
    assert moved == sorted(moved, reverse=True)
