"""A server of a user's that asks by messages and obeys a deadline."""

from dataclasses import dataclass

import numpy as np

from simfl.plugins import Address, Job
from simfl.plugins.secagg import PreparedUnits, SessionResult
from simfl.plugins.servers import SERVERS, SynchronousServer, work
from simfl.plugins.training import RULES, FedAvg


@SERVERS("triples")
@dataclass(eq=False)
class Triples(SynchronousServer):
    """Asks three clients in each round, one further each time."""

    asks_agents = True
    reads = frozenset({"deadline_s", "on_failure"})

    def round(self, t):
        units = np.sort((t + np.arange(3)) % self.parts.clients).astype(np.int32)[:, None]
        prepared = yield from self.prepare(t, units)
        if not isinstance(prepared, PreparedUnits) or not prepared.kept_units.all():
            return self.aggregate([], None)
        jobs = [Job.of(t, client, t, self.world.now) for client in units.ravel().tolist()]
        where = Address(t, units.ravel(), self.parts.clients)
        request = work(self.parts, units.ravel(), where, self.parts.learner.sizes(jobs))
        done = yield from self.gather(request._replace(deadline_s=self.parts.rule.deadline_s), t)
        result = yield from self.recover(t, units, done.responded[:, None], prepared)
        if not isinstance(result, SessionResult) or not result.kept_units.any():
            return self.aggregate([], None)
        return self.aggregate([job for job, kept in zip(jobs, result.kept_units) if kept], result, row=result.row)


@RULES("triples")
@dataclass(frozen=True, kw_only=True)
class TriplesRule(FedAvg):
    """Its rule."""

    server = "triples"
    example = {"rounds": 2}
