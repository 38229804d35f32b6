"""Clients that send again, in a program of its own: one SimPy process a client and message, nothing of simfl.

Both draw at random by themselves; what they measure agrees within the intervals of 20 seeds.
"""

import csv
from statistics import mean, stdev

import numpy as np
import simpy

from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.support.search import PLUGINS

CLIENTS, K, ROUNDS, LOSS, DEADLINE_S = 20, 6, 40, 0.3, 7.0
ATTEMPTS, TIMEOUT_S, PAUSE_S, SIZE = 4, 1.0, 0.5, 40
SEEDS = 20

TEXT = f"""
name: retry
clients: {CLIENTS}
network: {{name: star, latency_s: {{name: uniform, low: 0.1, high: 0.7}}, loss: {LOSS}}}
devices: {{computation: {{name: random, distribution: {{name: exponential, mean: 0.5}}}}}}
selection: {{name: random, k: {K}}}
training: {{name: fedavg, rounds: {ROUNDS}, on_failure: drop_unit, deadline_s: {DEADLINE_S}}}
learning: {{name: none, parameters: {SIZE // 4}, samples: 5}}
privacy: none
plugins: [own_agents.py]
agents: {{client: {{name: again, attempts: {ATTEMPTS}, pause_s: {PAUSE_S}}}}}
"""


class Federation:
    """A server that waits for K clients each round, and clients that send until they are acknowledged."""

    def __init__(self, seed):
        self.rng, self.env = np.random.default_rng([77, seed]), simpy.Environment()
        self.latency_s = self.rng.uniform(0.1, 0.7, CLIENTS)
        self.mailbox = [simpy.Store(self.env) for _ in range(CLIENTS)]
        self.round, self.heard, self.all_heard = -1, set(), self.env.event()
        self.working: dict[int, simpy.Process] = {}
        self.sent_bytes, self.counts, self.times_s = 0, [], []
        for client in range(CLIENTS):
            self.env.process(self.client(client))
        self.env.run(self.env.process(self.server()))

    def travels(self, client, arrive):
        """A message that may be lost."""
        if self.rng.random() >= LOSS:
            yield self.env.timeout(self.latency_s[client])
            arrive()

    def server(self):
        for self.round in range(ROUNDS):
            self.heard, self.all_heard = set(), self.env.event()
            begun_s, asked = self.env.now, self.rng.choice(CLIENTS, K, replace=False)
            for client in asked:
                put = lambda client=client, number=self.round: self.mailbox[client].put(number)  # noqa: E731
                self.env.process(self.travels(client, put))
            yield self.all_heard | self.env.timeout(DEADLINE_S)
            yield self.env.timeout(0)
            for client in asked:  # who was not heard stops, and forgets what it was asked
                if client not in self.heard:
                    self.mailbox[client].items.clear()
                    if (working := self.working.get(client)) is not None and working.is_alive:
                        working.interrupt()
            self.counts.append(len(self.heard))
            self.times_s.append(self.env.now - begun_s)

    def client(self, client):
        while True:
            number = yield self.mailbox[client].get()
            self.working[client] = self.env.process(self.work(client, number))
            yield self.working[client]

    def work(self, client, number):
        try:
            yield self.env.timeout(self.rng.exponential(0.5))
            for attempt in range(ATTEMPTS):
                self.sent_bytes += SIZE
                acknowledged = self.env.event()
                self.env.process(self.travels(client, lambda told=acknowledged: self.arrive(client, number, told)))
                yield acknowledged | self.env.timeout(TIMEOUT_S)
                if acknowledged.triggered:
                    return
                yield self.env.timeout(PAUSE_S * 2**attempt)
        except simpy.Interrupt:
            return

    def arrive(self, client, number, acknowledged):
        if number == self.round:
            self.heard.add(client)
            if len(self.heard) == K and not self.all_heard.triggered:
                self.all_heard.succeed()
        self.env.process(self.travels(client, lambda: acknowledged.triggered or acknowledged.succeed()))


def simulated(seed, out):
    folder = run(Scenario.parse(TEXT, "t", [f"seed={seed}"], PLUGINS), out / str(seed)).path
    with open(folder / "rounds.csv") as table:
        rows = list(csv.DictReader(table))
    last_s = float(rows[-1]["time_s"])
    return (mean(int(row["cardinality"]) for row in rows), last_s / ROUNDS,
            sum(int(row["bytes_sent_up"]) for row in rows) / ROUNDS)  # fmt: skip


def independent(seed):
    federation = Federation(seed)
    return mean(federation.counts), mean(federation.times_s), federation.sent_bytes / ROUNDS


def test_both_programs_measure_the_same(tmp_path):
    ours, theirs = [simulated(seed, tmp_path) for seed in range(SEEDS)], [independent(seed) for seed in range(SEEDS)]
    for name, here, there in zip(("clients", "seconds", "bytes"), zip(*ours), zip(*theirs), strict=True):
        spread = ((stdev(here) ** 2 + stdev(there) ** 2) / SEEDS) ** 0.5
        assert abs(mean(here) - mean(there)) < 4 * spread, (name, mean(here), mean(there), spread)
        assert spread < 0.03 * mean(there), (name, spread)  # the interval says something
