"""Clients with models of their own, each of which exchanges them with its neighbours (Lian et al. 2017, on a clock)."""

from dataclasses import dataclass

import numpy as np

from simfl.agents.aggregation.components import RoundResult
from simfl.agents.own_models import OwnModelsServer
from simfl.agents.peer_rounds import Clients, PeerMessages, PeerRounds
from simfl.agents.servers import SERVERS
from simfl.agents.world import Process
from simfl.topology.base import GossipTopology
from simfl.training.base import ServerlessRule


@SERVERS("gossip")
@dataclass(eq=False)
class GossipServer(PeerRounds, OwnModelsServer[ServerlessRule]):
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

    def round(self, t: int) -> Process[RoundResult]:
        """The selected clients work and send; everybody averages what has come."""
        parts, units = self.parts, self.select(t)
        if not units.size:
            yield self.world.wait(parts.rule.skipped_round_s)
            self.ready_s[:] = self.world.now
            return self.aggregate_neighbours([], {})
        clients = units.ravel()
        jobs, messages = self.jobs(t, clients), self._messages(t, clients)
        lives = yield from self.exchange(t, jobs, messages)
        whole = np.repeat(lives.reshape(units.shape).all(axis=1), units.shape[1])  # a unit is in sums whole, or in none
        summed = sorted(clients[whole].tolist())
        in_sum = set(summed)
        parts.learner.discard(job for job, is_whole in zip(jobs, whole.tolist(), strict=True) if not is_whole)
        groups: dict[int, set[int]] = {client: {client} for client in summed}
        for sender, receiver in zip(messages.sender.tolist(), messages.receiver.tolist(), strict=True):
            if sender in in_sum:
                groups.setdefault(receiver, set()).add(sender)
        averaged = {client: sorted(groups[client]) for client in sorted(groups)}
        return self.aggregate_neighbours([job for job in sorted(jobs) if job.client in in_sum], averaged)

    def _messages(self, t: int, clients: Clients) -> PeerMessages:
        """The models of those who work: to whom they push, and to whoever asks, once to each."""
        chosen, kind = self.graph.draw_peers(self.neighbours, t, self.parts.streams), self.graph.exchange
        present, can_send = np.flatnonzero(self.global_model.present).tolist(), set(clients.tolist())
        pushes = [(i, j) for i in clients.tolist() for j in chosen[i].tolist()] if kind != "pull" else []
        requests = {(j, i) for i in present for j in chosen[i].tolist() if j in can_send} if kind != "push" else set()
        pulls = sorted(requests - set(pushes))
        sender, receiver = np.array(pushes + pulls, dtype=np.int32).reshape(-1, 2).T
        return PeerMessages(sender, receiver, np.arange(len(sender)) >= len(pushes))
