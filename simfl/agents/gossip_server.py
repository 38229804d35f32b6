"""Clients with models of their own, each of which exchanges them with its neighbours (Lian et al. 2017, on a clock)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import RoundResult
from simfl.agents.aggregation.exchange import WORK, computation, message, work
from simfl.agents.own_models import OwnModelsServer
from simfl.agents.peer_to_peer import peer_delays_s
from simfl.agents.servers import SERVERS
from simfl.agents.world import Process
from simfl.core.rng import Address
from simfl.core.types import Arrays, Bools, Floats, Job
from simfl.devices.base import checked_deaths
from simfl.metrics.participation import Tally
from simfl.topology.gossip import GossipTopology
from simfl.training.base import ServerlessRule

Ends = NDArray[np.int32]


class _Models(NamedTuple):
    """Models on their way, one an entry; of who has died the end of its connection.

    Attributes:
        sender, receiver: int32 (n,).
        sent_s, arrives_s: simulated seconds, (n,).
        size: bytes, int64 (n,).
    """

    sender: Ends
    receiver: Ends
    sent_s: Floats
    arrives_s: Floats
    size: NDArray[np.int64]


@SERVERS("gossip")
@dataclass(eq=False)
class GossipServer(OwnModelsServer[ServerlessRule]):
    """Every round: the selected clients train, models go from neighbour to neighbour, and each client averages.

    A client begins the next round when all models that come to it have arrived; a round's time is that of the last one.

    Args: as for :class:`simfl.agents.servers.RoundServer`.
    """

    follows_policy = counts_unsummed = True

    def start(self) -> None:
        """Every client is ready now, and has its neighbours."""
        super().start()
        topology = self.parts.topology
        self.graph = topology if isinstance(topology, GossipTopology) else GossipTopology(graph="complete")
        self.neighbours = self.graph.neighbours(self.parts.clients, self.parts.streams)
        self.ready_s = np.full(self.parts.clients, self.world.now)

    def round(self, t: int) -> Process[RoundResult]:
        """The selected clients work and send; everybody averages what has come."""
        parts, units = self.parts, self.select(t)
        if not units.size:
            yield self.world.wait(parts.rule.skipped_round_s)
            self.ready_s[:] = self.world.now
            return self.aggregate_neighbours([], {})
        clients = units.ravel()
        jobs = self.jobs(t, clients)
        computed_s, lives = self._train(t, clients, jobs)
        models, free_s = self._exchange(t, clients, computed_s, lives)
        np.maximum.at(self.ready_s, clients, computed_s)
        np.maximum.at(self.ready_s, models.receiver, models.arrives_s)
        self.ready_s = np.maximum(self.ready_s, free_s)
        yield self.world.until(max(self.world.now, float(self.ready_s.max())))
        self._note_models(models, int((~lives).sum()))
        whole = np.repeat(lives.reshape(units.shape).all(axis=1), units.shape[1])  # a unit is in sums whole, or in none
        summed = sorted(clients[whole].tolist())
        parts.learner.discard(job for job, is_whole in zip(jobs, whole.tolist(), strict=True) if not is_whole)
        groups: dict[int, set[int]] = {client: {client} for client in summed}
        for sender, receiver in zip(models.sender.tolist(), models.receiver.tolist(), strict=True):
            if sender in summed:
                groups.setdefault(receiver, set()).add(sender)
        averaged = {client: sorted(groups[client]) for client in sorted(groups)}
        return self.aggregate_neighbours([job for job in sorted(jobs) if job.client in summed], averaged)

    def _train(self, t: int, clients: Ends, jobs: list[Job]) -> tuple[Floats, Bools]:
        """When each has done its work, or has died in it, (n,), and who has not died."""
        parts, where = self.parts, Address(t, clients, self.parts.clients)
        request = work(parts, clients, where, parts.learner.sizes(jobs), t)
        death = checked_deaths(parts.failing.draw(clients, where, WORK), len(clients), parts.failing)
        lives = np.isnan(death)
        computed_s = self.ready_s[clients] + request.compute_s * np.where(lives, 1.0, death)
        columns = (self.ready_s[clients].tolist(), computed_s.tolist(), lives.tolist())
        for job, began_s, ended_s, is_alive in zip(jobs, *columns, strict=True):
            self.accounts.write(computation(job.id, job.client, began_s, ended_s, is_alive))
        return computed_s, lives

    def _exchange(self, t: int, clients: Ends, computed_s: Floats, lives: Bools) -> tuple[_Models, float]:
        """The models of those who have worked: to whom they push, and to whoever asks, once to each; and when all have
        left the links that they share.
        """
        chosen, kind = self.graph.draw_peers(self.neighbours, t, self.parts.streams), self.graph.exchange
        present, can_send = np.flatnonzero(self.global_model.present).tolist(), set(clients.tolist())
        pushes = [(i, j) for i in clients.tolist() for j in chosen[i].tolist()] if kind != "pull" else []
        requests = {(j, i) for i in present for j in chosen[i].tolist() if j in can_send} if kind != "push" else set()
        pulls = sorted(requests - set(pushes))
        sender, receiver = np.array(pushes + pulls, dtype=np.int32).reshape(-1, 2).T
        done_s, sizes = np.zeros(self.parts.clients), np.zeros(self.parts.clients, dtype=np.int64)
        done_s[clients], sizes[clients[lives]] = computed_s, self.parts.learner.model_bytes
        nothing, asks_s = np.zeros(len(sender), dtype=np.int64), self.ready_s[receiver]
        requests_s = asks_s + peer_delays_s(self.parts, t, receiver, sender, nothing, asks_s, "/ask")[0]
        is_pull = np.arange(len(sender)) >= len(pushes)
        sent_s = np.where(is_pull, np.maximum(done_s[sender], requests_s), done_s[sender])
        delays_s, free_s = peer_delays_s(self.parts, t, sender, receiver, sizes[sender], sent_s, "")
        return _Models(sender, receiver, sent_s, sent_s + delays_s, sizes[sender]), free_s

    def _note_models(self, models: _Models, deaths: int) -> None:
        costs, total = self.accounts.costs, int(models.size.sum())
        costs.bytes_up += total
        costs.clear_bytes += total
        costs.failed += deaths
        costs.failed_upload += deaths
        for sender, receiver, sent_s, arrives_s, size in zip(*(column.tolist() for column in models), strict=True):
            kind = "update" if size or not self.parts.learner.model_bytes else "failure"
            self.accounts.write(message(kind, sender, receiver, size, sent_s, arrives_s))

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Besides: when each client is ready for the next round."""
        return super().state() | {"ready_s": self.ready_s}

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`."""
        super().restore(state, tally)
        self.ready_s = np.array(state["ready_s"])
