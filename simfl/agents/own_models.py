"""Servers whose clients train their own models; one whose clients exchange them with neighbours (Lian et al. 2017, on
a clock).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.aggregation_result import AggregationResult
from simfl.agents.aggregation.components import R_co, RoundResult
from simfl.agents.aggregation.global_model import set_statistics
from simfl.agents.peer_rounds import Clients, PeerMessages, PeerRounds
from simfl.agents.servers import SERVERS, RoundServer
from simfl.agents.world import Process
from simfl.core.errors import PluginError
from simfl.core.types import Arrays, Job, Updates
from simfl.core.validation import checked_groups
from simfl.metrics.participation import Tally
from simfl.secagg.sessions import SessionResult
from simfl.topology.gossip import GossipTopology
from simfl.training.base import ServerlessRule


@dataclass(eq=False)
class OwnModelsServer(RoundServer[R_co]):
    """Clients train their own models; :meth:`aggregate_neighbours` ends a round.

    The global model, which is measured and stored, is the mean of the clients'. A server of this kind says in
    :meth:`simfl.agents.servers.RoundServer.round` who sends to whom, and how long that takes. Its rule says
    :attr:`simfl.training.base.Rule.own_models`: what works on the one aggregate of a round (protocols, noise stages,
    attacks, a server optimiser with a state) is refused beside it.

    Attributes:
        models: the clients' current models, float32 (clients, d).
    """

    def start(self) -> None:
        """Everybody begins with the same model.

        Raises:
            PluginError: the rule does not say ``own_models``, by which scenarios are checked, or ``many_aggregators``.
        """
        rule = self.parts.rule
        if not (rule.own_models and rule.many_aggregators):
            raise PluginError(
                f"training '{rule.name}'",
                f"its server '{self.name}' has a model in every client; the rule must say "
                "own_models = many_aggregators = True",
            )
        self.models = np.tile(self.parts.learner.initial(), (self.parts.clients, 1))

    @property
    def model(self) -> NDArray[np.float32]:
        """The mean of the clients' models, float32 (d,)."""
        return self.models.mean(axis=0, dtype=np.float64).astype(np.float32)

    def jobs(self, t: int, clients: NDArray[np.int32] | None = None) -> list[Job]:
        """A job for every client, or for some, ascending, in round ``t``, on its own model, which the learner holds as
        number -1 - client.
        """
        whom = range(self.parts.clients) if clients is None else clients.tolist()
        for client in whom:
            self.parts.learner.put(-1 - client, self.models[client])
        return [Job.of(t, client, t, self.world.now, own_model=-1 - client) for client in whom]

    def aggregate_neighbours(self, jobs: list[Job], neighbours: Mapping[int, Sequence[int]]) -> RoundResult:
        """Trains everybody's job; each client then takes a step to the average of its own and its neighbours' models.

        Args:
            jobs: of all clients, or of some, as :meth:`jobs` gives them.
            neighbours: ascending, the clients whose models each client averages, itself among them; all have a job. A
                client that is left out, or has an empty list, keeps the model with which it began the round.

        Raises:
            PluginError: they are not ascending.
        """
        pipeline, t = self.global_model.pipeline, self.global_model.version
        if not jobs:
            return self._end_round(t, {}, None)
        trained, place = pipeline.train(jobs), {job.client: i for i, job in enumerate(jobs)}
        results: dict[int, AggregationResult] = {}
        for client, group in neighbours.items():
            if list(group) != sorted(set(group)):
                raise PluginError(
                    f"server '{self.name}'", f"the neighbours of client {client} must be ascending, not {list(group)}"
                )
            rows = [place[member] for member in group]
            changes = (self.models[group] - self.models[client]) + trained.deltas[rows]
            moves = Updates(changes, trained.examples[rows], trained.loss[rows])
            fresh, everybody = np.zeros(len(group), dtype=np.int64), SessionResult(np.ones(1, dtype=bool))
            result = pipeline.sum(t, [jobs[i] for i in rows], moves, fresh, self.models[client], everybody)
            if result is not None:  # somebody among them holds samples
                results[client] = result
        after = {i: self.parts.rule.step(self.models[i], each.server_update, {})[0] for i, each in results.items()}
        for client, model in after.items():
            before = self.models[client].copy()
            self.models[client] = set_statistics(self.parts, model, results[client], before, own_base=True)
        for job in jobs:
            self.parts.learner.drop(job.start)
        return self._end_round(t, results, trained.mean_loss)

    def _end_round(self, t: int, results: Mapping[int, AggregationResult], loss: float | None) -> RoundResult:
        totals = [result.total for result in results.values()]
        clients = np.concatenate([np.empty(0, np.int32), *(total.clients for total in totals)])
        weights = np.concatenate([total.weights for total in totals] or [np.empty(0)])
        who = np.repeat(np.array(list(results), dtype=np.int32), [len(total.clients) for total in totals])
        self.global_model.replace(self.model)
        cells = self.accounts.costs.row(self.parts)
        row, last = self.global_model.progress.end_round(
            np.unique(clients), self.world.now, cells, train_loss=loss, model_changed=bool(results)
        )
        self.parts.learner.drop(t)
        self.note("round_end", round=t, cardinality=self.tally.latest)
        self.at_end = last
        return self.report(RoundResult(t, clients, weights, row, last, aggregators=who, phases=self.accounts.phases))

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Besides: the clients' models."""
        return super().state() | {"models": self.models}

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`."""
        super().restore(state, tally)
        self.models = np.array(state["models"])


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
        n, named = self.parts.clients, f"topology '{topology.name}'"
        self.neighbours = checked_groups(self.graph.neighbours(n, self.parts.streams), n, named, "neighbours")
        if len(self.neighbours) != n or any(client in mine for client, mine in enumerate(self.neighbours)):
            raise PluginError(named, f"neighbours must give an array for each of {n} clients, of others than itself")

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
