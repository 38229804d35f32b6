"""The cloud of a tree of edges, and several servers beside one another."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simfl.agents.aggregation.components import EdgeRound, RoundResult
from simfl.agents.aggregation.exchange import message
from simfl.agents.edges.average import average_of, mean_loss, members_in, merge_cells, share_of, weights_in
from simfl.agents.edges.edge import BufferedEdge, EdgeAgent, EdgeDelivery
from simfl.agents.servers import SERVERS, RoundServer
from simfl.agents.world import REFILL, Process
from simfl.core.types import SERVER, Arrays, prefix_arrays, under
from simfl.metrics.participation import Tally
from simfl.training.base import SynchronousRule


@SERVERS("tree")
@dataclass(eq=False)
class TreeServer(RoundServer[SynchronousRule]):
    """Every round: send all edges the model, wait for all of theirs, and average them by what their updates weigh.

    With a buffer the edges go on by themselves: the cloud takes a step whenever so many of their models have come, each
    multiplied by how stale it is, and an edge goes on with the model that there is when its own has arrived.

    Args: as for :class:`simfl.agents.servers.RoundServer`.
    """

    asks_agents = counts_unsummed = follows_policy = True
    reads = frozenset({"deadline_s", "quorum", "on_failure"})

    def start(self) -> None:
        """The edges wait for the first model."""
        kind = BufferedEdge if self.parts.rule.asynchronous else EdgeAgent
        self.edges: list[EdgeAgent] = [
            kind(
                parts,
                self.world,
                self.log,
                self.parts.topology.edge_rounds,
                f"{self.parts.topology.aggregator}/{number}",
            )
            for number, parts in enumerate(self.parts.edges)
        ]
        self.arrivals, self.buffer = list[EdgeDelivery](), list[EdgeDelivery]()
        self.idle = list(self.edges)

    @property
    def buffer_size(self) -> int | None:
        """Models in a step; None = of all edges."""
        return self.parts.topology.cloud_buffer

    @property
    def stores_state(self) -> bool:  # type: ignore[override]
        """Only where no edge is at work between two rounds: else a run that was killed begins anew."""
        return not self.parts.rule.asynchronous and self.buffer_size is None

    def set_up(self) -> Process[None]:
        """What each edge's protocol does once."""
        yield from [self.world.spawn(edge.set_up()) for edge in self.edges]

    def round(self, t: int) -> Process[RoundResult]:
        """The models of edges arrive, and become one."""
        if self.parts.topology.selects == "cloud":
            units = self.select(t)
            for edge in self.edges:
                edge.assign(units.ravel())
        else:
            self.note("round_start", round=t)
        if self.buffer_size is None:
            at_work = [self.world.spawn(self._send(edge, t)) for edge in self.edges]
            deliveries = []
            for process in at_work:
                deliveries.append((yield process))
        else:
            self.is_full = self.world.event()
            for edge in self.idle:
                self.world.spawn(self._go_on(edge))
            deliveries = yield self.is_full
        return self._average(t, deliveries)

    def _go_on(self, edge: EdgeAgent) -> Process[None]:
        """An edge's next model; what arrives at one instant is looked at together."""
        delivery = yield from self._send(edge, self.global_model.version)
        self.arrivals.append(delivery)
        if len(self.arrivals) == 1:
            self.world.at(self.world.now, self._on_arrivals, None, REFILL)

    def _on_arrivals(self, _: None) -> None:
        """Edges whose models have arrived go on at once, or with the next model where the buffer is full now."""
        arrivals, self.arrivals = sorted(self.arrivals, key=lambda delivery: delivery.edge), []
        self.buffer += arrivals
        edges = [self.edges[delivery.edge] for delivery in arrivals]
        if len(self.buffer) >= (self.buffer_size or 0):
            full, self.buffer, self.idle = self.buffer, [], edges
            self.is_full.succeed(full)
        else:
            for edge in edges:
                self.world.spawn(self._go_on(edge))

    def _send(self, edge: EdgeAgent, version: int) -> Process[EdgeDelivery]:
        size, began_s = self.parts.learner.model_bytes, self.world.now
        way_s = self.parts.topology.seconds(size)
        delivery = yield from edge.serve(self.model, version, way_s)
        if self.log is not None:
            now_s, sent_s = self.world.now, self.world.now - way_s
            edge.records.append(message("model", SERVER, edge.name, size, began_s, began_s + way_s))
            edge.records.append(message("edge model", edge.name, SERVER, size, sent_s, now_s))
        return delivery

    def _average(self, t: int, deliveries: Sequence[EdgeDelivery]) -> RoundResult:
        parts = self.parts
        shares = np.array([sum(share_of(done, parts.edges[each.edge]) for done in each.rounds) for each in deliveries])
        ages = np.array([t - each.version for each in deliveries])
        factors = (1.0 + ages) ** -(0.0 if self.buffer_size is None else parts.topology.cloud_staleness)
        changed, noised = bool(shares.any()), None
        model = average_of(self.model, deliveries, shares, factors, self.buffer_size is not None)
        if changed and parts.topology.noise == "cloud" and parts.learner.dimension:
            everybody = members_in(t, deliveries, parts, float(shares.sum()), self.world.now)
            noised = self.global_model.pipeline.release(everybody, model - self.model)
        self.global_model.replace(model if noised is None else self.model + noised.server_update)
        clients, weights = weights_in(deliveries, parts, factors)
        cells = merge_cells([done.row for each in deliveries for done in each.rounds])
        cells |= {} if noised is None else noised.row
        size = parts.learner.model_bytes
        cells |= {"bytes_edges_down": size * len(deliveries), "bytes_edges_up": size * len(deliveries)}
        if self.buffer_size is not None:
            cells |= {"staleness_mean": float(ages.mean()), "staleness_max": int(ages.max())}
        left = not any(done.last for each in deliveries for done in each.rounds)
        row, last = self.global_model.progress.end_round(
            clients,
            self.world.now,
            cells,
            train_loss=mean_loss(deliveries, parts),
            model_changed=changed,
            clients_left=left,
        )
        parts.learner.drop(t)
        self.at_end = last
        facts = () if noised is None else noised.facts
        done = RoundResult(t, clients, weights, row, last, facts=facts)
        return self.report(done, deliveries)

    def report(self, done: RoundResult, deliveries: Sequence[EdgeDelivery] = ()) -> RoundResult:
        """The round with those of its edges."""
        edges = []
        for each in deliveries:
            edge, rounds = self.edges[each.edge], list(each.rounds)
            if done.last:
                rounds[-1] = edge.close(rounds[-1])
            edge.hand_on()
            edges += [EdgeRound(each.edge, edge.members.clients, one) for one in rounds]
        self.note("round_end", round=done.number, cardinality=len(done.clients))
        return replace(super().report(done), edges=edges)

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Besides: the edges'."""
        named = [prefix_arrays(f"edge/{number}", edge.state()) for number, edge in enumerate(self.edges)]
        return super().state() | {name: value for arrays in named for name, value in arrays.items()}

    def restore(self, state: Arrays, tally: Tally) -> None:
        """Goes back to a :meth:`state`."""
        super().restore(state, tally)
        for number, edge in enumerate(self.edges):
            edge.restore(under(f"edge/{number}", state))
