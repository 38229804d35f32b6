"""Rounds in which clients send to clients: what is drawn for one, and what comes of it; and the server, or rather none,
where everybody sends to everybody and each of them aggregates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import RoundResult
from simfl.agents.aggregation.exchange import WORK, computation, message, work
from simfl.agents.peer_nodes import PeerExchange, PeerNodes, PeerRound, Record, peer_delays_s
from simfl.agents.servers import SERVERS, RoundServer, jobs_in_sum
from simfl.agents.world import Process
from simfl.core.rng import Address
from simfl.core.types import Arrays, Bools, Job
from simfl.devices.base import checked_deaths, is_told
from simfl.metrics.participation import Tally
from simfl.results.tables import PhaseRow
from simfl.secagg.sessions import SessionResult
from simfl.training.base import ServerlessRule

Clients = NDArray[np.int32]


class PeerMessages(NamedTuple):
    """To whom the updates of a round go, one an entry.

    Attributes:
        sender, receiver: clients, (m,).
        is_pull: the receiver asks for it, bool (m,); else its sender sends it as soon as it has it.
    """

    sender: Clients
    receiver: Clients
    is_pull: Bools


@dataclass(eq=False)
class PeerRounds(RoundServer[ServerlessRule]):
    """Clients without a server: each begins the next round as soon as it has all that comes to it in this one.

    Rounds of far clients overlap, so that each has a clock of its own, which starts when the first begins. Where
    messages share links, those of a round share them, and nobody begins the next one before the last has left them.

    Attributes:
        ready_s: when each client begins the next round, simulated seconds (clients,).
    """

    asks_agents = True

    def start(self) -> None:
        """Every client is ready now."""
        super().start()
        self.ready_s = np.full(self.parts.clients, self.world.now)
        self.agent_of = self.parts.agents.client.of_each(self.parts.clients, self.parts.streams)

    def exchange(self, t: int, jobs: Sequence[Job], messages: PeerMessages) -> Process[Bools]:
        """The clients of the jobs work and send, and everybody waits for what comes; who did not die at work, (n,)."""
        costs, parts = self.accounts.costs, self.parts
        plan, clear_bytes = self._draw(t, jobs, messages)
        if parts.follows_messages:
            memory = {} if self.trips.nodes is None else self.trips.nodes.memory
            done = PeerNodes(parts, plan, self.agent_of, memory).run()
        else:
            done = exchange_at_once(plan, self.log is not None)
        for _, record in sorted(done.records, key=lambda keyed: keyed[0]):
            self.accounts.write(record)
        np.maximum.at(self.ready_s, plan.clients, done.ends_s)
        np.maximum.at(self.ready_s, plan.receiver, done.arrives_s)
        self.ready_s = np.maximum(self.ready_s, plan.free_s)
        yield self.world.until(max(self.world.now, float(self.ready_s.max())))
        deaths = int((~plan.lives).sum())
        costs.bytes_up += int(plan.size_bytes[plan.place].sum())
        costs.bytes_sent_up += done.bytes_sent
        costs.clear_bytes += int(clear_bytes[plan.place].sum())
        costs.failed += deaths
        costs.failed_upload += deaths
        if is_told(parts.available):
            parts.available.on_work(plan.clients, done.worked_s, self.world.now)
        return plan.lives

    def _draw(self, t: int, jobs: Sequence[Job], messages: PeerMessages) -> tuple[PeerRound, NDArray[np.int64]]:
        """What is drawn for a round; bytes of each client's update without a protocol, (n,)."""
        parts = self.parts
        clients = np.array([job.client for job in jobs], dtype=np.int32)
        where, sizes = Address(t, clients, parts.clients), parts.learner.sizes(jobs)
        request = work(parts, clients, where, sizes, t)
        death = checked_deaths(parts.failing.draw(clients, where, WORK), len(clients), parts.failing)
        lives = np.isnan(death)
        work_s = request.compute_s * np.where(lives, 1.0, death)
        size, clear = (
            np.where(lives, np.asarray(bytes_, dtype=np.int64), 0)
            for bytes_ in (request.up_bytes, parts.clear_bytes(sizes.up_bytes))
        )
        place = np.zeros(parts.clients, dtype=np.int64)
        place[clients] = np.arange(len(clients))
        sender, receiver, is_pull = messages
        asked_s, asking_s = np.full(len(sender), -np.inf), self.ready_s[receiver[is_pull]]
        nothing, asks = np.zeros(len(asking_s), dtype=np.int64), (receiver[is_pull], sender[is_pull])
        asked_s[is_pull] = asking_s + peer_delays_s(parts, t, *asks, nothing, asking_s, "/ask")[0]
        begins_s = self.ready_s[clients]
        sent_s = np.maximum((begins_s + work_s)[place[sender]], asked_s)
        delays_s, free_s = peer_delays_s(parts, t, sender, receiver, size[place[sender]], sent_s, "")
        ends = place[sender], receiver, asked_s, delays_s, free_s
        return PeerRound(t, jobs, clients, begins_s, work_s, lives, size, *ends), clear

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Besides: when each client is ready for the next round."""
        return super().state() | {"ready_s": self.ready_s}

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`."""
        super().restore(state, tally)
        self.ready_s = np.array(state["ready_s"])


def exchange_at_once(plan: PeerRound, with_records: bool) -> PeerExchange:
    """What comes of a round of standard clients, as arrays."""
    computed_s = plan.begins_s + plan.work_s
    sent_s = np.maximum(computed_s[plan.place], plan.asked_s)
    arrives_s = sent_s + plan.delays_s
    records: list[Record] = []
    if with_records:
        columns: list[list[Any]] = [each.tolist() for each in (plan.begins_s, computed_s, plan.lives)]
        for place, (job, began_s, ended_s, lives) in enumerate(zip(plan.jobs, *columns, strict=True)):
            records.append(((began_s, place, 0, 0), computation(job.id, job.client, began_s, ended_s, lives)))
        columns = [each.tolist() for each in (plan.place, plan.receiver, sent_s, arrives_s)]
        for i, (place, receiver, left_s, there_s) in enumerate(zip(*columns, strict=True)):
            ends = plan.kind(place), int(plan.clients[place]), receiver
            records.append(((left_s, place, 1, i), message(*ends, int(plan.size_bytes[place]), left_s, there_s)))
    worked_s = np.where(plan.lives, plan.work_s, computed_s - plan.begins_s)
    bytes_sent = int(plan.size_bytes[plan.place].sum())
    return PeerExchange(arrives_s, computed_s, worked_s, bytes_sent, records)


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
