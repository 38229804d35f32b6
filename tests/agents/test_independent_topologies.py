"""Edges and gossip in programs of their own: one SimPy process a client and edge, nothing of simfl.

All draw at random by themselves; what they measure agrees within the intervals of 20 seeds.
"""

import csv
import json
from statistics import mean, stdev

import numpy as np
import simpy

from simfl.runs.run import run
from simfl.scenario import Scenario

SEEDS, CLIENTS, ROUNDS = 20, 18, 12
EDGES, INNER, K, EDGE_WAY_S, DROPOUT, DEATH = 3, 2, 4, 0.6, 0.3, 0.15

TREE = f"""
name: tree
clients: {CLIENTS}
topology: {{name: tree, edges: {EDGES}, edge_rounds: {INNER}, latency_s: {EDGE_WAY_S}}}
network: {{name: star, latency_s: {{name: uniform, low: 0.1, high: 0.7}}}}
devices:
  computation: {{name: random, distribution: {{name: exponential, mean: 0.8}}}}
  availability: {{name: bernoulli, dropout: {DROPOUT}}}
  failure: {{name: bernoulli, probability: {DEATH}}}
selection: {{name: random, k: {K}}}
training: {{name: fedavg, rounds: {ROUNDS}, skipped_round_s: 0.9}}
learning: {{name: none, parameters: 10, samples: 5}}
privacy: none
"""
GOSSIP = f"""
name: gossip
clients: {CLIENTS}
topology: {{name: gossip, graph: ring, exchange: EXCHANGE}}
network: {{name: star, latency_s: {{name: uniform, low: 0.1, high: 0.7}}}}
devices: {{computation: {{name: random, distribution: {{name: exponential, mean: 0.8}}}}}}
selection: {{name: random, k: 7}}
training: {{name: fedavg, rounds: {ROUNDS}}}
learning: {{name: none, parameters: 10, samples: 5}}
privacy: none
"""


class Hierarchy:
    """A cloud that waits for all of its edges, and edges that wait for all of their clients."""

    def __init__(self, seed):
        self.rng, self.env = np.random.default_rng([91, seed]), simpy.Environment()
        self.way_s = self.rng.uniform(0.1, 0.7, CLIENTS)
        self.counts, self.inner_s, self.clients_of = [], [], np.array_split(np.arange(CLIENTS), EDGES)
        self.env.run(self.env.process(self.cloud()))

    def cloud(self):
        for _ in range(ROUNDS):
            self.members = set()
            edges = [self.env.process(self.edge(own)) for own in self.clients_of]
            yield simpy.AllOf(self.env, edges)
            self.counts.append(len(self.members))

    def edge(self, own):
        yield self.env.timeout(EDGE_WAY_S)
        for _ in range(INNER):
            begun_s = self.env.now
            here = own[self.rng.random(len(own)) >= DROPOUT]
            if len(here) < K:
                yield self.env.timeout(0.9)
            else:
                chosen = self.rng.choice(here, K, replace=False)
                yield simpy.AllOf(self.env, [self.env.process(self.client(who)) for who in chosen])
            self.inner_s.append(self.env.now - begun_s)
        yield self.env.timeout(EDGE_WAY_S)

    def client(self, who):
        yield self.env.timeout(self.way_s[who])
        work_s = self.rng.exponential(0.8)
        if self.rng.random() < DEATH:
            yield self.env.timeout(work_s * self.rng.random())
        else:
            yield self.env.timeout(work_s)
            self.members.add(int(who))
        yield self.env.timeout(self.way_s[who])


class Ring:
    """Clients that train, and go on when they have heard from those of their two neighbours who train, too."""

    def __init__(self, seed, exchange):
        self.rng, self.env, self.exchange = np.random.default_rng([92, seed]), simpy.Environment(), exchange
        self.way_s = self.rng.uniform(0.1, 0.7, CLIENTS)
        self.trained = [set(self.rng.choice(CLIENTS, 7, replace=False).tolist()) for _ in range(ROUNDS)]
        self.done = [{who: self.env.event() for who in trained} for trained in self.trained]
        self.heard = 0
        self.env.run(simpy.AllOf(self.env, [self.env.process(self.client(who)) for who in range(CLIENTS)]))

    def client(self, who):
        for trained, done in zip(self.trained, self.done, strict=True):
            waits = [self.env.process(self.work(done[who]))] if who in trained else []
            for neighbour in {(who - 1) % CLIENTS, (who + 1) % CLIENTS} & trained:
                waits.append(self.env.process(self.hear(self.way_s[who] + self.way_s[neighbour], done[neighbour])))
            self.heard += len(waits)
            yield simpy.AllOf(self.env, waits)

    def work(self, done):
        yield self.env.timeout(self.rng.exponential(0.8))
        done.succeed()

    def hear(self, way_s, done):
        if self.exchange == "pull":
            yield self.env.timeout(way_s)
        yield done
        yield self.env.timeout(way_s)


def table(folder, name):
    with open(folder / name) as rows:
        return list(csv.DictReader(rows))


def assert_agree(names, ours, theirs, share):
    """The means of 20 seeds are no further apart than four standard errors, which are small."""
    for name, here, there in zip(names, zip(*ours), zip(*theirs), strict=True):
        spread = ((stdev(here) ** 2 + stdev(there) ** 2) / SEEDS) ** 0.5
        assert abs(mean(here) - mean(there)) < 4 * spread, (name, mean(here), mean(there), spread)
        assert spread < share * mean(there), (name, spread)


def test_edges(tmp_path):
    ours = []
    for seed in range(SEEDS):
        folder = run(Scenario.parse(TREE, "t", [f"seed={seed}"]), tmp_path).path
        rows, inner = table(folder, "rounds.csv"), table(folder, "aggregations.csv")
        ours.append((mean(int(row["cardinality"]) for row in rows), float(rows[-1]["time_s"]) / ROUNDS,
                     mean(int(row["clients"]) for row in inner)))  # fmt: skip
    theirs = []
    for seed in range(SEEDS):
        tree = Hierarchy(seed)
        in_sums = K * (1 - DEATH) * (1 - _too_few())
        theirs.append((mean(tree.counts), tree.env.now / ROUNDS, in_sums + 1e-6 * seed))
    assert_agree(("clients in a round", "seconds"), [each[:2] for each in ours], [each[:2] for each in theirs], 0.03)
    assert abs(mean(each[2] for each in ours) - mean(each[2] for each in theirs)) < 0.1


def _too_few():
    """The probability that fewer than K clients of an edge are available."""
    from math import comb

    n = CLIENTS // EDGES
    return sum(comb(n, i) * (1 - DROPOUT) ** i * DROPOUT ** (n - i) for i in range(K))


def test_gossip_on_a_ring(tmp_path):
    for exchange in ("push", "pull"):
        ours, theirs = [], []
        for seed in range(SEEDS):
            text = GOSSIP.replace("EXCHANGE", exchange)
            folder = run(Scenario.parse(text, "t", [f"seed={seed}", "trace=events"]), tmp_path / exchange).path
            rows = table(folder, "rounds.csv")
            heard = len(table(folder, "participation.csv")) / ROUNDS / CLIENTS
            ours.append((heard, float(rows[-1]["time_s"]) / ROUNDS))
            ring = Ring(seed, exchange)
            theirs.append((ring.heard / ROUNDS / CLIENTS, ring.env.now / ROUNDS))
            events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
            assert sum(each["event"] == "message" for each in events) == 14 * ROUNDS
        assert_agree(("seconds",), [each[1:] for each in ours], [each[1:] for each in theirs], 0.05)
        assert abs(mean(each[0] for each in ours) - mean(each[0] for each in theirs)) < 1e-9
