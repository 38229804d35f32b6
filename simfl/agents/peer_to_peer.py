"""Clients that train together without a server: everybody sends to everybody, and each of them aggregates."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components, RoundResult
from simfl.agents.aggregation.exchange import WORK, computation, message, work
from simfl.agents.servers import SERVERS, RoundServer, jobs_in_sum
from simfl.agents.world import Process
from simfl.core.json_data import JsonObject
from simfl.core.rng import Address
from simfl.core.types import Arrays, Job, Units
from simfl.devices.base import checked_deaths
from simfl.metrics.participation import Tally
from simfl.network.base import checked_delays_s
from simfl.results.tables import PhaseRow
from simfl.secagg.sessions import SessionResult
from simfl.training.base import ServerlessRule

Floats = NDArray[np.float64]


@SERVERS("serverless")
@dataclass(eq=False)
class PeerToPeerServer(RoundServer[ServerlessRule]):
    """Rounds of messages between clients; a client goes on as soon as it has heard from everybody at work.

    Where messages between clients pass the server, those of a round share its link; no client then begins the next
    round before the last of them has left it.

    All that are left get every message, so that all have the same aggregate: it is computed once and stands in
    ``participation.csv`` for each of them. A round's time is that at which the last of them has its model.

    Args: as for :class:`simfl.agents.servers.RoundServer`.
    """

    def start(self) -> None:
        """Every client is ready now."""
        self.ready_s = np.full(self.parts.clients, self.world.now)

    def set_up(self) -> Process[None]:
        """What the protocol does once: everybody sends each other client a part of its answer."""
        n, world = self.parts.clients, self.world
        everybody = np.arange(n, dtype=np.int32)
        session = self.parts.protocol.setup(self.parts.cohort(0, everybody.reshape(-1, 1), None), self.parts.streams)
        for i, request in enumerate(session):
            each = np.broadcast_to(np.asarray(request.up_bytes, dtype=np.int64) // max(1, n - 1), n)
            started_s = world.now
            begins_s = np.full(n, started_s)
            delays, free_s = self._delays_s(0, everybody, everybody, each, begins_s, f"/setup/{i}")
            compute = np.broadcast_to(np.asarray(request.compute_s, dtype=np.float64), n)
            self.ready_s = np.maximum(free_s, (started_s + delays).max(axis=0) + compute)
            yield world.until(float(self.ready_s.max()))
            size = int(each.sum()) * (n - 1)
            self.accounts.costs.bytes_up += size
            self.accounts.phases.append(PhaseRow(0, request.kind, started_s, world.now, n, n, 0, size, 0, None))

    def round(self, t: int) -> Process[RoundResult]:
        """The selected clients work and send; everybody waits for all of them, and aggregates."""
        parts, units = self.parts, self.select(t)
        receivers = np.flatnonzero(self.global_model.present).astype(np.int32)
        session, summed, row = None, list[Job](), {}
        if units.size:
            jobs = [Job.of(t, client, t, self.world.now) for client in units.ravel().tolist()]
            lives = yield from self._broadcast(t, jobs, units, receivers)
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

    def _broadcast(
        self, t: int, jobs: list[Job], units: Units, receivers: NDArray[np.int32]
    ) -> Process[NDArray[np.bool_]]:
        """Works, sends, and waits until everybody has all messages; who did not die at work, bool (jobs,)."""
        parts, clients, costs = self.parts, units.ravel(), self.accounts.costs
        where = Address(t, clients, parts.clients)
        sizes = parts.learner.sizes(jobs)
        request = work(parts, clients, where, sizes, t)
        death = checked_deaths(parts.failing.draw(clients, where, WORK), len(clients), parts.failing)
        lives = np.isnan(death)
        started = self.ready_s[clients]
        computed = started + request.compute_s * np.where(lives, 1.0, death)
        size = np.where(lives, np.broadcast_to(np.asarray(request.up_bytes, dtype=np.int64), len(clients)), 0)
        delays, free_s = self._delays_s(t, clients, receivers, size, computed, "")
        arrives = computed[:, None] + delays  # at each receiver, (n, m); of the dead the end of their connection
        others = (len(receivers) - np.isin(clients, receivers)) * lives
        costs.bytes_up += int((size * others).sum())
        costs.clear_bytes += int((np.asarray(parts.clear_bytes(sizes[1])) * others).sum())
        self._record(jobs, receivers, started, computed, arrives, lives, size)
        self.ready_s[receivers] = np.maximum(arrives.max(axis=0), free_s)
        yield self.world.until(float(self.ready_s[receivers].max(initial=self.world.now)))
        deaths = int((~lives).sum())
        costs.failed += deaths
        costs.failed_upload += deaths
        return lives

    def _delays_s(
        self,
        t: int,
        senders: NDArray[np.int32],
        receivers: NDArray[np.int32],
        size: NDArray[np.int64],
        begins_s: Floats,
        stream: str,
    ) -> tuple[Floats, float]:
        """Seconds from each sender to each receiver, (n, m), and when the last message has left a link that they share,
        as :func:`peer_delays_s`.
        """
        n, m = len(senders), len(receivers)
        source, size_of, begin_s = np.repeat(senders, m), np.repeat(size, m), np.repeat(begins_s, m)
        delays, free_s = peer_delays_s(self.parts, t, source, np.tile(receivers, n), size_of, begin_s, stream)
        return delays.reshape(n, m), free_s

    def _record(self, jobs: list[Job], receivers: NDArray[np.int32], *columns: NDArray[Any]) -> None:
        if self.log is None:
            return
        records: list[tuple[float, JsonObject]] = []
        for job, started, computed, arrives, lives, size in zip(
            jobs, *(column.tolist() for column in columns), strict=True
        ):
            records.append((started, computation(job.id, job.client, started, computed, lives)))
            kind = "update" if lives else "failure"
            for to, at in zip(receivers.tolist(), arrives, strict=True):
                if to != job.client:
                    records.append((computed, message(kind, job.client, to, size, computed, at)))
        for _, record in sorted(records, key=lambda timed: timed[0]):
            self.log(record)

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Besides: when each client is ready for the next round."""
        return super().state() | {"ready_s": self.ready_s}

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`."""
        super().restore(state, tally)
        self.ready_s = np.array(state["ready_s"])


def peer_delays_s(
    parts: Components[Any],
    t: int,
    source: NDArray[np.int32],
    to: NDArray[np.int32],
    size: NDArray[np.int64],
    begins_s: Floats,
    stream: str,
) -> tuple[Floats, float]:
    """Seconds of messages from client to client, (n,), 0 to oneself; and when the last of them has left the link that
    they share; the world's beginning where there is none.
    """
    n, links = parts.clients, parts.links
    where = Address(t, source.astype(np.int64) * n + to, n * n)
    delays, free_s = checked_delays_s(links.between_s(source, to, size, where, stream), len(to), links), 0.0
    if (flows := None if parts.sharing is None else parts.sharing.peer_flows(source, to, size)) is not None:
        waits = flows.waits_s(begins_s)
        delays, free_s = delays + waits, float((begins_s + flows.alone_s + waits).max(initial=0.0))
    return delays, free_s
