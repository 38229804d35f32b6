"""What the agents work with and what they leave behind."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import hypot, inf
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.session_checks import checked_upload_bytes
from simfl.attacks.base import Observer, ServerView
from simfl.clients.client_agents import Agents, ClientAgent, Standard
from simfl.compression.base import Compression, NoCompression
from simfl.core.columns import BYTES_SENT_UP
from simfl.core.coverage import compression_place
from simfl.core.json_data import JsonObject
from simfl.core.payload import SCORE_BYTES, VALUE_BYTES
from simfl.core.rng import Address, Streams
from simfl.core.types import CLEAR_FIELDS, Job, Units
from simfl.devices.base import Available, Computing, Failing
from simfl.learning.base import Learner
from simfl.metrics.base import Metric
from simfl.network.base import Links
from simfl.network.links import PathLinks, sharing
from simfl.privacy.certify.chain import noise_where
from simfl.privacy.stage import Stage, stage_streams
from simfl.results.tables import JobRow, PhaseRow
from simfl.secagg.base import Plain, Protocol
from simfl.secagg.sessions import Cohort
from simfl.secagg.transcript import Transcript
from simfl.selection.base import Policy
from simfl.topology.base import StarTopology, Topology
from simfl.training.base import Rule

if TYPE_CHECKING:
    from simfl.agents.edges.members import EdgeMembers

R_co = TypeVar("R_co", bound=Rule, covariant=True)


@dataclass(frozen=True)
class Components(Generic[R_co]):
    """Everything a server works with, built from one scenario.

    Attributes:
        rule: what its server reads: a synchronous or a buffered rule, or another of the server's own.
        records: rounds carry what the server saw.
        counts_change: a client's number of samples may depend on the version of the model that it trains on.
        recovery_budget: operations that measuring what is recovered of updates may take; 0 = it is not measured.
        weight_decay: the L2 penalty of the clients' losses.
        agents: what the clients do on the clock, and whether as processes.
        loss: probability that a message is lost.
        topology: who talks with whom.
        edges: what each edge works with; none in a star.
        members: an edge's clients; None = these are all of the scenario.
    """

    clients: int
    streams: Streams
    links: Links
    available: Available
    computing: Computing
    failing: Failing
    policy: Policy
    rule: R_co
    learner: Learner
    evaluate_every: int
    protocol: Protocol = Plain()
    stages: tuple[Stage, ...] = ()
    compression: Compression = NoCompression()
    observers: tuple[Observer, ...] = ()
    metrics: tuple[Metric, ...] = ()
    records: bool = False
    counts_change: bool = False
    recovery_budget: int = 0
    weight_decay: float = 0.0
    agents: Agents = Agents()
    loss: float = 0.0
    topology: Topology = StarTopology()
    edges: "tuple[Components[Rule], ...]" = ()
    members: "EdgeMembers | None" = None

    @property
    def client_process(self) -> ClientAgent | None:
        """What clients without agents of their own do as processes; None = these are entries of arrays."""
        return Standard() if self.agents.engine == "processes" or self.own_agents_share else None

    @cached_property
    def own_agents_share(self) -> bool:
        """Whether messages of clients with agents of their own share links, so that all messages are followed."""
        if self.agents.all_standard or self.sharing is None:
            return False
        agent_of = self.agents.client.of_each(self.clients, self.streams)
        return not all(type(agent_of(client)).run is Standard.run for client in range(self.clients))

    @property
    def follows_messages(self) -> bool:
        """Whether single messages to clients and back are events: some are processes, or have agents of their own."""
        return self.client_process is not None or not self.agents.all_standard

    @property
    def message_by_message(self) -> bool:
        """Whether the jobs of a buffered server are: clients are processes, or messages share links."""
        return self.follows_messages or self.sharing is not None

    def are_lost(self, way: str, where: Address) -> NDArray[np.bool_]:
        """Which messages are lost, bool (n,); ``way`` is "up" or "down" and what tells those at one address apart."""
        if not self.loss:
            return np.zeros(len(where.index), dtype=bool)
        return self.streams.at(f"loss/{way}", where, lambda rng, size: rng.random(size)) < self.loss

    @cached_property
    def jobs_vary(self) -> bool:
        """Whether the sizes of a job's messages, or its work, depend on the model's version that it departs with."""
        return self.learner.sizes_vary or self.counts_change

    @cached_property
    def sharing(self) -> PathLinks | None:
        """The links, where messages share some of them."""
        return sharing(self.links)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Coordinates of an update as it leaves training (also where no learner makes any), and after each step: the
        stages and, where :func:`simfl.core.coverage.compression_place` says, the compression.
        """
        lengths = [self.learner.dimension or self.learner.model_bytes // 4]
        if self.learner.private is not None:
            lengths[0] -= int(np.count_nonzero(self.learner.private))
        steps = [stage.length for stage in self.stages]
        steps.insert(compression_place(self.stages), self._compressed_length)
        for length in steps:
            lengths.append(length(lengths[-1]))
        return tuple(lengths)

    def _compressed_length(self, dimension: int) -> int:
        """Coordinates that are summed: all, unless everybody in a sum sends the same ones."""
        return dimension if self.rule.asynchronous else self.compression.length(dimension)

    @cached_property
    def stage_streams(self) -> tuple[Streams, ...]:
        """The streams that each stage draws from."""
        return stage_streams(self.stages, self.streams)

    @property
    def stage_inputs(self) -> tuple[int, ...]:
        """Coordinates that each stage is given."""
        place = compression_place(self.stages)
        return (*self.lengths[:place], *self.lengths[place + 1 : -1])

    @property
    def changes_coordinates(self) -> bool:
        """Whether a stage codes what clients send."""
        return any(stage.changes_coordinates for stage in self.stages)

    @cached_property
    def legible_length(self) -> int | None:
        """At most so many coordinates in front of what is sent are the update's own; None = a stage codes it."""
        place = compression_place(self.stages)
        longer = [i for i, stage in enumerate(self.stages) if stage.changes_coordinates]
        if any(self.stages[i].codes or i < place for i in longer):
            return None
        return self.stage_inputs[longer[0]] if longer else max(self.lengths)

    @property
    def shows_all_it_reads(self) -> bool:
        """Whether attackers are handed all that the server reads; where updates are coded, it is what it releases."""
        noisy = any(noise_where(stage) == "server" for stage in self.stages)
        return self.legible_length is not None or not (self.protocol.shows_updates or noisy)

    @cached_property
    def sample_slope(self) -> float | None:
        """The most that the gradient of one sample's loss is long, where anybody needs it; None = not known."""
        needed = bool(self.protocol.certificate) or any(stage.of_samples for stage in self.stages)
        steepness = self.learner.steepness
        if steepness is None or not needed:
            return None
        return steepness * hypot(self.learner.largest_norm(), 1) if self.rule.algorithm.minimises else inf

    def sample_facts(self, jobs: Sequence[Job]) -> dict[str, Any]:
        """What stages of single samples need to know of jobs, as :class:`simfl.privacy.stage.Members` calls it: nothing
        where no stage and no protocol needs it, or nothing is learned.
        """
        if self.sample_slope is None:
            return {}
        moves = None if self.rule.algorithm.minimises else self.learner.sample_moves(jobs)
        return {"slope": self.sample_slope, "moves": moves, "positions": self.learner.positions(jobs)}

    @property
    def known_updates(self) -> Literal["", "own", "all", "server"]:
        """What everybody who sees the sum knows of its updates besides, see :class:`simfl.privacy.stage.Members`."""
        shown = self.protocol.shows_updates
        if not self.rule.many_aggregators:
            return "server" if shown else ""
        return "all" if shown else "own"

    @property
    def elements(self) -> int:
        """Coordinates of an update on the wire."""
        return self.lengths[-1]

    def compressed_bytes(self, update_bytes: Any) -> Any:
        """Size, compressed, of updates that the learner makes of so many bytes, a number or (n,)."""
        dimension = self.lengths[compression_place(self.stages)]
        return update_bytes + self.compression.size_bytes(dimension) - VALUE_BYTES * dimension

    def upload_bytes(self, update_bytes: Any) -> Any:
        """Size on the wire of updates that the learner makes of so many bytes, a number or (n,)."""
        return self.whole_bytes(self.compressed_bytes(update_bytes)) + self.score_bytes

    def whole_bytes(self, update_bytes: Any) -> Any:
        """The same of updates, or whole models, that are not compressed any more, without what is told beside them."""
        return checked_upload_bytes(self.protocol, update_bytes + self._grown_bytes, self.elements)

    def clear_bytes(self, update_bytes: Any) -> Any:
        """What :meth:`upload_bytes` would be without a protocol."""
        return self.staged_bytes(update_bytes) + self.score_bytes

    def staged_bytes(self, update_bytes: Any) -> Any:
        """Size of updates, compressed and with the coordinates that stages add, before a protocol sees them."""
        return self.compressed_bytes(update_bytes) + self._grown_bytes

    @property
    def _grown_bytes(self) -> int:
        """Of the coordinates that stages add."""
        place = compression_place(self.stages)
        kept_length = self.lengths[place + 1] - self.lengths[place]
        return VALUE_BYTES * (self.elements - self.lengths[0] - kept_length)

    @property
    def score_bytes(self) -> int:
        """Of the numbers that the policy reads."""
        return SCORE_BYTES * len(self.policy.reads & set(CLEAR_FIELDS))

    @cached_property
    def heaviest(self) -> float:
        """The largest weight that any client's update can carry: a fresh one's."""
        samples = self.learner.samples
        return float(self.rule.weights(samples, np.zeros(len(samples), dtype=np.int64)).max(initial=1.0))

    @cached_property
    def empty(self) -> NDArray[np.bool_] | None:
        """Who never holds samples, bool (clients,); None where everybody does once, or nothing is learned."""
        without = self.learner.samples == 0
        return without if self.learner.dimension and without.any() else None

    def cohort(self, number: int, units: Units, versions: NDArray[np.int64] | int | None) -> Cohort:
        """Whom the protocol serves with aggregation (or selection) ``number``.

        Args:
            number: of the aggregation or selection.
            units: the clients.
            versions: of the model that their updates begin with, (units, size) or one for all; None = not known yet.
        """
        seeds, empty = sum(stage.seeds for stage in self.stages), self.empty
        if versions is not None and self.counts_change and self.learner.dimension:
            empty = self._empty_at(units.ravel(), np.broadcast_to(versions, units.shape).ravel())
        receipts = self.policy.receipts(self.clients)
        return Cohort(number, units, self.elements, self.clients, self.heaviest, empty, seeds, receipts=receipts)

    def cohort_of(self, number: int, units: Sequence[Sequence[Job]]) -> Cohort:
        """The same of units of jobs."""
        clients = np.array([[job.client for job in unit] for unit in units], dtype=np.int32)
        versions = np.array([[job.version for job in unit] for unit in units], dtype=np.int64)
        return self.cohort(number, clients, versions)

    def buffered_cohort(self, cohort: Cohort, staleness: NDArray[np.int64], attempt: int) -> Cohort:
        """The cohort of a buffer of updates, with what the participation matrix holds for each.

        Args:
            cohort: whose updates they are.
            staleness: the staleness that weighs each, (units, size).
            attempt: how many sums of it have failed because of what the server had drawn.
        """
        row = np.asarray(self.rule.row(staleness.ravel()), dtype=np.float64).reshape(cohort.units.shape)
        return cohort._replace(row=row, attempt=attempt)

    def _empty_at(self, clients: NDArray[np.int32], versions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Who of the clients, (n,), trains on no samples with these versions, (n,); bool (all clients,)."""
        empty = np.zeros(self.clients, dtype=bool)
        for version in np.unique(versions).tolist():
            members = clients[versions == version]
            empty[members] = self.learner.counts(members, version) == 0
        return empty


@dataclass
class RoundCosts:
    """What happened since the last round was reported.

    Attributes:
        failed: clients that began to work and were not aggregated.
        late: clients that the server no longer waited for, having its quorum.
        bytes_down, bytes_up: what the server sent, and what reached it.
        bytes_sent_up: what clients sent.
        clear_bytes: of these, what is sent without a protocol, too; where updates are hidden.
        failed_upload: clients that failed, or were late, between their model and their update.
    """

    failed: int = 0
    late: int = 0
    bytes_down: int = 0
    bytes_up: int = 0
    bytes_sent_up: int = 0
    clear_bytes: int = 0
    failed_upload: int = 0

    def row(self, parts: Components[Rule]) -> dict[str, int]:
        """As cells of rounds.csv; what clients sent where some of it may arrive in vain."""
        cells = {"failed": self.failed, "bytes_down": self.bytes_down, "bytes_up": self.bytes_up}
        in_vain = parts.loss or not parts.agents.all_standard
        return cells | ({BYTES_SENT_UP.name: self.bytes_sent_up} if in_vain else {})


class EdgeRound(NamedTuple):
    """An aggregation of an edge.

    Attributes:
        edge: its number.
        members: its clients, int32 (m,); ``done`` numbers them from 0.
        done: what it left behind.
        averaged: the root has averaged the model that came of it; else the run has ended before.
    """

    edge: int
    members: NDArray[np.int32]
    done: "RoundResult"
    averaged: bool = True


@dataclass(frozen=True)
class RoundResult:
    """What one aggregation, or skipped round, left behind.

    Attributes:
        number: the round, from 0.
        clients: int32 (n,), ascending: whose updates were aggregated.
        weights: (n,): the row of the participation matrix at those clients; integer 1 where every update counts once.
        row: the cells of rounds.csv that the server knows.
        last: whether the run ends with it.
        aggregators: int32 (n,): who aggregated each; None = the server all of them.
        jobs: rows of jobs.csv; asynchronous servers only.
        phases: rows of phases.csv.
        facts: of each stage, by name.
        errors: of each observer, by name.
        seen: what the server saw, where the run records it.
        transcripts: whom the server heard, where that says more than that each update is in its sum; None = unknown.
        edges: the aggregations of edges whose models it averages.
        step: by how much a protocol's rounding has moved each coordinate of an update at most.
        divisor: what the weighted sum was divided by; 0 without one.
        believed: what each update counts in the aggregate, (n,); None = nobody asks, or not known.
    """

    number: int
    clients: NDArray[np.int32]
    weights: NDArray[Any]
    row: JsonObject
    last: bool
    aggregators: NDArray[np.int32] | None = None
    jobs: Sequence[JobRow] = ()
    phases: Sequence[PhaseRow] = ()
    facts: Sequence[dict[str, float]] = field(default=())
    errors: Sequence[dict[str, float]] = field(default=())
    seen: ServerView | None = None
    transcripts: Sequence[Transcript] | None = ()
    edges: Sequence[EdgeRound] = ()
    step: float = 0.0
    divisor: float = 0.0
    believed: NDArray[np.float64] | None = None
