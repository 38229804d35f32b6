"""Of which noise an epsilon of output perturbation may speak: of what nobody knows, and nobody has clipped."""

from collections import Counter
from itertools import product
from math import inf, log, sqrt

import numpy as np
import pytest
import torch
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from simfl.clients.base import CLIENTS, PERSONAL, ClientAlgorithm
from simfl.clients.local_training import PlainSgd
from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.learning.work import largest_move
from simfl.papers.privacyfl.output_perturbation import OutputPerturbation
from simfl.privacy.stage import Members
from simfl.runs.run import build, run
from simfl.scenario import Scenario
from simfl.training.fedavg import FedAvg
from tests.plugins.test_public_interface import rows

BASE = """
clients: 3
selection: all
devices: {computation: 1}
training: {name: fedavg, rounds: 2, weighting: equal, weight_decay: 0.1, batch_size: null,
           learning_rate: 0.02}
learning: {data: digits, model: logistic, evaluate: {every: 0}}
privacy: {stages: [{name: output_perturbation, epsilon: 1, samples: 479, alpha: 0.1, noise_scale: calibrated}]}
"""
SERVERLESS = (
    "training={name: serverless, rounds: 2, weighting: equal, weight_decay: 0.1, batch_size: null, learning_rate: 0.02}"
)


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
    apart = tuple(np.arange(30) + 30 * client for client in range(n))
    about = {"examples": np.full(n, 30), "slope": 1.0, "positions": apart}
    return Members(0, jobs, np.ones(n), float(n), **about | known)


def stage(**keys):
    return OutputPerturbation(epsilon=1.0, samples=30, noise_scale="calibrated", penalty=1.0, **keys)


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


def test_shares_that_are_rounded_one_by_one_cover_less():
    """By simulation: three shares of scale 0.1, rounded at random to whole numbers; and to steps of 0.0003."""
    rng, n, draws = np.random.default_rng(0), 3, 400_000
    noise = rng.gamma(1 / n, 0.1, (n, draws)) - rng.gamma(1 / n, 0.1, (n, draws))
    coin = rng.random((n, draws))

    def nearby(first, step):
        sums = step * np.floor((noise + [[first], [0.0], [0.0]]) / step + coin).sum(axis=0)
        return np.histogram(sums, bins=7 if step == 1 else 12, range=(-3.5, 3.5) if step == 1 else (-0.3, 0.3))[0] + 30

    loss = {step: np.abs(np.log(nearby(0.1, step) / nearby(0.0, step))).max() for step in (1.0, 0.0003)}
    assert loss[1.0] > 1.15 and loss[0.0003] < 1.05  # of 1.0, as the scale has it
    scale = stage().scales(summed(1).jobs)[0]
    assert of_weight(summed(3, step=scale / 400)) == pytest.approx(1.0)
    assert of_weight(summed(3, step=10 * scale)) == inf
    assert of_weight(summed(3, step=10 * scale), adds="whole") == pytest.approx(1.0)


def test_a_coarse_scale_leaves_no_finite_epsilon(tmp_path):
    keys = ["secagg={name: secagg, scale: 1}", "training.on_failure=drop_unit"]
    assert [found[:2] for found in epsilons(tmp_path, *keys)] == [(inf, inf)] * 2
    assert all(weight < inf for weight, _, _ in epsilons(tmp_path, "secagg=secagg"))


def test_without_a_server_clients_know_their_own_noise_or_see_each_update(tmp_path):
    ratchet = ["secagg={name: pairwise_ratchet, clip: 1000}"]
    (server, _, _), *_ = epsilons(tmp_path / "server", *ratchet)
    for weight, model, clipped in epsilons(tmp_path / "ratchet", SERVERLESS, *ratchet):
        peak = density(0.0, 2 / 3)
        assert weight == pytest.approx(log(peak / density(server, 2 / 3)), rel=1e-3)
        assert model > sqrt(650) * server and clipped == 0
    assert epsilons(tmp_path / "plain", SERVERLESS, "secagg=plain") == [(inf, inf, 0)] * 2
    two = [SERVERLESS, "clients=2", *ratchet]
    assert [found[:2] for found in epsilons(tmp_path / "two", *two)] == [(inf, inf)] * 2
    for keys in ([SERVERLESS, "secagg=plain"], two):
        notes = Scenario.parse(BASE, "output", keys).cautions()
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


@pytest.mark.parametrize("execute", ["true", "cost_only"])
@pytest.mark.parametrize("arrivals", ["", ", arrivals: {name: uniform_staleness, max: 1}"])
def test_a_buffer_whose_noise_was_clipped_has_no_finite_epsilon(tmp_path, execute, arrivals):
    training = "{name: fedbuff, rounds: 2, buffer: 3, staleness: constant, weighting: equal, weight_decay: 0.1"
    keys = [
        f"training={training}, batch_size: null{arrivals}}}",
        f"secagg={{name: basecagg, execute: {execute}, clip: 0.05}}",
    ]
    for weight, model, clipped in epsilons(tmp_path, *keys):
        assert (weight, model) == (inf, inf) and clipped > 0


def test_the_same_noise_again_is_not_free_where_it_is_clipped_now():
    """Updates are differences to a model that moves: other coordinates lie beyond the clip than before."""
    again, members = stage(rounds=1), summed(3)._replace(examples=np.full(3, 30))
    _, state = again.server(np.zeros(1, np.float32), members, again.start(1), Streams(0))
    later = members._replace(jobs=tuple(Job.of(1, client, 1, 0.0) for client in range(3)))
    assert again.facts(later, state)["epsilon_weight"] == 0.0
    clipped = later._replace(clipped=1)
    assert again.facts(clipped, state)["epsilon_weight"] == inf
    assert stage(rounds=1, adds="whole").facts(clipped, state)["epsilon_weight"] == 0.0
    shares = stage(rounds=1, mechanism="gaussian")
    one = shares.facts(members._replace(clipped=1), state)["epsilon_weight"]
    assert shares.facts(members, state)["epsilon_weight"] < one == shares.facts(clipped, state)["epsilon_weight"] < inf


# -- client algorithms ------------------------------------------------------------------------------------

NOT_OF_SGD = {"fedltn", "jump_start", "lotteryfl", "scaffold", "local", "fedbn", "private_layers"}
"""They prune, shift gradients by what data have said, start from layers of their own, or send nothing; a plugin's
algorithm that says nothing, too.
"""


@pytest.mark.parametrize("name, registry", [*((name, CLIENTS) for name in CLIENTS), *((n, PERSONAL) for n in PERSONAL)])
def test_algorithms_say_whether_they_send_what_sgd_left(name, registry):
    algorithm = registry.of({"name": name, **getattr(registry[name], "example", {})}).combine(PlainSgd())
    assert algorithm.descends == (name not in NOT_OF_SGD)
    assert not (algorithm.minimises or ClientAlgorithm.minimises or ClientAlgorithm.descends)


def test_a_start_that_knows_of_earlier_noise_is_not_covered():
    """A model less a client's own noise says by how much its data moved the sum before."""
    for scratch, subtract in product((True, False), repeat=2):
        client = CLIENTS.of({"name": "privacyfl", "from_scratch": scratch, "subtract_own_noise": subtract})
        assert client.descends == (scratch or not subtract)


PRUNING = """
clients: 2
selection: all
devices: {computation: 1}
training: {name: fedavg, rounds: 1, weighting: equal, weight_decay: 0.5, local_epochs: 60, batch_size: null,
           learning_rate: 0.02}
learning: {data: digits, model: logistic, holdout: {validation: 0.1}, evaluate: {every: 0}}
privacy: {stages: [{name: output_perturbation, epsilon: 1, samples: 600, alpha: 0.5, noise_scale: calibrated}]}
"""
FEDLTN = "training.personal={name: fedltn, compress: false, threshold: 0.3, step: 0.5, pull: 0}"


def test_a_model_that_data_decide_to_prune_has_no_epsilon_of_a_minimiser(tmp_path):
    """One sample more or less that is classified rightly prunes half of all weights or none."""
    whole = PRUNING.replace("holdout: {validation: 0.1}, ", "")
    assert all(weight < inf for weight, _, _ in epsilons(tmp_path / "plain", text=whole))
    assert epsilons(tmp_path / "split", text=PRUNING) == [(inf, inf, 0)], "a label decides which samples are for it"
    assert epsilons(tmp_path / "pruned", FEDLTN, text=PRUNING) == [(inf, inf, 0)]
    pruned = Scenario.parse(PRUNING, "output", [FEDLTN])
    assert any("what one sample does" in note and "infinite" in note for note in pruned.cautions())
    assert not any("what one sample does" in note for note in Scenario.parse(whole, "output").cautions())
    oblivious = "secagg={name: oblivious, epsilon: 1, samples: 600}"
    noisy = Scenario.parse(PRUNING, "output", [FEDLTN, oblivious, "privacy.stages=[]"])
    assert any("what one sample does" in note and "epsilon_weight" in note for note in noisy.cautions())


# -- what SGD allows one sample to do ---------------------------------------------------------------------

TINY = """
clients: 2
selection: all
devices: {computation: 1}
training: {name: fedavg, rounds: 1, weighting: equal}
learning: {data: {name: npz, path: PATH}, model: MODEL, evaluate: {every: 0}}
privacy: {stages: [{name: output_perturbation, epsilon: 1, samples: 5, noise_scale: calibrated}]}
"""
TRAININGS = [  # of a smoothness of 5/2 (softmax) or 5/4, so that rates up to 0.7 fit with these penalties
    {"local_epochs": 1, "batch_size": None, "learning_rate": 0.3},
    {"local_epochs": 40, "batch_size": None, "learning_rate": 0.3, "weight_decay": 0.2},
    {"local_epochs": 40, "batch_size": None, "learning_rate": 0.7},
    {"local_epochs": 20, "batch_size": 2, "learning_rate": 0.3, "weight_decay": 0.1},
    {"local_epochs": 20, "batch_size": 2, "learning_rate": 0.3, "shuffle": False},
    {"local_steps": 7, "batch_size": 2, "learning_rate": 0.5, "weight_decay": 0.1},
    {"local_epochs": 30, "batch_size": 1, "learning_rate": 0.1, "client": {"name": "fedprox", "mu": 0.5}},
    {"local_epochs": 10, "batch_size": 2, "learning_rate": 0.3, "client": {"name": "privacyfl", "from_scratch": True}},
    {"local_epochs": 10, "batch_size": 2, "learning_rate": 0.3, "personal": {"name": "ditto"}},
]


@pytest.mark.parametrize("model", ["logistic", "binary_logistic"])
@pytest.mark.parametrize("training", range(len(TRAININGS)))
def test_no_replaced_sample_moves_a_trained_model_further_than_the_bound(training, model, tmp_path):
    """Ten samples, one of which is replaced by the worst that a search finds; five are with its client. Both worlds
    draw the same streams, so that it stands in the same mini-batches. Samples are as long as any may be.
    """
    rng, path = np.random.default_rng(training), tmp_path / "data.npz"
    test = {"x_test": np.eye(2, dtype=np.float32), "y_test": np.array([0, 1])}
    np.savez(path, x_train=rng.normal(size=(10, 2)).astype(np.float32), y_train=np.arange(10) % 2, **test)
    document = yaml.safe_load(TINY.replace("PATH", str(path)).replace("MODEL", model))
    document["training"] |= TRAININGS[training]
    learner = build(Scenario.parse(yaml.safe_dump(document), "tiny", folder=tmp_path)).learner

    def around(angles):
        return np.stack([2 * np.cos(angles), 2 * np.sin(angles)], axis=-1).astype(np.float32)

    def put(place, angle, label):
        learner.task.x[place], learner.task.y[place] = torch.from_numpy(around(angle)), int(label)
        learner.data.x_train[place] = around(angle)

    def moved(place, begin, one, other):
        ends = []
        job = Job.of(0, int(place not in learner.partition.samples_at(0, 0)), 0, 0.0)
        for sample in (one, other):
            put(place, *sample)
            (done,) = learner.runner.train([job], {0: begin})
            ends.append(done.result.upload.update.astype(np.float64))
        return float(np.linalg.norm(ends[0] - ends[1]))

    best = 0.0
    for place in range(10):
        for i, angle in enumerate(rng.uniform(0, 2 * np.pi, 10)):
            put(i, angle, rng.integers(2))
        angle, begin = rng.uniform(0, 2 * np.pi), np.zeros(learner.dimension, np.float32)
        for _ in range(6):  # climbs: another start, another angle; the class always changes
            tried, near = (begin + rng.normal(size=len(begin))).astype(np.float32), angle + rng.normal() * 0.5
            if (far := moved(place, tried, (near, 0), (near, 1))) > best:
                best, angle, begin = far, near, tried
    bound = float(learner.sample_moves([Job.of(0, 0, 0, 0.0)])[0])
    assert 0.05 * bound < best <= bound * (1 + 1e-4), best / bound


@pytest.mark.parametrize("shuffle", [True, False])
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 2), st.none() | st.integers(1, 9),
       st.sampled_from([0.0, 0.3]))  # fmt: skip
def test_the_bound_is_that_of_the_worst_places_of_the_sample(shuffle, samples, batch, epochs, steps, penalty):
    """All places that it can have in all passes, step by step, without a formula."""
    local = FedAvg(rounds=1, local_epochs=epochs, local_steps=steps, batch_size=batch, shuffle=shuffle,
                   learning_rate=0.1, weight_decay=penalty)  # fmt: skip
    starts = list(range(0, samples, batch))
    sizes = [min(batch, samples - start) for start in starts]
    total = steps or epochs * len(starts)
    passes, worst = -(-total // len(starts)), 0.0
    assume(len(starts) ** passes <= 300)
    for places in product(range(len(starts)), repeat=passes) if shuffle else ([j] * passes for j in range(len(starts))):
        apart = 0.0
        for step in range(total):
            turn, place = divmod(step, len(starts))
            apart = (1 - 0.1 * penalty) * apart + (place == places[turn]) * 2 * 0.1 * 3.0 / sizes[place]
        worst = max(worst, apart)
    assert largest_move(local, samples, 0, 3.0, 1.0) == pytest.approx(worst)
    assert largest_move(local, samples, 0, 3.0, 25.0) == inf and largest_move(local, 0, 0, 3.0, 1.0) == 0.0


# -- samples that several clients hold --------------------------------------------------------------------

KEYS = [{}, {"mechanism": "gaussian"}, {"adds": "whole"}, {"adds": "whole", "mechanism": "staircase"}]


def places(*each):
    return tuple(np.array(part, dtype=np.int64) for part in each)


@pytest.mark.parametrize("keys", KEYS)
def test_a_sample_of_several_clients_costs_what_its_copies_cost(keys):
    """Against clients that are moved as often, each by a sample of its own."""
    apart = places(range(30), range(30, 60), range(60, 90))
    assert of_weight(summed(3, positions=apart), **keys) == of_weight(summed(3), **keys)
    shared = places(range(30), [0, *range(31, 60)], [0, *range(61, 90)])
    twice = places([0, 0, *range(2, 30)], range(30, 60), [0, *range(61, 90)])
    of_all = of_weight(summed(3, positions=shared), **keys)
    assert of_weight(summed(3, positions=twice), **keys) == pytest.approx(of_all)
    if keys.get("mechanism") == "gaussian":
        std = stage(**keys).scales(summed(1).jobs)[0]
        assert of_all == pytest.approx(gaussian_epsilon(3 * 2 / 30 / std), rel=1e-4)
    else:
        assert of_all == pytest.approx(3 * of_weight(summed(3), **keys))
    only = summed(3, positions=shared)._replace(weights=np.array([1.0, 1.0, 0.0]))
    assert of_weight(only, adds="whole") == pytest.approx(2.0)


@pytest.mark.parametrize("partition, most", [
    ("iid", 1.0), ("{name: data_sharing, shared: 2}", 2.9), ("{name: bootstrap, samples: 479}", 3.0),
    ("{name: resampled, samples: 900}", 2.9),
])  # fmt: skip
def test_runs_count_the_copies_that_their_partition_makes(tmp_path, partition, most):
    """The bounds of all copies of the worst sample, added up by hand, in scales of the noise."""
    made = Scenario.parse(BASE, "output", [f"learning.partition={partition}"])
    data, split = build(made).learner.data, build(made).learner.partition
    slope = sqrt(2 * (np.linalg.norm(data.x_train.reshape(len(data.x_train), -1), axis=1).max() ** 2 + 1))
    for version, (found, _, _) in enumerate(epsilons(tmp_path, f"learning.partition={partition}")):
        costs = Counter()
        for client in range(3):
            mine = split.samples_at(client, version).tolist()
            for place in mine:
                costs[place] += 2 * 0.02 * slope / len(mine)
        assert found == pytest.approx(max(costs.values()) / (2 / (479 * 0.1)))
        assert max(costs.values()) >= most * min(costs.values())


def test_the_sum_moves_as_far_as_all_copies_allow_and_further_than_one_client():
    """Six minimisers of the logistic loss, of four samples each, who share one whose label changes."""
    from scipy.optimize import minimize

    rng, long, alpha = np.random.default_rng(0), 3.0, 1.0
    one = np.array([long, 0.0, 0.0])
    others = [(rng.normal(size=(3, 3)) * 0.3, rng.choice([-1.0, 1.0], 3)) for _ in range(6)]

    def best(x, y):
        def loss(w):
            return np.logaddexp(0, -y * (x @ w[:-1] + w[-1])).mean() + alpha / 2 * w @ w

        return minimize(loss, np.zeros(4), tol=1e-12).x

    moved = sum(
        best(np.vstack([x, one]), np.append(y, 1.0)) - best(np.vstack([x, one]), np.append(y, -1.0)) for x, y in others
    )
    bound = 2 * sqrt(long**2 + 1) / (4 * alpha)
    assert bound < np.linalg.norm(moved) < 6 * bound
