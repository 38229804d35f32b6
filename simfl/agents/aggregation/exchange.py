"""One exchange of a server with a cohort: a request to each, its work, the answers; arrays, not messages.

A synchronous server asks many clients at once and goes on when it has heard enough. With an event for every message a
round of n clients would cost the clock 3 n events, although nothing that happens meanwhile can change the outcome. So
an exchange is computed when it begins, as arrays over its clients, and the server waits for its end: one event.

The order of things: :func:`work` (or a protocol's session) makes a request; :func:`sample_delays` draws, for all of its
clients, the way down, the work and the way up; :func:`exchange` adds these up and decides when the server goes on. That
is the earliest of: the last answer, the answer that completes the quorum, the deadline and, where a failure aborts the
round, the first failure that the server hears of. :func:`run_session` does this phase by phase
for a protocol: who answered in time is sent to the session, whose next request begins when the phase has ended.

Invariants:

- An exchange depends on its request, its beginning and draws at its own address, on nothing else; no model is trained.
- A client that fails is not silent: the end of its connection, 0 bytes, takes the way up. ``heard`` are those that live
  and whose answer has arrived by the end; an answer that arrives exactly then counts.
- A message belongs to its exchange: what arrives after the end counts nowhere. All requests count as bytes down, only
  answers that were heard count as bytes up.
- Where links are shared, the requests leave together and share them, and so do the answers that are on the way
  together; nothing else is on them. A request is on its links first and then travels for its path's latency; an answer
  travels first. Who fails sends no bytes. What is not waited for leaves the links at the end; until then it was there.

A checkpoint needs nothing of an exchange: synchronous servers write checkpoints between rounds, when none is open, and
a buffered server's sessions are computed again after a resume, with the same draws, from what is stored of their units.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components
from simfl.agents.aggregation.session_checks import check_request, check_result
from simfl.core.errors import ScenarioError
from simfl.core.json_data import JsonObject
from simfl.core.rng import Address
from simfl.core.types import SERVER, Bools, Floats, Integers
from simfl.core.validation import checked_type
from simfl.devices.base import checked_deaths, checked_durations_s
from simfl.learning.base import Sizes
from simfl.network.base import checked_delays_s
from simfl.network.link_network import NetworkFlows
from simfl.network.links import Flows
from simfl.results.tables import PhaseRow
from simfl.secagg.sessions import PhaseRequest, R, Session, SessionFailure, SessionResult
from simfl.training.base import Rule

WORK = "work"
"""The kind of exchange in which the model goes out, is trained, and the update comes back."""

ASK = "ask"
"""The kind of exchange in which a policy asks clients before it selects, see
:meth:`simfl.selection.base.Policy.candidates`."""

MESSAGES = {WORK: ("model", "update")}
"""What request and answer are called in traces; those of a protocol's phase by the phase's name."""

REQUEST, ANSWER = 1, 2
"""What of a trip is lost on its way."""


class Delays(NamedTuple):
    """A cohort's delays, drawn at once: to each client, its work, and back.

    Attributes:
        down_s, compute_s, up_s: seconds, (n,).
        lives: False where the client dies in its work; its answer is then the end of its connection, of 0 bytes.
        down_bytes, up_bytes: sizes of request and answer, int64 (n,).
        losses: :data:`REQUEST` or :data:`ANSWER` where that is lost on its way, and else 0, int64 (n,).
        down, up: requests and answers as the links see them that they share; None = they share none. The seconds above
            are those of messages that are alone on them.
    """

    down_s: Floats
    compute_s: Floats
    up_s: Floats
    lives: Bools
    down_bytes: Integers
    up_bytes: Integers
    losses: Integers
    down: Flows | NetworkFlows | None = None
    up: Flows | NetworkFlows | None = None


def sample_delays(parts: Components[Rule], request: PhaseRequest, where: Address, stream: str = "") -> Delays:
    """Draws a cohort's delays.

    Args:
        parts: the built scenario.
        request: what is asked of whom.
        where: address of the draws.
        stream: tells exchanges at one address apart, so that no two messages share their jitter.
    """
    clients, n = request.to, len(request.to)
    death = checked_deaths(parts.failing.draw(clients, where, request.kind), n, parts.failing)
    lives = np.isnan(death)
    compute = np.broadcast_to(np.asarray(request.compute_s, dtype=np.float64), n)
    up = checked_delays_s(parts.links.up_s(clients, request.up_bytes, where, stream), n, parts.links)
    up_bytes = np.broadcast_to(np.asarray(request.up_bytes, dtype=np.int64), n)
    if not lives.all():
        compute = compute * np.where(lives, 1.0, death)
        up = np.where(lives, up, parts.links.up_s(clients, 0, where, stream))
        up_bytes = np.where(lives, up_bytes, 0)
    down = checked_delays_s(parts.links.down_s(clients, request.down_bytes, where, stream), n, parts.links)
    down_bytes = np.broadcast_to(np.asarray(request.down_bytes, dtype=np.int64), n)
    delays = Delays(down, compute, up, lives, down_bytes, up_bytes, sample_losses(parts, request, where, stream))
    if (links := parts.sharing) is None:
        return delays
    return delays._replace(down=links.down_flows(clients, down_bytes), up=links.up_flows(clients, up_bytes))


def sample_losses(parts: Components[Rule], request: PhaseRequest, where: Address, stream: str) -> Integers:
    """What of each trip is lost, as :attr:`Delays.losses`.

    Raises:
        ScenarioError: the answers are waited for without a deadline, so that nobody would ever tell that one is lost.
    """
    if parts.loss and request.deadline_s is None:
        why = f"messages may be lost, and answers of '{request.kind}' are waited for without a deadline"
        raise ScenarioError("network.loss", f"{why}; give the request one, or set it to 0")
    losses = np.where(parts.are_lost("up" + stream, where), ANSWER, 0)
    return np.where(parts.are_lost("down" + stream, where), REQUEST, losses)  # who has no request does not answer


def work(
    parts: Components[Rule], clients: NDArray[np.int32], where: Address, sizes: Sizes, version: int = 0
) -> PhaseRequest:
    """The request to train.

    Args:
        parts: the built scenario.
        clients: whom it goes to, (n,).
        where: address of the draws.
        sizes: bytes of model and update, and passes, as the learner says.
        version: of the model that goes out; where data grow it tells how many samples are there.
    """
    samples = parts.learner.counts(clients, version)
    epochs = parts.rule.epochs(samples) * sizes.passes
    compute_s = parts.computing.duration_s(clients, samples, epochs, where)
    compute_s = checked_durations_s(compute_s, len(clients), parts.computing)
    return PhaseRequest(WORK, clients, sizes.down_bytes, parts.upload_bytes(sizes.up_bytes), compute_s)


@dataclass(frozen=True)
class Exchange:
    """An exchange from its first message to the moment at which the server goes on.

    Attributes:
        request: what was asked.
        begins_s: when the requests left, simulated seconds.
        received_s, computed_s, arrives_s: when each client had its request, had done its work, and when its answer
            (or the end of its connection) reaches the server, (n,); of what is lost, when it would.
        delays: of the cohort.
        ends_s: when the server goes on.
        responded: bool (n,): whose answer had arrived then.
        own_work_s: seconds for which clients with agents of their own have worked, who say themselves what they do; NaN
            for others, (n,); None = there are none.
    """

    request: PhaseRequest
    begins_s: float
    received_s: Floats
    computed_s: Floats
    arrives_s: Floats
    delays: Delays
    ends_s: float
    responded: Bools
    own_work_s: Floats | None = None

    @property
    def bytes_down(self) -> int:
        """Bytes the server sent."""
        return int(self.delays.down_bytes.sum())

    @property
    def bytes_up(self) -> int:
        """Bytes that reached the server in time."""
        return int(self.delays.up_bytes[self.responded].sum())

    @property
    def bytes_sent_up(self) -> int:
        """Bytes that clients had sent by then, but for those with agents of their own."""
        return int(self.delays.up_bytes[self.sent & ~self._has_agent].sum())

    @property
    def _has_agent(self) -> Bools:
        """Who has an agent of its own, bool (n,)."""
        return np.zeros(len(self.responded), dtype=bool) if self.own_work_s is None else ~np.isnan(self.own_work_s)

    @property
    def worked_s(self) -> Floats:
        """Seconds for which each has worked by the end, (n,)."""
        worked_s = np.maximum(0.0, np.minimum(self.computed_s, self.ends_s) - self.received_s)
        worked_s[self.delays.losses == REQUEST] = 0.0
        return worked_s if self.own_work_s is None else np.where(self._has_agent, self.own_work_s, worked_s)

    @property
    def has_quorum(self) -> bool:
        """Whether the quorum it asked for has answered."""
        quorum, unit = self.request.quorum, self.request.unit
        return quorum is not None and int(self.responded.reshape(-1, unit).all(axis=1).sum()) * unit >= quorum

    @property
    def sent(self) -> Bools:
        """Whose answer was sent before the server went on, bool (n,), also if it had not arrived then."""
        return self.delays.lives & (self.computed_s <= self.ends_s) & (self.delays.losses != REQUEST)

    @property
    def late(self) -> Bools:
        """Of whom nothing had been heard when the quorum had answered, bool (n,); they are not waited for."""
        return ((self.arrives_s > self.ends_s) | (self.delays.losses > 0)) & self.has_quorum

    @property
    def failed(self) -> int:
        """Clients that died or were too late; with enough answers, those on their way are not waited for."""
        return int((~self.delays.lives if self.has_quorum else ~self.responded).sum())

    def phase(self, round: int) -> PhaseRow:
        """As a row of phases.csv."""
        requested, answered = len(self.request.to), int(self.responded.sum())
        down, up = self.bytes_down, self.bytes_up
        return PhaseRow(
            round, self.request.kind, self.begins_s, self.ends_s, requested, answered, down, up, self.failed, None
        )

    def records(self, jobs: Integers | None = None) -> Iterator[JsonObject]:
        """As records of events.jsonl, in the order of their times; ``jobs`` are the numbers of the clients' jobs."""
        request, answer = MESSAGES.get(self.request.kind, (f"{self.request.kind} request", self.request.kind))
        records: list[tuple[float, JsonObject]] = []
        names = range(len(self.request.to)) if jobs is None else jobs.tolist()
        columns = (self.request.to, self.received_s, self.computed_s, self.arrives_s, *self.delays[3:7])
        rows = zip(*(column.tolist() for column in columns), names, self._has_agent.tolist())
        for client, received, computed, arrives, lives, down, up, loss, job, has_agent in rows:
            cancel = (self.ends_s, {"event": "cancel", "time_s": self.ends_s, "client": client})
            cancels = [cancel] if arrives > self.ends_s or loss else []
            if has_agent:
                records += cancels
                continue
            sent = message(request, SERVER, client, down, self.begins_s, received, loss == REQUEST)
            records.append((self.begins_s, sent))
            works = loss != REQUEST and (received < self.ends_s or computed <= self.ends_s)  # work of no time too
            if self.request.kind == WORK and works:
                end, completed = (computed, lives) if computed <= self.ends_s else (self.ends_s, False)
                records.append((end, computation(job, client, received, end, completed)))
            if computed <= self.ends_s and loss != REQUEST:
                kind = answer if lives else "failure"
                records.append((computed, message(kind, client, SERVER, up, computed, arrives, loss == ANSWER)))
            records += cancels
        return (record for _, record in sorted(records, key=lambda timed: timed[0]))


def message(
    kind: str, sender: int | str, to: int | str, size_bytes: int, sent_s: float, arrives_s: float, is_lost: bool = False
) -> JsonObject:
    """A message as a record of events.jsonl; one that is lost says so, and when it would have arrived."""
    record: JsonObject = {"event": "message", "kind": kind, "from": sender, "to": to, "bytes": size_bytes}
    return record | {"sent_s": sent_s, "arrives_s": arrives_s} | ({"lost": True} if is_lost else {})


def computation(job: int, client: int, start_s: float, end_s: float, completed: bool | None) -> JsonObject:
    """A client's work as a record of events.jsonl; ``completed`` is None where it goes on after the record."""
    return {"event": "compute", "job": job, "client": client, "start_s": start_s, "end_s": end_s,
            "completed": completed}  # fmt: skip


def with_waits(delays: Delays, begins_s: float) -> Delays:
    """The delays of a cohort that has the links to itself from ``begins_s`` on, with the waits for one another."""
    down_s, up_s = delays.down_s, delays.up_s
    if delays.down is not None:
        down_s = down_s + delays.down.waits_s(np.full(len(down_s), begins_s))
    if delays.up is not None:  # what is on the link last begins so long before it would arrive alone
        computed_s = begins_s + down_s + delays.compute_s
        up_s = up_s + delays.up.waits_s(np.maximum(computed_s, computed_s + up_s - delays.up.alone_s))
    return delays._replace(down_s=down_s, up_s=up_s, down=None, up=None)


def exchange(request: PhaseRequest, delays: Delays, begins_s: float, until_failure: bool = False) -> Exchange:
    """Puts a cohort's delays on the clock.

    The server goes on when all answers are in (or the news that they will not come), when the quorum has answered, at
    the deadline or, if asked to, at the first failure it hears of; an answer that arrives just then counts.
    """
    delays = with_waits(delays, begins_s)
    received = begins_s + delays.down_s
    computed = received + delays.compute_s
    arrives = computed + delays.up_s
    reaches_s = arrives if not delays.losses.any() else np.where(delays.losses > 0, np.inf, arrives)
    ends = float(reaches_s.max(initial=begins_s))
    if request.quorum is not None:
        ends = min(ends, _quorum_s(np.where(delays.lives, reaches_s, np.inf), request.quorum, request.unit, begins_s))
    if request.deadline_s is not None:
        ends = min(ends, begins_s + request.deadline_s)
    if until_failure:
        ends = min(ends, float(reaches_s[~delays.lives].min(initial=ends)))
    return Exchange(request, begins_s, received, computed, arrives, delays, ends, delays.lives & (reaches_s <= ends))


def _quorum_s(arrives_s: Floats, quorum: int, unit: int, begins_s: float) -> float:
    """When whole units with so many clients have arrived; infinite if that never happens."""
    units_s = np.sort(arrives_s.reshape(-1, unit).max(axis=1))
    needed = -(-quorum // unit)
    return float(np.array([begins_s, *units_s, np.inf])[min(needed, len(units_s) + 1)])


class CompletedSession(NamedTuple, Generic[R]):
    """A protocol session from its first request to its end.

    Attributes:
        name: what it is for.
        ends_s: when it ends, simulated seconds.
        result: what the session returned.
        exchanges: its phases.
    """

    name: str
    ends_s: float
    result: R
    exchanges: list[Exchange]

    @property
    def responders(self) -> NDArray[np.int32] | None:
        """Who answered its last phase, or lived to do so, late or not; None = it asked nobody."""
        if not self.exchanges:
            return None
        return self.exchanges[-1].request.to[self.exchanges[-1].delays.lives]

    def phases(self, round: int) -> list[PhaseRow]:
        """Its rows of phases.csv; a failure, and whom the session tolerates, stand with the last phase."""
        failure = self.result.reason if isinstance(self.result, SessionFailure) else None
        result = self.result if self.name == "recover" else None
        tolerated = result.tolerated if isinstance(result, SessionResult | SessionFailure) else None
        rows = [each.phase(round) for each in self.exchanges]
        if failure is not None and not rows:  # it had nobody left to ask
            rows = [PhaseRow(round, self.name, self.ends_s, self.ends_s, 0, 0, 0, 0, 0, None)]
        return [*rows[:-1], *(row._replace(failure=failure, tolerated=tolerated) for row in rows[-1:])]


def run_session(
    parts: Components[Rule],
    session: Session[R],
    selection_id: int,
    begins_s: float,
    name: str,
    units: int | None = None,
) -> CompletedSession[R]:
    """Runs a protocol session: it depends on nothing that happens meanwhile, so that its end is known at once.

    Args:
        parts: the built scenario.
        session: the protocol's side of it.
        selection_id: with the clients, the address of the draws.
        begins_s: when it begins.
        name: of the session; tells those at one address apart.
        units: how many units it serves, where that is to be checked.

    Raises:
        PluginError: it is no session, or returned what is no session's result.
    """
    exchanges: list[Exchange] = []
    now = begins_s
    checked_type(session, Generator, f"secagg '{parts.protocol.name}'", name, "a generator that yields phases")
    try:
        request = next(session)
        while True:
            check_request(parts.protocol, name, request, parts.clients)
            where = Address(selection_id, request.to, parts.clients)
            one = exchange(request, sample_delays(parts, request, where, f"/{name}/{len(exchanges)}"), now)
            exchanges.append(one)
            now = one.ends_s
            request = session.send(one.responded)
    except StopIteration as end:
        result: R = end.value
        check_result(parts.protocol, name, result, units)
        return CompletedSession(
            name, now + (result.compute_s if isinstance(result, SessionResult) else 0.0), result, exchanges
        )
