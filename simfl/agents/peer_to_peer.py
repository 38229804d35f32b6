"""Clients that train together without a server: everybody sends to everybody, and each of them aggregates."""

from dataclasses import dataclass, replace

import numpy as np

from simfl.agents.aggregation.components import RoundResult
from simfl.agents.peer_nodes import peer_delays_s
from simfl.agents.peer_rounds import PeerMessages, PeerRounds
from simfl.agents.servers import SERVERS, jobs_in_sum
from simfl.agents.world import Process
from simfl.core.types import Job
from simfl.results.tables import PhaseRow
from simfl.secagg.sessions import SessionResult


@SERVERS("serverless")
@dataclass(eq=False)
class PeerToPeerServer(PeerRounds):
    """Rounds of messages between clients; a client goes on as soon as it has heard from everybody at work.

    All that are left get every message, so that all have the same aggregate: it is computed once and stands in
    ``participation.csv`` for each of them. A round's time is that at which the last of them has its model.

    Args: as for :class:`simfl.agents.servers.RoundServer`.
    """

    follows_policy = True

    def set_up(self) -> Process[None]:
        """What the protocol does once: everybody sends each other client a part of its answer."""
        parts, world = self.parts, self.world
        n, everybody = parts.clients, np.arange(parts.clients, dtype=np.int32)
        session = parts.protocol.setup(parts.cohort(0, everybody.reshape(-1, 1), None), parts.streams)
        sender, receiver = np.repeat(everybody, n), np.tile(everybody, n)
        for i, request in enumerate(session):
            each = np.broadcast_to(np.asarray(request.up_bytes, dtype=np.int64) // max(1, n - 1), n)
            started_s, begins_s = world.now, np.full(n * n, world.now)
            delays_s, free_s = peer_delays_s(parts, 0, sender, receiver, np.repeat(each, n), begins_s, f"/setup/{i}")
            heard_s = (started_s + delays_s.reshape(n, n)).max(axis=0)
            compute_s = np.broadcast_to(np.asarray(request.compute_s, dtype=np.float64), n)
            if parts.client_process is None:
                self.ready_s = np.maximum(free_s, heard_s + compute_s)
            else:
                columns = zip(everybody.tolist(), heard_s.tolist(), compute_s.tolist(), strict=True)
                yield from [world.spawn(self._prepare_client(*row, free_s)) for row in columns]
            yield world.until(float(self.ready_s.max()))
            size = int(each.sum()) * (n - 1)
            self.accounts.costs.bytes_up += size
            self.accounts.phases.append(PhaseRow(0, request.kind, started_s, world.now, n, n, 0, size, 0, None))

    def _prepare_client(self, client: int, heard_s: float, compute_s: float, free_s: float) -> Process[None]:
        """A client hears the last part of the others, and computes."""
        yield self.world.until(heard_s)
        yield self.world.until(max(free_s, self.world.now + compute_s))
        self.ready_s[client] = self.world.now

    def round(self, t: int) -> Process[RoundResult]:
        """The selected clients work and send; everybody waits for all of them, and aggregates."""
        parts, units = self.parts, self.select(t)
        receivers = np.flatnonzero(self.global_model.present).astype(np.int32)
        session, summed, row = None, list[Job](), {}
        if units.size:
            jobs = [Job.of(t, client, t, self.world.now) for client in units.ravel().tolist()]
            sender, receiver = (each.ravel() for each in np.meshgrid(units.ravel(), receivers, indexing="ij"))
            others = sender != receiver
            messages = PeerMessages(sender[others], receiver[others], np.zeros(int(others.sum()), dtype=bool))
            lives = yield from self.exchange(t, jobs, messages)
            cohort = parts.cohort(t, units, t)
            recover = parts.protocol.recover(cohort, lives.reshape(units.shape), [None], parts.streams)
            outcome = (yield from self.run_session(recover, t, "recover")).result
            row = outcome.row
            if isinstance(outcome, SessionResult) and (summed := jobs_in_sum(jobs, outcome, units)):
                session = outcome
        else:
            yield self.world.wait(parts.rule.skipped_round_s)
            self.ready_s[:] = self.world.now
        done = self.aggregate(summed, session, row=row)
        n, m = len(done.clients), len(receivers)
        who = np.repeat(receivers, n)
        return replace(done, clients=np.tile(done.clients, m), weights=np.tile(done.weights, m), aggregators=who)
