"""A scenario played with chosen updates: the real server, sessions, stages and sums, and all that an observer sees."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents import AggregationPipeline, AggregationResult, Components, RoundResult, make_server
from simfl.agents.aggregation.pipeline import ReleasedUpdate
from simfl.agents.world import World
from simfl.core.json_data import JsonObject
from simfl.core.types import SERVER, Aggregate, Job, Updates
from simfl.learning.none import IdleLearner
from simfl.privacy.accountant import History
from simfl.privacy.stage import stage_streams
from simfl.probes.streams import Use, Watched
from simfl.runs.accounting import history_of
from simfl.runs.run import build
from simfl.runs.views import Told, Views
from simfl.scenario import Scenario
from simfl.secagg.sessions import SessionResult
from simfl.secagg.transcript import Transcript
from simfl.secagg.updates import ClientUpdates
from simfl.training.base import Rule

Vectors = NDArray[np.float64]


class ChosenUpdates(IdleLearner):
    """A learner whose clients send what they are told to, whatever the model: ``updates`` (clients, d)."""

    def __init__(self, samples: NDArray[np.int64], updates: Vectors) -> None:
        super().__init__(4 * updates.shape[1], samples)
        self.dimension, self.updates = updates.shape[1], updates
        self.tensors = (slice(0, self.dimension),)

    def initial(self) -> NDArray[np.float32]:
        return np.zeros(self.dimension, dtype=np.float32)

    def train(self, jobs: Sequence[Job]) -> Updates:
        clients = [job.client for job in jobs]
        return Updates(self.updates[clients].astype(np.float32), self.samples[clients], np.zeros(len(jobs)))


class Sum(NamedTuple):
    """One aggregate as it was seen.

    Attributes:
        clients: whose updates were added, int (n,).
        sent: what each of them sent, float64 (n, d').
        total: what the protocol gives, float64 (d',).
        released: what the server's stages make of it, float64 (d,).
        shares: what each update is said to count in the total, float64 (n,); empty where single updates decide.
        step: by how much rounding is said to have moved a coordinate of an update.
        clipped: coordinates that the protocol is said to have clipped.
    """

    clients: NDArray[np.int32]
    sent: Vectors
    total: Vectors
    released: Vectors
    shares: Vectors
    step: float = 0.0
    clipped: int = 0


class Call(NamedTuple):
    """What the server asked of the pipeline: an aggregate of these jobs, or, without arguments, of nobody."""

    number: int
    jobs: tuple[Job, ...]
    args: tuple[Any, ...]


class Recorder(AggregationPipeline):
    """The pipeline that notes what was seen.

    Args:
        parts: the built scenario.
        streams: what the stages draw from.

    Attributes:
        drawn: what the stages' clients asked of the streams, by aggregate.
    """

    def __init__(self, parts: Components[Rule], streams: Watched) -> None:
        vars(parts)["stage_streams"] = streams.of_stages(stage_streams(parts.stages, parts.streams))
        super().__init__(parts)
        self.streams = streams
        self.sums: list[Sum] = []
        self.calls: list[Call] = []
        self.drawn: list[list[Use]] = []
        self._added: tuple[ClientUpdates, Aggregate] | None = None

    def _client_updates(
        self, jobs: Sequence[Job], updates: Updates, staleness: NDArray[np.int64], vectors: NDArray[np.float32]
    ) -> ClientUpdates:
        """Who is told to send 0 sends none, also where whole models are mixed."""
        there = updates.deltas.any(axis=1, keepdims=True)
        return super()._client_updates(jobs, updates, staleness, np.where(there, vectors, np.float32(0)))

    def _code(self, jobs: tuple[Job, ...], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        before = len(self.streams.uses)
        sent = super()._code(jobs, vectors)
        self.drawn.append(self.streams.uses[before:])
        return sent

    def _add(self, done: SessionResult, client_updates: ClientUpdates) -> Aggregate:
        total = super()._add(done, client_updates)
        self._added = client_updates, total
        return total

    def sum(self, number: int, jobs: Sequence[Job], *args: Any) -> AggregationResult | None:
        self._added = None
        self.calls.append(Call(number, tuple(jobs), args))
        result = super().sum(number, jobs, *args)
        if self._added is not None:
            updates, total = self._added
            linear = self.parts.rule.aggregate.sum_only and self.parts.rule.aggregate.weighted
            said = updates.weights / updates.divisor(updates.weights) if total.shares is None else total.shares
            released = np.zeros(0) if result is None else result.server_update
            self._note(updates.clients, updates.vectors, total.vector, released, said if linear else said[:0])
            self.sums[-1] = self.sums[-1]._replace(step=total.step, clipped=total.clipped)
        return result

    def nobody(self, number: int) -> ReleasedUpdate | None:
        self.calls.append(Call(number, (), ()))
        released = super().nobody(number)
        if released is not None:
            nothing = np.zeros(self.parts.elements)
            self._note(
                np.zeros(0, dtype=np.int32), np.zeros((0, len(nothing))), nothing, released.server_update, np.zeros(0)
            )
        return released

    def _note(self, clients: NDArray[np.int32], *seen: NDArray[Any]) -> None:
        self.sums.append(Sum(clients, *(np.array(each, dtype=np.float64) for each in seen)))


@dataclass(frozen=True)
class Played:
    """What a play left behind.

    Attributes:
        sums: in the order of the aggregations that summed somebody, or released something.
        rounds: what the server said of each.
        calls: what the server asked of the pipeline.
        messages: the simulated messages and other events.
    """

    scenario: Scenario
    parts: Components[Rule]
    sums: list[Sum]
    rounds: list[RoundResult]
    calls: list[Call]
    messages: list[JsonObject]

    def again(self, updates: Vectors, redraw: int = 0, only: str = "") -> Recorder:
        """The same aggregates of the same jobs, of other updates and with the noise of other draws.

        Args:
            updates: (clients, d).
            redraw: of the noise; 0 = that of the play.
            only: the one purpose that is drawn anew; empty = all that is noise.
        """
        learner = ChosenUpdates(self.parts.learner.samples, updates)
        kept = self.public if redraw and not only else frozenset[str]()
        watched = Watched(self.parts.streams.seed, redraw=redraw, kept=kept, only=only)
        recorder = Recorder(replace(self.parts, learner=learner), watched)
        for call in self.calls:
            if call.args:
                recorder.sum(call.number, call.jobs, learner.train(call.jobs), *call.args[1:])
            else:
                recorder.nobody(call.number)
        return recorder

    @cached_property
    def public(self) -> frozenset[str]:
        """Purposes for which clients draw though nothing of it is in what they send of updates that are 0: rotations
        and roundings, which both worlds have in common.
        """
        zeros = np.zeros((self.scenario.clients, self.parts.learner.dimension))
        base = self.again(zeros)
        purposes = {use.purpose for uses in base.drawn for use in uses}
        return frozenset(p for p in purposes if same(base.sums, self.again(zeros, 1, p).sums))

    @property
    def history(self) -> History:
        """What accountants are given."""
        from scipy.sparse import csr_array

        shape = len(self.rounds), self.scenario.clients
        matrices = {} if self.parts.rule.many_aggregators else {SERVER: np.zeros(shape)}
        for done in self.rounds:
            to = np.full(len(done.clients), SERVER) if done.aggregators is None else done.aggregators
            for aggregator, client, weight in zip(to.tolist(), done.clients.tolist(), done.weights, strict=True):
                matrices.setdefault(aggregator, np.zeros(shape))[done.number, client] = weight
        facts: tuple[dict[str, Any], ...] = tuple({} for _ in self.scenario.privacy.stages)
        for done in self.rounds:
            for known, said in zip(facts, done.facts):
                for name, value in said.items():
                    known.setdefault(name, np.full(shape[0], np.nan))[done.number] = value
        recorded = np.full(shape[0], np.inf)
        for phase in (phase for done in self.rounds for phase in done.phases):
            if phase.tolerated is not None:
                recorded[phase.round] = min(recorded[phase.round], phase.tolerated)
        participation = {to: csr_array(matrix) for to, matrix in matrices.items()}
        told = Told(lambda: participation, lambda: recorded, self._messages)
        return history_of(self.scenario, Views(self.scenario, shape[0], told), facts, self.parts.learner.samples)

    def _messages(self) -> Iterator[tuple[int, Transcript | None]]:
        for done in self.rounds:
            yield from ((done.number, each) for each in ([None] if done.transcripts is None else done.transcripts))

    def uploads(self) -> NDArray[np.int64]:
        """How many updates each client has sent, in a sum or not, (clients,)."""
        sent = [e["from"] for e in self.messages if e["event"] == "message" and e["kind"] == "update"]
        return np.bincount(np.array(sent, dtype=np.int64), minlength=self.scenario.clients)


def same(sums: Sequence[Sum], others: Sequence[Sum]) -> bool:
    """Whether the clients have sent the same."""
    return all(np.array_equal(one.sent, other.sent) for one, other in zip(sums, others, strict=True))


def play(scenario: Scenario, samples: NDArray[np.int64], updates: Vectors) -> Played:
    """A scenario in which nothing is learned, played with these updates, the same in every job.

    Args:
        scenario: what to play; its ``learning`` is put aside.
        samples: of each client, (clients,).
        updates: (clients, d).
    """
    parts = replace(build(scenario), learner=ChosenUpdates(samples, updates), recovery_budget=0)
    rounds: list[RoundResult] = []
    messages: list[JsonObject] = []
    server = make_server(parts, World(0.0), rounds.append, messages.append)
    recorder = Recorder(parts, Watched(scenario.seed))
    server.global_model.pipeline = recorder
    server.world.run(server.world.spawn(server.run()))
    return Played(scenario, parts, recorder.sums, rounds, recorder.calls, messages)
