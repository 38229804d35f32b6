"""A scenario played with chosen updates: the real server, sessions, stages and sums, and all that an observer sees."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.aggregation_result import AggregationResult, ReleasedUpdate
from simfl.agents.aggregation.components import Components, RoundResult
from simfl.agents.aggregation.pipeline import AggregationPipeline
from simfl.agents.server_choice import make_server
from simfl.agents.world import World
from simfl.core.json_data import JsonObject
from simfl.core.rng import Streams
from simfl.core.types import Aggregate, Job, Updates
from simfl.learning.none import IdleLearner
from simfl.privacy.accountant import History
from simfl.privacy.stage import stage_streams
from simfl.runs.accounting import facts_of, history_of
from simfl.runs.run import build
from simfl.runs.views import Told, Views
from simfl.scenario import Scenario
from simfl.secagg.sessions import ClientUpdates, SessionResult
from simfl.training.base import Rule

Vectors = NDArray[np.float64]

DIMENSION = 3
"""Coordinates of updates."""
ELSEWHERE = 1 << 40
"""Seeds of noise drawn anew begin here: far from those of scenarios."""
Call = tuple[int, tuple[Job, ...], tuple[Any, ...]]
"""What the server asked of the pipeline: an aggregate's number, its jobs, what else; without that, one of nobody."""


class Use(NamedTuple):
    """A stream that the stage at a place has asked for: its purpose, and all of its address."""

    stage: int
    purpose: str
    address: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Watched(Streams):
    """Streams that note their ``uses``, of which all but purposes ``fixed``, or ``only`` one, can be drawn anew."""

    stage: int = 0
    redraw: int = 0
    fixed: frozenset[str] = frozenset()
    only: str = ""
    uses: list[Use] = field(default_factory=list)

    __eq__ = object.__eq__  # whoever keeps what was drawn once would hide that it is drawn again
    __hash__ = object.__hash__

    def __call__(self, purpose: str, *key: int) -> np.random.Generator:
        whole = self.within + purpose
        self.uses.append(Use(self.stage, whole, (str(self.seed), whole, *(str(int(part)) for part in key))))
        anew = self.redraw and whole not in self.fixed and self.only in ("", whole)
        return Streams(ELSEWHERE + self.redraw if anew else self.seed, self.within)(purpose, *key)


class ChosenUpdates(IdleLearner):
    """A learner whose clients send what they are told to, whatever the model: ``updates`` (clients, d)."""

    def __init__(self, samples: NDArray[np.int64], updates: Vectors) -> None:
        super().__init__(4 * updates.shape[1], samples)
        self.dimension, self.updates = updates.shape[1], updates
        self.tensors = (slice(0, self.dimension),)

    def initial(self) -> NDArray[np.float32]:
        return np.linspace(-1, 1, self.dimension, dtype=np.float32)  # what depends on a model is seen

    def train(self, jobs: Sequence[Job]) -> Updates:
        clients = [job.client for job in jobs]
        return Updates(self.updates[clients].astype(np.float32), self.samples[clients], np.zeros(len(jobs)))


class RecordedSum(NamedTuple):
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


class Recorder(AggregationPipeline):
    """The pipeline, noting what was seen and asked, ``drawn`` by stages' clients, and by the protocol (``masks``)."""

    def __init__(self, parts: Components[Rule], streams: Watched, run_streams: Watched) -> None:
        of_stages = enumerate(stage_streams(parts.stages, parts.streams))
        vars(parts)["stage_streams"] = tuple(replace(streams, within=each.within, stage=i) for i, each in of_stages)
        super().__init__(parts)
        self.run_streams, self.masks = run_streams, list[Use]()
        self.streams, self.sums, self.calls = streams, list[RecordedSum](), list[Call]()
        self.uses_by_call: list[list[Use]] = []
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
        self.uses_by_call.append(self.streams.uses[before:])
        return sent

    def _add(self, done: SessionResult, client_updates: ClientUpdates) -> Aggregate:
        uses = self.run_streams.uses
        before = len(uses)
        total = super()._add(done, client_updates)
        self._added = client_updates, total
        self.masks += uses[before:]
        return total

    def sum(self, number: int, jobs: Sequence[Job], *args: Any) -> AggregationResult | None:
        self._added = None
        self.calls.append((number, tuple(jobs), args))
        result = super().sum(number, jobs, *args)
        if self._added is not None:
            updates, total = self._added
            linear = self.parts.rule.aggregate.sum_only and self.parts.rule.aggregate.weighted
            said = updates.weights / updates.divisor(updates.weights) if total.shares is None else total.shares
            released = np.zeros(0) if result is None else result.server_update
            seen = updates.vectors, total.vector, released, said if linear else said[:0]
            self._note(updates.clients, seen, total.step, total.clipped)
        return result

    def nobody(self, number: int) -> ReleasedUpdate | None:
        self.calls.append((number, (), ()))
        released = super().nobody(number)
        if released is not None:
            nothing = np.zeros(self.parts.elements)
            seen = np.zeros((0, len(nothing))), nothing, released.server_update, np.zeros(0)
            self._note(np.zeros(0, dtype=np.int32), seen)
        return released

    def _note(
        self, clients: NDArray[np.int32], seen: Sequence[NDArray[Any]], step: float = 0.0, clipped: int = 0
    ) -> None:
        sent, total, released, shares = (np.array(each, dtype=np.float64) for each in seen)
        self.sums.append(RecordedSum(clients, sent, total, released, shares, step, clipped))


@dataclass(frozen=True)
class Played:
    """What a play left behind: the sums in which somebody was, or that released something; what the server said of each
    round; what it asked of the pipeline; what the protocol has drawn for its sums; the simulated messages.
    """

    scenario: Scenario
    parts: Components[Rule]
    sums: list[RecordedSum]
    rounds: list[RoundResult]
    calls: list[Call]
    masks: list[Use]
    messages: list[JsonObject]

    @property
    def nothing(self) -> Vectors:
        """Updates of 0, (clients, d)."""
        return np.zeros((self.scenario.clients, DIMENSION))

    def again(self, updates: Vectors, redraw: int = 0, only: str = "") -> Recorder:
        """The same aggregates of the same jobs, of other updates, (clients, d), and with another draw of the noise; 0 =
        that of the play; ``only``: of one purpose.
        """
        learner: Any = ChosenUpdates(self.parts.learner.samples, updates)
        fixed = self.public if redraw and not only else frozenset[str]()
        watched = Watched(self.parts.streams.seed, redraw=redraw, fixed=fixed, only=only)
        recorder = Recorder(replace(self.parts, learner=learner), watched, Watched(0))
        for number, jobs, args in self.calls:
            if args:
                recorder.sum(number, jobs, learner.train(jobs), *args[1:])
            else:
                recorder.nobody(number)
        return recorder

    @cached_property
    def public(self) -> frozenset[str]:
        """Purposes for which a stage's clients draw though nothing of it is in what the stage makes of updates of 0:
        rotations and roundings, which both worlds have in common.
        """
        jobs, purposes = next((jobs for _, jobs, _ in self.calls), ()), set[str]()
        streams = stage_streams(self.parts.stages, self.parts.streams)
        for stage, d, drawing in zip(self.parts.stages, self.parts.stage_inputs, streams, strict=True):
            sent, base = partial(stage.client, np.zeros((len(jobs), d), np.float32), jobs, stage.start(d)), Watched(0)
            before = sent(replace(base, within=drawing.within))
            for purpose in {use.purpose for use in base.uses}:
                if np.array_equal(before, sent(Watched(0, drawing.within, redraw=1, only=purpose))):
                    purposes.add(purpose)
        return frozenset(purposes)

    @cached_property
    def history(self) -> History:
        """What accountants are given."""
        shape = len(self.rounds), self.scenario.clients
        views = Views(self.scenario, shape[0], Told.of_rounds(self.rounds, shape, self.parts.rule.many_aggregators))
        stated = ((done.number, i, *it) for done in self.rounds for i, of in enumerate(done.facts) for it in of.items())
        return history_of(self.scenario, views, facts_of(stated, self.scenario, shape[0]), self.parts.learner.samples)

    def uploads(self, client: int) -> int:
        """How many updates a client has sent, in a sum or not."""
        return sum(e["event"] == "message" and (e["kind"], e["from"]) == ("update", client) for e in self.messages)


def simulate(scenario: Scenario, updates: Vectors | None = None) -> Played:
    """A scenario, its ``learning`` put aside, with these updates, (clients, d), the same in every job; None = 0.

    Clients hold other numbers of samples, which may weigh updates.
    """
    chosen = np.zeros((scenario.clients, DIMENSION)) if updates is None else updates
    learner: Any = ChosenUpdates(np.arange(1, scenario.clients + 1) % 4 + 1, chosen)
    streams = Watched(scenario.seed)
    parts = replace(build(scenario), streams=streams, learner=learner, recovery_budget=0)
    rounds, messages = list[RoundResult](), list[JsonObject]()
    server = make_server(parts, World(0.0), rounds.append, messages.append)
    recorder = server.global_model.pipeline = Recorder(parts, Watched(scenario.seed), streams)
    server.world.run(server.world.spawn(server.run()))
    return Played(scenario, parts, recorder.sums, rounds, recorder.calls, recorder.masks, messages)
