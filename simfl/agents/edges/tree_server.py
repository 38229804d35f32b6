"""The cloud of a tree of edges, and several servers beside one another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components, EdgeRound, RoundResult
from simfl.agents.aggregation.exchange import message
from simfl.agents.edges.edge import BufferedEdge, EdgeAgent, EdgeDelivery
from simfl.agents.servers import SERVERS, RoundServer
from simfl.agents.world import REFILL, Process
from simfl.core.json_data import JsonObject
from simfl.core.types import SERVER, Arrays, Floats, Integers, Job, Vectors, prefix_arrays, under
from simfl.metrics.participation import Tally
from simfl.privacy.stage import Members
from simfl.training.base import Rule, SynchronousRule


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
            kind(parts, self.world, self.log, f"{self.parts.topology.aggregator}/{number}")
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
            del edge.unaveraged[: len(rounds)]
        for edge in self.edges if done.last else ():  # an edge knows of these, whether the root hears of them or not
            edges += [EdgeRound(edge.members.edge, edge.members.clients, one, False) for one in edge.rest()]
            edge.hand_on()
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


# -- What a cloud makes of its edges' models: their average, who is in it with which weight, and the row of the round

LARGEST = 2**32
"""Rows with larger numbers are rounded instead."""


OWN_CELLS = ("round", "time_s", "skipped", "cardinality", "mean_cardinality", "fairness_gap", "train_loss")
"""Cells that the cloud fills itself."""


def share_of(done: RoundResult, parts: Components[Rule]) -> float:
    """What all updates in an edge's aggregate would weigh together if none was stale; 0 without any."""
    if not len(done.clients):
        return 0.0
    rule, examples = parts.rule, samples_in(done, parts)
    return float(rule.weights(examples, np.zeros(len(examples), dtype=np.int64)).sum())


def samples_in(done: RoundResult, parts: Components[Rule]) -> Integers:
    """The samples of each client in an edge's aggregate, (n,)."""
    return parts.learner.counts(done.clients, done.number)


def row_of(delivery: EdgeDelivery, parts: Components[Rule], factor: float, scale: float) -> NDArray[Any]:
    """By what each member's update is multiplied in the root's average, but for what all of it is divided by, (m,): of
    one aggregation its row; of several their rows, each divided by what its own sum was divided by, times what all of
    their updates weigh, and times ``scale``.
    """
    total, share = np.zeros(parts.clients), sum(share_of(done, parts) for done in delivery.rounds)
    if len(delivery.rounds) == 1 and factor == 1.0 and share == delivery.rounds[0].divisor:
        total = total.astype(delivery.rounds[0].weights.dtype)
        total[delivery.rounds[0].clients] = delivery.rounds[0].weights * int(scale)
        return total
    for done in delivery.rounds:
        total[done.clients] += factor * share * done.weights * (scale / (done.divisor or 1.0))
    return total


def common_multiple(shares: Sequence[float]) -> float:
    """What all these are whole parts of, so that rows are whole numbers, and exact; 1 where that is too large."""
    whole = [int(share) for share in shares if share]
    multiple = lcm(*whole)
    return float(multiple) if multiple < LARGEST and whole == [share for share in shares if share] else 1.0


def weights_in(
    deliveries: Sequence[EdgeDelivery], parts: Components[Rule], factors: Floats
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Whose updates are in an average, ascending, (m,), and what each counts in it, (m,): a whole number if it can be.

    Args:
        deliveries: the edges' models, n.
        parts: of the scenario.
        factors: by which each is multiplied, (n,).
    """
    sums, whole = np.zeros(parts.clients), True
    divisors = [done.divisor for each in deliveries for done in each.rounds]
    scale = common_multiple(divisors) if any(len(each.rounds) > 1 for each in deliveries) else 1.0
    for delivery, factor in zip(deliveries, factors.tolist(), strict=True):
        edge = parts.edges[delivery.edge]
        assert edge.members is not None
        of_members = row_of(delivery, edge, factor, scale)
        whole &= of_members.dtype.kind == "i"
        sums[edge.members.clients] += of_members
    clients = np.flatnonzero(sums).astype(np.int32)
    return clients, sums[clients].astype(np.int64) if whole else sums[clients]


def average_of(
    model: Vectors, deliveries: Sequence[EdgeDelivery], shares: Floats, factors: Floats, of_changes: bool
) -> Vectors:
    """The average of the edges' models (Liu et al. 2020, Algorithm 1, line 14), or the cloud's model with that of their
    changes; it stays where nobody's update is in any.

    Args:
        model: the cloud's, float32 (d,).
        deliveries: the edges' models, n.
        shares: what the updates in each weigh, (n,).
        factors: by which each change is multiplied, (n,).
        of_changes: whether changes are averaged.
    """
    if not shares.any():
        return model
    parts_of_one = shares / shares.sum()
    if of_changes:
        moves = zip(parts_of_one * factors, deliveries, strict=True)
        total = model + sum(p * (each.after.astype(np.float64) - each.before) for p, each in moves)
    else:
        total = sum(p * each.after.astype(np.float64) for p, each in zip(parts_of_one, deliveries, strict=True))
    return np.asarray(total, dtype=np.float32)


def members_in(
    t: int, deliveries: Sequence[EdgeDelivery], parts: Components[Rule], divisor: float, now_s: float
) -> Members:
    """All updates in an average, for the stages that noise it."""
    rule, in_sum, step = parts.rule, list[tuple[int, float, int]](), 0.0
    for each in deliveries:
        edge = parts.edges[each.edge]
        assert edge.members is not None
        for done in each.rounds:
            examples = samples_in(done, edge)
            weights = rule.weights(examples, np.zeros(len(examples), dtype=np.int64))
            who = edge.members.clients[done.clients]
            in_sum += zip(who.tolist(), weights.tolist(), examples.tolist(), strict=True)
            step = max(step, done.step)
    clients, weights, examples = np.array(sorted(in_sum)).T
    jobs = tuple(Job.of(t, int(client), t, now_s) for client in clients)
    counts, follows = examples.astype(np.int64), rule.algorithm.follows_data
    return Members(t, jobs, weights, divisor, None, counts, None, follows, step, parts.elements)


def mean_loss(deliveries: Sequence[EdgeDelivery], parts: Components[Rule]) -> float | None:
    """Mean training loss over the samples of all updates."""
    losses, counts = [], []
    for each in deliveries:
        for done in each.rounds:
            if (loss := done.row["train_loss"]) is not None:
                losses.append(loss)
                counts.append(int(samples_in(done, parts.edges[each.edge]).sum()))
    return losses[0] if len(losses) == 1 else float(np.average(losses, weights=counts)) if losses else None


def merge_cells(rows: Sequence[Mapping[str, Any]]) -> JsonObject:
    """The cells of several aggregations together: counts add up, of other numbers it is the mean."""
    cells: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            if name not in OWN_CELLS and value is not None:
                cells.setdefault(name, []).append(value)
    return {name: _together(name, values) for name, values in cells.items()}


def _together(name: str, values: list[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    if name.endswith("_max") or "epsilon" in name:
        return max(values)
    return sum(values) if all(isinstance(value, (int, np.integer)) for value in values) else float(np.mean(values))
