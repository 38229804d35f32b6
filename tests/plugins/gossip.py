"""Training without a server: on a ring, every client averages its own model with its two neighbours'."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simfl.agents import SERVERS, Cost, Parts, Round, Summing
from simfl.agents.exchange import computation, message
from simfl.local import LocalTraining
from simfl.metrics import Tally
from simfl.rng import Address
from simfl.secagg.base import Summed
from simfl.training.base import RULES, Progress
from simfl.training.server import ServerStep
from simfl.training.stop import Schedule
from simfl.types import Job
from simfl.world import World


@RULES("gossip")
@dataclass(frozen=True, kw_only=True)
class Gossip(Schedule, LocalTraining, ServerStep):
    """Every round every client trains its own model, sends its update to both neighbours and averages what it gets."""

    server = "ring"
    many_aggregators = True
    example = {"rounds": 2}


@SERVERS("ring")
@dataclass(eq=False)
class Ring:
    """All clients at once; the models are one array, clients by parameters."""

    parts: Parts
    world: World
    on_round: Callable[[Round], None]
    log: Any = None
    models: Any = field(init=False)

    def __post_init__(self):
        n = self.parts.clients
        self.tally, self.summing = Tally(n), Summing(self.parts)
        self.models = np.tile(self.parts.learner.initial(), (n, 1))
        self.traffic_bytes = 0

    @property
    def model(self):
        return self.models.mean(axis=0, dtype=np.float32)

    def play(self):
        last = False
        while not last:
            done = yield from self._round(self.tally.rounds)
            last = done.last
            self.on_round(done)

    def _round(self, t):
        parts, n, learner = self.parts, self.parts.clients, self.parts.learner
        everybody = np.arange(n, dtype=np.int32)
        for client, model in enumerate(self.models):
            learner.put(t * n + client, model)
        jobs = [Job((t << 32) | client, client, t * n + client, self.world.now) for client in range(n)]
        where = Address(t, everybody, n)
        samples = learner.samples
        compute = parts.computing.duration_s(everybody, samples, parts.rule.epochs(samples), where)
        sent = self.world.now + compute
        sides = [(everybody + step) % n for step in (1, n - 1)]
        arrives = [
            sent + parts.links.between_s(everybody, to, learner.model_bytes, where, f"/{side}")
            for side, to in enumerate(sides)
        ]
        self._note("round_start", round=t)
        yield self.world.until(float(np.max(arrives)))
        self._tell(jobs, sent, sides, arrives)
        updates = self.summing.train(jobs)
        rows = []
        for client in range(n):
            circle = sorted({client, (client + 1) % n, (client - 1) % n})
            models = self.models[circle] + updates.deltas[circle]
            given = type(updates)(models - self.models[client], updates.examples[circle], updates.loss[circle])
            chosen = [jobs[i] for i in circle]
            none_stale = np.zeros(len(circle), dtype=np.int64)
            found = self.summing.sum(t, chosen, given, none_stale, self.models[client], Summed(np.ones(1, bool)))
            if found is not None:  # somebody of the circle holds samples
                rows.append((client, found))
        before, self.models = self.models, self.models.copy()
        for client, found in rows:
            self.models[client], _ = parts.rule.step(before[client], found.change, {})
            learner.drop(t * n + client)
        clients = np.concatenate([np.empty(0, np.int32), *(found.total.clients for _, found in rows)])
        weights = np.concatenate([np.empty(0), *(found.total.weights for _, found in rows)])
        who = np.repeat([client for client, _ in rows], [len(found.total.clients) for _, found in rows])
        self.tally.add(np.unique(clients))
        sent_bytes = 2 * n * learner.model_bytes
        self.traffic_bytes += sent_bytes
        learner.put(-1, self.model)
        last = parts.rule.ends(Progress(t + 1, self.tally.aggregated, self.world.now, self.traffic_bytes, None))
        who_took_part = {"mean_cardinality": self.tally.mean_cardinality, "fairness_gap": self.tally.fairness_gap}
        row = {
            "round": t,
            "time_s": self.world.now,
            "skipped": int(not len(clients)),
            "cardinality": self.tally.latest,
            **who_took_part,
            **Cost(0, 0, sent_bytes).row(),
            "train_loss": updates.mean_loss,
            **learner.evaluate(-1),
        }
        self._note("round_end", round=t, cardinality=self.tally.latest)
        return Round(t, clients, weights, row, last, aggregators=who)

    def _note(self, event, **record):
        if self.log is not None:
            self.log({"event": event, "time_s": self.world.now, **record})

    def _tell(self, jobs, sent, sides, arrives):
        if self.log is None:
            return
        for job, ended in zip(jobs, sent.tolist()):
            self.log(computation(job.id, job.client, job.started_at, ended, True))
        for to, arrived in zip(sides, arrives):
            for job, *way in zip(jobs, to.tolist(), sent.tolist(), arrived.tolist()):
                peer, left, there = way
                self.log(message("update", job.client, peer, self.parts.learner.model_bytes, left, there))

    def state(self):
        return {"time_s": np.float64(self.world.now), "rounds": np.int64(self.tally.rounds), "models": self.models,
                "traffic_bytes": np.int64(self.traffic_bytes)}  # fmt: skip

    def restore(self, state, tally):
        self.tally, self.models = tally, np.array(state["models"])
        self.traffic_bytes = int(state["traffic_bytes"])
