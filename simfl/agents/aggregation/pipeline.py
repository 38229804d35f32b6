"""From jobs to one aggregate: training, the clients' stages, the protocol's sum, the server's stages.

Every server needs the same arithmetic between the updates that count and the step of the model, and its promises about
privacy rest on the order of its parts. So there is one pipeline; servers differ in when they call it. The order:

1. the jobs that count are trained, in one batch; the rule makes of each change what is summed (``contributions``);
2. coordinates that never leave a client are taken out; then the stages' client parts, in the order of the scenario,
   and among them the compression (:func:`simfl.core.coverage.compression_place`);
3. each vector gets its weight (0 without samples) and its entry of the participation matrix; the protocol adds up and
   divides, and may round weights, also to 0; members of the total are the clients whose weight is not 0 in the end;
4. the aggregate's factor, if it has one, multiplies the sum, or is kept for the step;
5. the stages state their facts, and their server parts work in reverse order; each gives its next state. In the result
   the private coordinates are back, and are 0, and so are those that nobody has sent.

Invariants: what the server sees is the protocol's total, and single vectors only where the protocol shows them. No part
reads what a later one makes. Stages' states change in step 5 only, once an aggregate, so that the client parts of one
aggregate all see the same state; a client's residual (error feedback) changes once its update is in the total. Draws
are addressed by job or by number of the aggregate, so that batches and the order of arrivals change none. A round that
sums nobody releases nothing, unless the rule divides by a fixed number (:meth:`AggregationPipeline.nobody`).

A checkpoint needs the stages' states and the residuals: all other inputs are arguments, or others' state.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation import promises
from simfl.agents.aggregation.aggregation_result import AggregationResult, ReleasedUpdate
from simfl.agents.aggregation.components import Components
from simfl.clients.client_agents import AttackRun
from simfl.core.coverage import compression_place
from simfl.core.errors import PluginError
from simfl.core.types import Aggregate, Arrays, Integers, Job, Updates, Vectors, prefix_arrays, under
from simfl.core.validation import checked_arrays, checked_vectors, read_only
from simfl.privacy.stage import NOT_FINITE, Members, of_each_sample, of_one_sample
from simfl.secagg.sessions import ClientUpdates, SessionResult, unit_of
from simfl.training.aggregates import BesideUpdates, Factor
from simfl.training.base import Rule, used_row


class CompressionStep:
    """The clients' compression and, with error feedback, their residuals.

    Where everybody in a sum sends the same coordinates, only these are added up (:meth:`pack`). A client's residual is
    what compression has left out of its updates so far; it changes once an update is summed (:meth:`keep`). An update
    that is not (its client failed, was late, holds no samples, or its unit was given up) leaves it as it was, and so
    does one that holds no number.

    Attributes:
        place: how many of the stages work before it.
        residuals: float32 (d,), of each client that has been summed.
    """

    def __init__(self, parts: Components[Rule]) -> None:
        self.compression, self.streams = parts.compression, parts.streams
        self.place = compression_place(parts.stages)
        self.dimension, self.length = parts.lengths[self.place : self.place + 2]
        self.residuals: dict[int, Vectors] = {}
        self._left_out: dict[int, Vectors] = {}

    def client(self, vectors: Vectors, jobs: tuple[Job, ...]) -> Vectors:
        """What the clients send, (n, d'), of their updates, (n, d)."""
        self._left_out = {}
        if not (self.compression.codes and vectors.size):
            return vectors
        coded = self._code(vectors, jobs)
        return self.pack(coded, jobs[0].selection)

    def _code(self, vectors: Vectors, jobs: tuple[Job, ...]) -> Vectors:
        """What the server reads of each message, (n, d); an update that holds no number stays as it is."""
        feedback = self.compression.error_feedback
        if feedback:
            earlier = [self.residuals.get(job.client) for job in jobs]
            vectors = np.stack(
                [row if left is None else row + left for row, left in zip(vectors, earlier, strict=True)]
            )
        sound = np.asarray(np.isfinite(vectors).all(axis=1))
        finite = vectors if sound.all() else np.where(sound[:, None], vectors, np.float32(0))
        sent = self._compress(finite, jobs)
        if feedback:
            rows = zip(jobs, finite - sent, sound.tolist(), strict=True)
            self._left_out = {job.client: row for job, row, is_sound in rows if is_sound}
        return sent if sound.all() else np.where(sound[:, None], sent, vectors)

    def keep(self, clients: Iterable[int]) -> None:
        """The updates of these clients have been summed: what was left out of them are the residuals now."""
        self.residuals |= {client: self._left_out[client].copy() for client in clients if client in self._left_out}
        self._left_out = {}

    def _compress(self, vectors: Vectors, jobs: tuple[Job, ...]) -> Vectors:
        sent = self.compression.client(vectors, jobs, self.streams)
        checked_vectors(sent, vectors.shape, f"compression '{self.compression.name}'", "client gives")
        return sent

    def pack(self, vectors: Vectors, number: int) -> Vectors:
        """The coordinates of (..., d) that are added up in round ``number``, (..., d')."""
        return vectors if (sent := self._sum_coordinates(vectors, number)) is None else vectors[..., sent]

    def unpack(self, vectors: Vectors, number: int) -> Vectors:
        """Undoes :meth:`pack`: all others are 0."""
        if (sent := self._sum_coordinates(vectors, number)) is None:
            return vectors
        whole = np.zeros((*vectors.shape[:-1], self.dimension), dtype=vectors.dtype)
        whole[..., sent] = vectors
        return whole

    def _sum_coordinates(self, vectors: Vectors, number: int) -> Integers | None:
        """The coordinates that are added up; None = all, or vectors are empty since nothing is learned."""
        return None if self.length == self.dimension or not vectors.shape[-1] else self.coordinates(number)

    def coordinates(self, number: int) -> Integers | None:
        """The coordinates that everybody knows to be sent in round, or selection, ``number``."""
        return self.compression.coordinates(self.dimension, number, self.streams)

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """The residuals as named arrays; nothing where there are none."""
        if not self.residuals:
            return {}
        clients = sorted(self.residuals)
        return {
            "clients": np.array(clients, dtype=np.int64),
            "residuals": np.stack([self.residuals[client] for client in clients]),
        }

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""
        self.residuals = dict(zip(np.asarray(state["clients"]).tolist(), state["residuals"])) if state else {}


class AggregationPipeline:
    """The one way from jobs to an aggregate, for every server.

    A client without samples is in no sum: it counts with weight 0 and is no member of the total. Coordinates that never
    leave a client are in no vector that stages and protocols see; in the aggregate they are 0.
    """

    def __init__(self, parts: Components[Rule]) -> None:
        self.parts = parts
        self.compression = CompressionStep(parts)
        self.attack_run = AttackRun(parts, parts.streams)
        self.remembers = parts.rule.aggregate.reads_previous or not parts.agents.all_standard
        self.previous = np.zeros(parts.learner.dimension if self.remembers else 0, dtype=np.float32)
        self.states: list[Arrays] = [
            checked_arrays(stage.start(d), f"stage '{stage.name}'", "start")
            for stage, d in zip(parts.stages, parts.stage_inputs, strict=True)
        ]

    def train(self, jobs: Sequence[Job]) -> Updates:
        """Trains exactly these jobs, in one batch; what clients then send is theirs to say."""
        updates, most = promises.train_as_said(self.parts, jobs), int(self.parts.learner.samples.max(initial=0))
        return self.attack_run.sends(jobs, updates, self.previous, most)

    def sum(
        self,
        number: int,
        jobs: Sequence[Job],
        updates: Updates,
        staleness: Integers,
        model: Vectors,
        done: SessionResult,
    ) -> AggregationResult | None:
        """The aggregate of trained jobs; None if nobody among them holds samples.

        Args:
            number: of the aggregation.
            jobs: by ascending client, n.
            updates: what training made of them.
            staleness: the staleness that weighs each, (n,).
            model: the current model, (d,).
            done: the protocol's good end.
        """
        parts = self.parts
        contributions = promises.required_changes(parts, jobs, updates.deltas, model)
        client_updates = self._client_updates(jobs, updates, staleness, contributions)
        client_updates, compared, beside = self._bind(number, client_updates, done)
        in_sum = client_updates.weights > 0
        if not in_sum.any():
            return None
        total = self._add(done, client_updates)
        each, read = (self._to_model(values, number) for values in (client_updates.vectors, total.vector))
        if not parts.changes_coordinates and each is not None and read is not None:
            client_updates, total = client_updates._replace(vectors=each), total._replace(vector=read)
        in_sum &= total.weights != 0
        if not in_sum.any():
            return None
        members = self._members(number, updates, client_updates, total)
        shares = members.weights / members.divisor if total.shares is None else total.shares
        promises.require_sum(parts, client_updates, total, members, shares)
        row = used_row(parts.rule, total.weights, shares, members.divisor, updates.examples)
        total = total._replace(
            clients=total.clients[in_sum], weights=row[in_sum], shares=shares[in_sum],
            opened=tuple(compress(total.opened, in_sum)),
        )  # fmt: skip
        self.compression.keep(total.clients.tolist())
        summed, counts = total.vector, self._count_shares(client_updates, done, compared, beside, in_sum)
        total, factor, mask = self._apply_factor(number, client_updates, done, compared, total)
        vector = total.vector if parts.changes_coordinates else self.compression.pack(self._sent(total.vector), number)
        server_update, facts, cells = self.release(members, vector, contributions[in_sum])
        cells |= {**updates.row, **total.row, **(factor.row if factor else {})}
        legible = each, read if parts.changes_coordinates else total.vector
        return AggregationResult(total, server_update, client_updates, done, updates, contributions, facts, cells,
                                 members.divisor, mask, legible, summed, counts)  # fmt: skip

    def _bind(self, number: int, updates: ClientUpdates, done: SessionResult) -> tuple[ClientUpdates, Any, Any]:
        """The updates with the aggregate beside what the server has; the vectors and weights that it is given: theirs,
        or once they are added up the means of units; and what the server has.
        """
        beside = self._beside(number, updates.clients if done.opened is None else np.arange(len(done.opened)))
        compared = [updates.vectors, updates.weights]
        more = {"beside": beside} if self.parts.rule.aggregate.reads_server else {}

        def combine(vectors: Vectors, weights: Any, *rest: Any) -> Vectors:
            if done.opened is not None:
                compared[:] = vectors, weights
            vector: Vectors = updates.combine(vectors, weights, *rest, **more)
            checked_vectors(vector, vectors.shape[1:], f"aggregate '{self.parts.rule.aggregate.name}'", "combine gives")
            return vector

        return updates._replace(combine=combine), compared, beside

    def _count_shares(self, updates: ClientUpdates, done: SessionResult, compared: Any, beside: Any, some: Any) -> Any:
        """What some updates count in the aggregate, (n,), of units their parts; None = nobody asks, or not known."""
        if not any(metric.reads_shares for metric in self.parts.metrics):
            return None
        vectors, weights = compared
        aggregate = self.parts.rule.aggregate
        shares = aggregate.shares(vectors, weights, beside)
        if shares is not None:
            checked_vectors(shares, weights.shape, f"aggregate '{aggregate.name}'", "shares gives")
        if shares is not None and done.opened is not None:
            whole = weights[unit := unit_of(done.opened, updates.clients)]
            shares = shares[unit] * np.divide(updates.weights, whole, out=np.zeros(len(unit)), where=whole > 0)
        return None if shares is None else shares[some]

    def _beside(self, number: int, clients: NDArray[np.integer]) -> BesideUpdates:
        """What the server has besides the clients' updates of aggregation ``number``."""

        def read(values: Vectors) -> Vectors:
            return read_only(self.compression.pack(self._sent(values), number))

        previous = read(self.previous) if self.remembers else self.previous
        rng, root = partial(self.parts.streams, "aggregate", number), self.parts.learner.root_update
        return BesideUpdates(previous, lambda samples: read(root(number, samples)), clients.astype(np.int64), rng)

    def _members(self, number: int, updates: Updates, client_updates: ClientUpdates, total: Aggregate) -> Members:
        """Whose updates count what; a protocol may have rounded the weights, and each of the coordinates."""
        parts, row = self.parts, np.asarray(client_updates.row)
        weights = client_updates.weights * np.divide(total.weights, row, out=np.zeros(len(row)), where=row != 0)
        promises.require_fixed(parts.rule, client_updates.divisor(weights))
        return Members(
            number, client_updates.jobs, weights, client_updates.divisor(weights), total.opened, updates.examples,
            parts.rule.fixed_denominator, parts.rule.algorithm.follows_data, total.step, parts.elements,
            known=parts.known_updates, clipped=total.clipped, **parts.sample_facts(client_updates.jobs),
        )  # fmt: skip

    def _add(self, done: SessionResult, client_updates: ClientUpdates) -> Aggregate:
        """The protocol's sum, looked at before anything rests on it."""
        protocol = f"secagg '{self.parts.protocol.name}'"
        total = self.parts.protocol.add(done, client_updates, self.parts.streams)
        checked_vectors(total.vector, (client_updates.vectors.shape[1],), protocol, "add gives as vector")
        checked_vectors(total.clients, (n := len(client_updates.jobs),), protocol, "add gives as clients")
        checked_vectors(total.weights, (n,), protocol, "add gives as weights")
        return total

    def _apply_factor(
        self, number: int, updates: ClientUpdates, done: SessionResult, compared: Any, total: Aggregate
    ) -> tuple[Aggregate, Factor | None, Any]:
        """The aggregate times the factor of the rule's aggregate, or what the server's step is multiplied with."""
        learner, aggregate = self.parts.learner, self.parts.rule.aggregate
        d = learner.dimension  # stages may have added coordinates of their own
        vectors: Any = updates.vectors if done.opened is None else self._to_model(compared[0], number)
        factor = aggregate.factor(vectors[:, :d], compared[1], updates.mask, learner.tensors)
        if factor is not None and aggregate.sum_only:
            why = "says that it needs the updates' sum only (sum_only), but multiplies by what it makes of single ones"
            raise PluginError(f"aggregate '{aggregate.name}'", why)
        if factor is None or factor.on_step:
            return total, factor, None if factor is None else factor.values
        return total._replace(vector=np.append(factor.values * total.vector[:d], total.vector[d:])), factor, None

    def nobody(self, number: int) -> ReleasedUpdate | None:
        """A round that sums nobody; None where the rule's denominator depends on who came, so that nothing is released.

        Noise must be there all the same, that of aggregation ``number``: a round without any would tell that nobody
        took part.
        """
        parts, denominator = self.parts, self.parts.rule.fixed_denominator
        if denominator is None:
            return None
        d = parts.elements if parts.learner.dimension else 0
        left = parts.rule.algorithm.follows_data
        members = Members(number, (), np.zeros(0), denominator, fixed=denominator, follows_data=left)
        return self.release(members, np.zeros(d, dtype=np.float32))

    def release(self, members: Members, server_update: Vectors, summed: Any = ()) -> ReleasedUpdate:
        """What the server's stages make of an aggregate of updates, (n, d), which may hold no numbers."""
        stages = self.parts.stages
        facts = tuple(it.facts(members, state) for it, state in zip(stages, promises.states_for(stages, self.states)))
        server_update = self._whole(self._release(server_update, members))
        self.previous = server_update if self.remembers else self.previous
        shown = [{column.name for column in stage.columns} for stage in stages]
        row = {name: known[name] for known, names in zip(facts, shown, strict=True) for name in names & known.keys()}
        if any(NOT_FINITE.name in names for names in shown):
            row[NOT_FINITE.name] = sum(not np.isfinite(update).all() for update in summed)
        return ReleasedUpdate(server_update, facts, row)

    def _release(self, vector: Vectors, members: Members) -> Vectors:
        """The aggregate, (d',), after the server's stages, in reverse order, (d,); each gives its next state."""
        stages, place = self.parts.stages, self.compression.place
        for i in reversed(range(len(stages))):
            if i == place - 1:
                vector = self.compression.unpack(vector, members.number)
            state = promises.states_for(stages[i : i + 1], self.states[i : i + 1])[0]
            released = stages[i].server(vector, members, state, self.parts.stage_streams[i])
            length = (self.parts.stage_inputs[i] if self.parts.learner.dimension else None,)
            vector, self.states[i] = promises.required_release(stages, i, released, state, length)
        return vector if place else self.compression.unpack(vector, members.number)

    def _client_updates(
        self, jobs: Sequence[Job], updates: Updates, staleness: Integers, vectors: Vectors
    ) -> ClientUpdates:
        rule, learner = self.parts.rule, self.parts.learner
        vectors = self._sent(vectors)
        vectors = self._code(tuple(jobs), vectors)
        examples = updates.examples
        weights = rule.weights(examples, staleness)
        if not (np.isfinite(weights) & (weights >= 0)).all():
            raise PluginError(f"training '{rule.name}'", "weights gives a number below 0, or none; give 0 or more")
        if learner.dimension:
            weights = weights * (examples > 0)
        divisor: Any = partial(rule.divisor, examples=examples)
        combine = rule.aggregate.combine
        sharing = [each for each in zip(self.parts.stages, self.parts.stage_streams, strict=True) if each[0].seeds]
        job_secrets = (chain.from_iterable(stage.secrets(job, streams) for stage, streams in sharing) for job in jobs)
        secrets = tuple(map(tuple, job_secrets)) if sharing else ()
        row = rule.row(staleness)
        sending = ClientUpdates(tuple(jobs), read_only(vectors), updates.mask, weights, row, divisor, combine, secrets)
        of_samples = bool(self.parts.protocol.certificate)
        return sending._replace(moved=self._sample_shift(sending, examples)) if of_samples else sending

    def _sample_shift(self, sending: ClientUpdates, examples: Integers) -> float:
        """By how much one training sample moves the sum of these updates at most."""
        left, known = self.parts.rule.algorithm.follows_data, self.parts.sample_facts(sending.jobs)
        members = Members(0, sending.jobs, sending.weights, 1.0, None, examples, None, left, **known)
        return of_one_sample(members, of_each_sample(members, self.parts.weight_decay))

    def _code(self, jobs: tuple[Job, ...], vectors: Vectors) -> Vectors:
        """What stages and compression make of the clients' vectors, (n, d) -> (n, d')."""
        place = self.compression.place
        for i, (stage, state) in enumerate(zip(self.parts.stages, promises.states_for(self.parts.stages, self.states))):
            if i == place:
                vectors = self.compression.client(vectors, jobs)
            length, before, streams = stage.length(vectors.shape[1]), read_only(vectors), self.parts.stage_streams[i]
            vectors = stage.client(before, jobs, state, streams)
            checked_vectors(vectors, (len(jobs), length), f"stage '{stage.name}'", "client gives")
            promises.require_maps(stage, before, vectors, partial(stage.client, before[:1], jobs[:1], state, streams))
        return vectors if place < len(self.states) else self.compression.client(vectors, jobs)

    def _to_model(self, values: Vectors, number: int) -> Vectors | None:
        """What was added up in aggregation ``number``, (..., d'), in the model's coordinates; None: it is coded."""
        front = self.parts.legible_length
        return None if front is None else self._whole(self.compression.unpack(values[..., :front], number))

    def _sent(self, values: Vectors) -> Vectors:
        """The coordinates that leave the clients, (..., d) -> (..., d')."""
        private = self.parts.learner.private
        return values if private is None else values[..., ~private]

    def _whole(self, values: Vectors) -> Vectors:
        """Undoes :meth:`_sent`: the private coordinates are 0."""
        private = self.parts.learner.private
        if private is None:
            return values
        whole = np.zeros((*values.shape[:-1], len(private)), dtype=values.dtype)
        whole[..., ~private] = values
        return whole

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> Arrays:
        """The stages' states and the compression's as named arrays."""
        named = {str(i): state for i, state in enumerate(self.states)} | {"compression": self.compression.state()}
        named |= {"previous": {"aggregate": self.previous}} if self.remembers else {}
        return {name: value for part, state in named.items() for name, value in prefix_arrays(part, state).items()}

    def restore(self, state: Arrays) -> None:
        """Takes back a :meth:`state`."""
        self.states = [under(str(i), state) for i in range(len(self.states))]
        self.compression.restore(under("compression", state))
        self.previous = under("previous", state).get("aggregate", self.previous)
