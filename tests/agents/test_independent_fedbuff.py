"""FedBuff and FedAvg in a program of its own: one SimPy process a job, softmax regression by hand, nothing of simfl.

Both draw at random by themselves; times, staleness, who takes part and accuracy agree within the intervals of 20 seeds.
"""

import csv
import json
from statistics import mean, stdev

import numpy as np
import pytest
import simpy
from sklearn.datasets import load_digits

from simfl.runs.run import run
from simfl.scenario import Scenario

SEEDS, CLIENTS, STEPS, RATE, BATCH = 20, 24, 12, 0.1, 10
CONCURRENCY, BUFFER, K = 8, 4, 6

BASE = f"""
name: independent
clients: {CLIENTS}
network: {{name: star, latency_s: {{name: uniform, low: 0.1, high: 0.5}}}}
devices: {{computation: {{name: random, distribution: {{name: exponential, mean: 1.0}}}}}}
learning: {{data: digits, model: logistic}}
privacy: none
"""
FEDBUFF = f"""
selection: {{name: random, k: 1}}
training: {{name: fedbuff, rounds: {STEPS}, concurrency: {CONCURRENCY}, buffer: {BUFFER}, lookahead: 1,
  weighting: equal, staleness: {{name: polynomial, alpha: 0.5}}, batch_size: {BATCH}, learning_rate: {RATE}}}
"""
FEDAVG = f"""
selection: {{name: random, k: {K}}}
training: {{name: fedavg, rounds: {STEPS}, weighting: equal, batch_size: {BATCH}, learning_rate: {RATE}}}
"""


class Federation:
    """Data, clients and a model; what a server does with them, its classes say."""

    def __init__(self, seed):
        self.rng, self.env = np.random.default_rng([55, seed]), simpy.Environment()
        pixels, labels = load_digits(return_X_y=True)
        pixels = (pixels - pixels.mean()) / pixels.std()
        order = self.rng.permutation(len(labels))
        test, train = order[: len(labels) // 5], order[len(labels) // 5 :]
        self.test = pixels[test], labels[test]
        self.shards = [(pixels[part], labels[part]) for part in np.array_split(train, CLIENTS)]
        self.way_s = self.rng.uniform(0.1, 0.5, CLIENTS)
        self.model = self.rng.uniform(-1 / 8, 1 / 8, (65, 10))
        self.version, self.ages, self.taken = 0, [], np.zeros(CLIENTS, dtype=int)

    def trained(self, model, client):
        """One pass of plain SGD; the last row of the model is the bias."""
        pixels, labels = self.shards[client]
        order, model = self.rng.permutation(len(labels)), model.copy()
        for first in range(0, len(order), BATCH):
            some = order[first : first + BATCH]
            inputs = np.hstack([pixels[some], np.ones((len(some), 1))])
            scores = inputs @ model
            chances = np.exp(scores - scores.max(axis=1, keepdims=True))
            chances /= chances.sum(axis=1, keepdims=True)
            chances[np.arange(len(some)), labels[some]] -= 1
            model -= RATE * inputs.T @ chances / len(some)
        return model

    def accuracy(self):
        pixels, labels = self.test
        return float(((pixels @ self.model[:-1] + self.model[-1]).argmax(axis=1) == labels).mean())

    def job(self, client):
        """A model goes out, is trained, and comes back: what changed, and how old it is."""
        base, version = self.model, self.version
        yield self.env.timeout(self.way_s[client])
        yield self.env.timeout(self.rng.exponential(1.0))
        yield self.env.timeout(self.way_s[client])
        return self.trained(base, client) - base, version


class Buffered(Federation):
    """A step whenever four updates have come; eight clients at work."""

    def __init__(self, seed):
        super().__init__(seed)
        self.busy, self.buffer, self.over = set(), [], self.env.event()
        for _ in range(CONCURRENCY):
            self.start()
        self.env.run(self.over)

    def start(self):
        client = int(self.rng.choice(sorted(set(range(CLIENTS)) - self.busy)))
        self.busy.add(client)
        self.env.process(self.work(client))

    def work(self, client):
        change, version = yield self.env.process(self.job(client))
        self.buffer.append((client, change, version))
        if len(self.buffer) == BUFFER:
            ages = [self.version - begun for _, _, begun in self.buffer]
            steps = [change * (1 + age) ** -0.5 for age, (_, change, _) in zip(ages, self.buffer, strict=True)]
            self.model, self.version = self.model + sum(steps) / BUFFER, self.version + 1
            self.ages += ages
            for member, _, _ in self.buffer:
                self.taken[member] += 1
                self.busy.discard(member)
            self.buffer = []
            if self.version == STEPS:
                self.over.succeed()
                return
        self.start()


class Synchronous(Federation):
    """Rounds that wait for all."""

    def __init__(self, seed):
        super().__init__(seed)
        self.env.run(self.env.process(self.rounds()))

    def rounds(self):
        for _ in range(STEPS):
            chosen = self.rng.choice(CLIENTS, K, replace=False)
            jobs = [self.env.process(self.job(int(client))) for client in chosen]
            yield simpy.AllOf(self.env, jobs)
            self.model = self.model + sum(job.value[0] for job in jobs) / K
            self.taken[chosen] += 1


def simulated(text, seed, out):
    folder = run(Scenario.parse(BASE + text, "t", [f"seed={seed}"]), out).path
    summary = json.loads((folder / "summary.json").read_text())
    with open(folder / "participation.csv") as rows:
        taken = np.bincount([int(row["client"]) for row in csv.DictReader(rows)], minlength=CLIENTS)
    ages = summary.get("staleness_histogram", [1])
    age = sum(i * count for i, count in enumerate(ages)) / sum(ages)
    return summary["time_s"], age, float((taken > 0).mean()), summary["test_accuracy"]


def independent(kind, seed):
    federation = kind(seed)
    age = mean(federation.ages) if federation.ages else 0.0
    return federation.env.now, age, float((federation.taken > 0).mean()), federation.accuracy()


NAMES = ("seconds", "staleness", "took part", "accuracy")


@pytest.mark.parametrize(("text", "kind"), [(FEDBUFF, Buffered), (FEDAVG, Synchronous)])
def test_both_programs_measure_the_same(text, kind, tmp_path):
    ours = [simulated(text, seed, tmp_path) for seed in range(SEEDS)]
    theirs = [independent(kind, seed) for seed in range(SEEDS)]
    for name, here, there in zip(NAMES, zip(*ours), zip(*theirs), strict=True):
        spread = ((stdev(here) ** 2 + stdev(there) ** 2) / SEEDS) ** 0.5
        assert abs(mean(here) - mean(there)) <= 4 * spread, (name, mean(here), mean(there), spread)
        assert spread < 0.06 * max(mean(there), 1e-9) or spread == 0, (name, spread)
