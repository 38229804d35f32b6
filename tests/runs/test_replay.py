"""Whole runs against a float64 loop written from the definitions: softmax regression, weights, server optimisers.

Who took part, and with which version, is read from the run's tables; everything else is computed here.
"""

import itertools

import numpy as np
import pandas
import pytest

from simfl.results.run_files import participation_matrix
from simfl.runs.run import build, run
from simfl.scenario import Scenario

BASE = """
clients: 12
network: {name: star, latency_s: {name: log_normal, median: 0.1, sigma: 1.0}}
devices:
  availability: {name: bernoulli, dropout: 0.2}
  computation: {name: random, distribution: {name: half_normal, sigma: 1.0}}
  failure: {name: bernoulli, probability: 0.1}
selection: {name: batch_partition, k: 4, T: 2}
learning:
  data: {name: synthetic, samples: 240, test_samples: 40, shape: [5], classes: 3, separation: 1.0}
  partition: {name: dirichlet, beta: 0.5, over: clients}
  model: logistic
"""
LOCAL = "batch_size: null, local_epochs: 3, learning_rate: 0.3"
OPTIMISERS = {
    "plain": "sgd",
    "momentum": "{name: sgd, momentum: 0.6}",
    "adam": "{name: adam, beta1: 0.8, beta2: 0.95, epsilon: 0.01}",
    "yogi": "{name: yogi, beta1: 0.8, beta2: 0.95, epsilon: 0.01}",
    "adagrad": "{name: adagrad, beta1: 0.3, epsilon: 0.01}",
}


class World64:
    """The clients' data and their local training, in float64."""

    def __init__(self, scenario, local_steps=3, rate=0.3):
        learner = build(scenario).learner
        self.split, self.steps, self.rate = learner.partition, local_steps, rate
        self.x = learner.data.x_train.reshape(len(learner.data.x_train), -1).astype(np.float64)
        self.y, self.classes = learner.data.y_train, learner.data.classes
        self.initial = learner.initial().astype(np.float64)
        self.samples = np.array([len(self.split[client]) for client in range(scenario.clients)])

    def trained(self, client, model):
        """Full-batch gradient descent on the cross-entropy of a linear model, from ``model``."""
        held, flat = self.split[client], model.copy()
        if not len(held):
            return flat
        x, y = self.x[held], self.y[held]
        features = x.shape[1]
        for _ in range(self.steps):
            weight = flat[: self.classes * features].reshape(self.classes, features)
            logits = x @ weight.T + flat[self.classes * features :]
            p = np.exp(logits - logits.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[np.arange(len(y)), y] -= 1
            flat = flat - self.rate * np.concatenate([(p.T @ x).ravel(), p.sum(axis=0)]) / len(y)
        return flat


def optimiser(kind, dimension, rate):
    """Reddi et al. 2021, algorithm 2, and Hsu et al. 2019: what a server adds for a pseudo-gradient."""
    beta1, beta2, tau = {"adam": (0.8, 0.95, 0.01), "yogi": (0.8, 0.95, 0.01), "adagrad": (0.3, None, 0.01)}.get(
        kind, (None, None, 0.0)
    )
    m, v = np.zeros(dimension), np.full(dimension, tau**2)

    def step(change):
        nonlocal m, v
        if kind in ("plain", "momentum"):
            m = (0.6 if kind == "momentum" else 0.0) * m + change
            return rate * m
        m = beta1 * m + (1 - beta1) * change
        square = change**2
        if kind == "adagrad":
            v = v + square
        elif kind == "adam":
            v = beta2 * v + (1 - beta2) * square
        else:
            v = v - (1 - beta2) * square * np.sign(v - square)
        return rate * m / (np.sqrt(v) + tau)

    return step


def compare(model, folder, before):
    got = np.load(folder / "model.npy").astype(np.float64)
    assert np.abs(got - before).max() > 0.01, "nothing was learned"
    np.testing.assert_allclose(got, model, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("on_failure", ["drop_unit", "abort", "partial"])
@pytest.mark.parametrize("kind, weighting, rate", [
    ("plain", "samples", 1.0), ("plain", "equal", 0.5), ("momentum", "samples", 0.7), ("adam", "equal", 0.05),
    ("yogi", "samples", 0.05), ("adagrad", "equal", 0.05),
])  # fmt: skip
def test_fedavg(tmp_path, kind, weighting, rate, on_failure):
    """x(t+1) = x(t) + step(sum of w_i (x_i - x(t)) / sum of w_i); a skipped round leaves the model."""
    training = (f"training: {{name: fedavg, rounds: 12, on_failure: {on_failure}, weighting: {weighting}, "
                f"server_learning_rate: {rate}, server_optimiser: {OPTIMISERS[kind]}, {LOCAL}}}\n")  # fmt: skip
    scenario = Scenario.parse(BASE + training, "s")
    folder = run(scenario, tmp_path).path
    rows = participation_matrix(folder / "participation.csv", 12, 12).toarray()
    world = World64(scenario)
    model = world.initial.copy()
    step = optimiser(kind, len(model), rate)
    for row in rows:
        members = np.flatnonzero(row)
        if len(members):
            w = world.samples[members] if weighting == "samples" else np.ones(len(members))
            deltas = np.array([world.trained(client, model) - model for client in members])
            model = model + step(w @ deltas / w.sum())
    compare(model, folder, world.initial)


STALENESS = {
    "constant": ("constant", lambda age: 1.0),
    "polynomial": ("{name: polynomial, alpha: 0.7}", lambda age: (1 + age) ** -0.7),
    "hinge": ("{name: hinge, a: 2.0, b: 1.0}", lambda age: 1.0 if age <= 1 else 1 / (2 * (age - 1) + 1)),
}
CHOICES = list(itertools.islice(itertools.product(
    ["count", "weight_sum", "none"], ["samples", "equal"], ["polynomial", "hinge", "constant"],
    ["deltas", "models"]), None))  # fmt: skip


@pytest.mark.parametrize("arrivals", ["clock", "{name: uniform_staleness, max: 4}"], ids=["clock", "drawn"])
@pytest.mark.parametrize("number", range(0, len(CHOICES), 3))
def test_fedbuff(tmp_path, number, arrivals):
    """x(t+1) = x(t) + step(sum of e_i s(tau_i) d_i / Z), d_i against the version downloaded, or against x(t)."""
    normaliser, weighting, staleness, mix = CHOICES[number]
    text, s = STALENESS[staleness]
    kind = list(OPTIMISERS)[number % 5]
    rate = 0.02 if kind in ("adam", "yogi", "adagrad") else 0.3
    rate /= 100 if normaliser == "none" and weighting == "samples" and kind in ("plain", "momentum") else 1
    options = [{}, {"max_staleness": 2, "too_stale": "clip"}, {"reference_staleness": 1.0},
               {"unit_weights": "own"}, {"partial": "true"}, {"max_staleness": 3}][number % 6]  # fmt: skip
    more = "".join(f", {key}: {value}" for key, value in options.items())
    training = (f"training: {{name: fedbuff, rounds: 20, concurrency: 8, buffer: 4, staleness: {text}, mix: {mix}, "
                f"normaliser: {normaliser}, weighting: {weighting}, server_learning_rate: {rate}, "
                f"server_optimiser: {OPTIMISERS[kind]}, arrivals: {arrivals}, {LOCAL}{more}}}\n")  # fmt: skip
    scenario = Scenario.parse(BASE + training, "s")
    folder = run(scenario, tmp_path).path
    jobs = pandas.read_csv(folder / "jobs.csv")
    used = jobs[jobs.outcome == "aggregated"]
    if "unit_weights" not in options:
        assert (used.staleness == used["round"] - used.version).all()
    world = World64(scenario)
    models = [world.initial.copy()]
    step = optimiser(kind, len(models[0]), rate)
    for t in range(20):
        model, members = models[-1], used[used["round"] == t]
        ages = np.minimum(members.staleness, options["max_staleness"]) if "too_stale" in options else members.staleness
        s_of = np.array([s(age) for age in ages]) / s(options.get("reference_staleness", 0.0))
        e = world.samples[members.client] if weighting == "samples" else np.ones(len(members))
        e = e * (world.samples[members.client] > 0)
        trained = [
            world.trained(i, models[version]) for i, version in zip(members.client, members.version, strict=True)
        ]
        base = [models[version] if mix == "deltas" else model for version in members.version]
        if mix == "models":
            empty = world.samples[members.client] == 0
            trained = [model if nothing else local for local, nothing in zip(trained, empty, strict=True)]
        total = (e * s_of) @ (np.array(trained) - np.array(base))
        count = len(members) if weighting == "equal" else e.sum()
        divisor = {"count": count, "weight_sum": (e * s_of).sum(), "none": 1.0}[normaliser]
        models.append(model + step(total / divisor) if (e * s_of).any() else model)
    assert used.staleness.max() >= 2
    compare(models[-1], folder, world.initial)


@pytest.mark.parametrize("name, alpha", [("fedasync", 0.6), ("fedasync", 0.3)])
def test_fedasync(tmp_path, name, alpha):
    """x <- (1 - a s) x + a s x_i."""
    training = (f"training: {{name: {name}, rounds: 40, concurrency: 6, server_learning_rate: {alpha}, {LOCAL}}}\n"
                "selection: {name: random, k: 4}\n")  # fmt: skip
    text = BASE.replace("selection: {name: batch_partition, k: 4, T: 2}\n", "") + training
    scenario = Scenario.parse(text, "s")
    folder = run(scenario, tmp_path).path
    jobs = pandas.read_csv(folder / "jobs.csv")
    world = World64(scenario)
    models = [world.initial.copy()]
    for job in jobs[jobs.outcome == "aggregated"].sort_values("round").itertuples():
        weight = alpha * (1 + job.round - job.version) ** -0.5 * (world.samples[job.client] > 0)
        models.append((1 - weight) * models[-1] + weight * world.trained(job.client, models[job.version]))
    assert len(models) == 41
    compare(models[-1], folder, world.initial)
