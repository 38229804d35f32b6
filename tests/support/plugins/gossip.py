"""Training without a server: on a ring, every client averages its own model with its two neighbours'."""

from dataclasses import dataclass

import numpy as np

from simfl.plugins import Address
from simfl.plugins.servers import SERVERS, OwnModelsServer, computation, message
from simfl.plugins.training import RULES, SgdRule


@RULES("ring_gossip")
@dataclass(frozen=True, kw_only=True)
class Gossip(SgdRule):
    """Every round every client trains its own model, sends its update to both neighbours and averages what it gets."""

    server = "ring"
    many_aggregators = own_models = True
    example = {"rounds": 2}


@SERVERS("ring")
@dataclass(eq=False)
class Ring(OwnModelsServer):
    """All clients at once; a round lasts until the last message has arrived."""

    def round(self, t):
        parts, n, learner = self.parts, self.parts.clients, self.parts.learner
        everybody, jobs, samples = np.arange(n, dtype=np.int32), self.jobs(t), learner.samples
        where = Address(t, everybody, n)
        sent = self.world.now + parts.computing.duration_s(everybody, samples, parts.rule.epochs(samples), where)
        sides = [(everybody + step) % n for step in (1, n - 1)]
        arrives = [
            sent + parts.links.between_s(everybody, to, learner.model_bytes, where, f"/{side}")
            for side, to in enumerate(sides)
        ]
        self.note("round_start", round=t)
        yield self.world.until(float(np.max(arrives)))
        self._record(jobs, sent, sides, arrives)
        self.accounts.costs.bytes_up += 2 * n * learner.model_bytes
        return self.aggregate_neighbours(jobs, {i: sorted({i, (i + 1) % n, (i - 1) % n}) for i in range(n)})

    def _record(self, jobs, sent, sides, arrives):
        for job, ended in zip(jobs, sent.tolist()):
            self.accounts.write(computation(job.id, job.client, job.started_at, ended, True))
        for to, arrived in zip(sides, arrives):
            for job, peer, left, there in zip(jobs, to.tolist(), sent.tolist(), arrived.tolist()):
                size = self.parts.learner.model_bytes
                self.accounts.write(message("update", job.client, peer, size, left, there))
