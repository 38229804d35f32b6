"""What theory says of a scenario's sums, before the first round: bytes, computation, tolerated dropouts, time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.agents.aggregation.components import Components, RoundResult
from simfl.agents.aggregation.exchange import ASK
from simfl.agents.aggregation.session_checks import checked_upload_bytes
from simfl.agents.synchronous import SynchronousServer
from simfl.agents.world import World
from simfl.core.json_data import JsonObject
from simfl.core.payload import SCORE_BYTES
from simfl.core.rng import Streams
from simfl.core.scenario_view import has_buffer
from simfl.core.types import SERVER, Job
from simfl.devices.failure import Reliable
from simfl.devices.random_availability import AlwaysOn
from simfl.learning.base import Learner, Sizes
from simfl.network.link_network import LinkNetwork
from simfl.secagg.base import Protocol
from simfl.secagg.receipts import confirm_sum, confirm_units
from simfl.secagg.sessions import Cohort, PhaseRequest, Session, SessionFailure, SessionResult
from simfl.training.base import Rule


def expected_costs(parts: Components[Rule]) -> JsonObject:
    """What :func:`simfl.agents.aggregation.expected.costs` says of one aggregation in which nobody fails.

    Args:
        parts: the built scenario.

    Returns:
        Besides: ``clients`` whose updates are summed (a mean where ``sure`` is false: the policy sizes its selections
        itself), and ``unit`` of those that stand together; ``elements`` of an update; ``known``, see
        :meth:`simfl.secagg.base.Protocol.known`; ``one_by_one``, whether units are prepared one by one;
        ``latency_s``, where it is the same for all clients in both directions, and then ``ways_s``: the time of the
        ways and of the protocol's computation, without training, bandwidth and jitter. Of a synchronous rule
        ``round_s``: how long the first round takes with all of these, a set-up left out; None where it sums nobody, and
        models that vary in size count as dense. Where the server's link is
        shared, a round is synchronous, and all clients have equal lines, ``transfer_s``: what bandwidth adds to a
        round, if messages had the link for themselves (``alone``), and as they share it (``shared``), all of a phase
        at once. Where policy or rule say nothing of a sum's size, ``clients`` is None and stands alone.
    """
    rule, policy, protocol = parts.rule, parts.policy, parts.protocol
    one_by_one = rule.asynchronous
    if has_buffer(rule):
        n, partial = rule.buffer, rule.partial
    elif policy.k is None or not rule.losses:
        return {"clients": None}
    else:
        n, partial = policy.k, rule.losses.on_failure == "partial"
    unit = 1 if partial else policy.unit_size
    cohort = parts.cohort(0, np.arange(n, dtype=np.int32).reshape(-1, unit), None)
    dense = parts.learner.model_bytes
    down, up = (dense, dense) if parts.learner.sizes_vary else parts.learner.sizes([])[:2]
    beside = _first_round(parts, cohort.units.ravel(), down)
    sizes = ((1 - beside.holders) * down, parts.staged_bytes(up))
    told_bytes, others = parts.score_bytes, (beside.question, beside.announcement)
    session_costs = costs(protocol, cohort, one_by_one, sizes, parts.streams, told_bytes, *others)
    about = {
        "clients": n,
        "sure": one_by_one or (policy.fixed_size and not (rule.losses and rule.losses.quorum)),
        "unit": unit,
        "sums": n // unit if protocol.sums_units else 1,
        "elements": parts.elements,
        "one_by_one": one_by_one,
    }
    latency_s = _latency_s(parts)
    return about | {
        "known": protocol.known(cohort),
        **session_costs,
        "latency_s": latency_s,
        "ways_s": _time(session_costs, latency_s),
        "round_s": beside.round_s,
        **({} if one_by_one else _transfer(parts, session_costs)),
    }


class _Beside(NamedTuple):
    """What a synchronous server sends beside a session and its work: what it asks before it selects, and announces; the
    share of the cohort that holds the model by then, and the time of the whole first round, None if it sums nobody.
    """

    question: PhaseRequest | None = None
    announcement: PhaseRequest | None = None
    holders: float = 0.0
    round_s: float | None = None


@dataclass(eq=False)
class _FirstRound(SynchronousServer):
    """A first round up to its sum: what it costs is known then, and nothing is trained."""

    holders: float | None = None

    def aggregate(
        self,
        jobs: list[Job],
        session: SessionResult | None,
        staleness: NDArray[np.int64] | None = None,
        row: JsonObject | None = None,
    ) -> RoundResult:
        self.holders = float(self.holds_model[[job.client for job in jobs]].mean()) if jobs else None
        return RoundResult(0, np.empty(0, dtype=np.int32), np.empty(0), {}, True)


class _Dense:
    """A learner whose messages have the size of dense models."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.learner, name)

    def sizes(self, jobs: Sequence[Job]) -> Sizes:
        """Of every job the same."""
        return Sizes(self.learner.model_bytes, self.learner.model_bytes)


def _first_round(parts: Components[Any], cohort: NDArray[np.int32], model_bytes: Any) -> _Beside:
    """The first round if everybody is there and nobody fails, as a synchronous server plays it."""
    if parts.rule.server != SynchronousServer.name:
        return _Beside()
    learner: Any = _Dense(parts.learner) if parts.learner.sizes_vary else parts.learner
    world, reliable = World(), replace(parts, available=AlwaysOn(np.zeros(parts.clients)), failing=Reliable())
    server = _FirstRound(replace(reliable, learner=learner), world, lambda done: None)
    world.run(world.spawn(server.round(0)))
    candidates = sum(row.asked for row in server.accounts.phases if row.phase == ASK)
    question = PhaseRequest(ASK, np.arange(candidates, dtype=np.int32), parts.learner.model_bytes, SCORE_BYTES, 0.0)
    announcement = PhaseRequest("announcement", cohort, model_bytes, 0, 0.0) if parts.rule.announce else None
    took_s = None if server.holders is None else world.now
    return _Beside(question if candidates else None, announcement, server.holders or 0.0, took_s)


def _transfer(parts: Components[Rule], session_costs: JsonObject) -> JsonObject:
    """``transfer_s``, if it is known."""
    links = parts.sharing
    if links is None or links.shared is None or "refused" in session_costs:
        return {}
    alone_s = shared_s = 0.0
    for side, paths, link in (("down", links.down, links.shared.down), ("up", links.up, links.shared.up)):
        s_per_byte = paths.s_per_byte[: parts.clients]
        if isinstance(link, LinkNetwork) or (s_per_byte != s_per_byte[0]).any():
            return {}
        for row in session_costs["phases"]:
            if row["times"]:
                own_s = row[f"bytes_{side}"] * float(s_per_byte[0])
                alone_s += own_s
                shared_s += (
                    own_s if link is None else max(own_s, row["asked"] * row[f"bytes_{side}"] / link.bytes_per_s)
                )
    return {"transfer_s": {"alone": alone_s, "shared": shared_s}}


def _latency_s(parts: Components[Rule]) -> float | None:
    """The latency, if it is one for all."""
    clients, server = np.arange(parts.clients), np.full(parts.clients, SERVER)
    latencies_s = np.concatenate([parts.links.latency_s(server, clients), parts.links.latency_s(clients, server)])
    return float(latencies_s[0]) if (latencies_s == latencies_s[0]).all() else None


def _time(session_costs: JsonObject, latency_s: float | None) -> float | None:
    if latency_s is None or "refused" in session_costs:
        return None
    computed = sum(row["seconds"] for row in session_costs["phases"] if row["times"])
    return float(sum(session_costs["ways"]) * latency_s + computed + session_costs["server_s"])


# -- What an aggregation costs if nobody fails: the protocol's own sessions, to which every client responds ----
# So there is one source of bytes and seconds: what the simulation itself requests.

WORK = "work"
"""The exchange between a protocol's two sessions: the model, and the update that comes back."""


class _Requests(NamedTuple):
    """The requests of the set-up, of one preparation with the work that follows, and of the recovery; and what the
    server computes after the last phase.
    """

    setup: list[PhaseRequest]
    before: list[PhaseRequest]
    after: list[PhaseRequest]
    server_s: float


def costs(
    protocol: Protocol, cohort: Cohort, one_by_one: bool, sizes: tuple[Any, Any], streams: Streams, told_bytes: int = 0,
    question: PhaseRequest | None = None, announcement: PhaseRequest | None = None,
) -> Any:  # fmt: skip
    """Bytes, computation and phases of an aggregation.

    Args:
        protocol: how it is summed.
        cohort: whose updates, units of any clients.
        one_by_one: units are prepared one by one and recovered together, as buffered servers do.
        sizes: bytes of model and update without a protocol.
        streams: a run's.
        told_bytes: what each client tells for the selection with its update.
        question: what is asked before the selection; None = nothing.
        announcement: what is sent after the sum, without an answer; None = nothing.

    Returns:
        ``phases``: for each its name, how many ``times`` it comes in an aggregation (0 = once in a run), clients
        ``asked``, mean ``bytes_down`` and ``bytes_up`` of one of them, and the longest ``seconds`` of computation;
        ``client``: bytes and seconds of one client and aggregation, or where units are prepared one by one, of a job
        until its update, with what others are sent for it; ``clear``: its bytes without a protocol;
        ``bytes_down``, ``bytes_up``: of an aggregation in all; ``clear_bytes_down``, ``clear_bytes_up``: the same
        without a protocol; ``server_s``: computation after the last phase; ``work``: operations of a client and of the
        server by kind, where the protocol counts them;
        ``ways`` of messages before a sum (of a job and of its sum); or ``refused``, the reason why there is no sum.
    """
    requests = _requests(protocol, cohort, one_by_one, sizes, streams, told_bytes)
    if isinstance(requests, str):
        return {"refused": requests}
    once, before, after, server_s = requests
    times, n = len(cohort.units) if one_by_one else 1, cohort.units.size
    asks, news = ([] if each is None else [each] for each in (question, announcement))
    before, beside = [*asks, *before], [_row(each, 1) for each in (*asks, *news)]
    rows = [_row(each, 0) for each in once] + [_row(each, times) for each in before]
    rows += [_row(each, 1) for each in (*after, *news)]
    clients = (cohort.units[:1] if one_by_one else cohort.units).ravel()
    return {
        "phases": rows,
        "client": _client_costs(before if one_by_one else [*before, *after, *news], clients, one_by_one),
        "bytes_down": round(sum(row["times"] * row["asked"] * row["bytes_down"] for row in rows)),
        "bytes_up": round(sum(row["times"] * row["asked"] * row["bytes_up"] for row in rows)),
        "clear_bytes_down": round(n * sizes[0] + sum(row["asked"] * row["bytes_down"] for row in beside)),
        "clear_bytes_up": round(n * (sizes[1] + told_bytes) + sum(row["asked"] * row["bytes_up"] for row in beside)),
        "clear": {
            "bytes_down": float(sizes[0] + sum(row["bytes_down"] for row in beside)),
            "bytes_up": float(sizes[1] + told_bytes + sum(row["bytes_up"] for row in beside)),
        },
        "server_s": server_s,
        "work": {
            kind: {"client": round(_seconds([*counted.before, *counted.after])), "server": round(counted.server_s)}
            for kind, counting in protocol.counting().items()
            if not isinstance(counted := _requests(counting, cohort, one_by_one, sizes, streams), str)
        },
        "ways": [2 * len(before), 2 * len(after)],
    }


def _requests(
    protocol: Protocol, cohort: Cohort, one_by_one: bool, sizes: tuple[Any, Any], streams: Streams, told_bytes: int = 0
) -> _Requests | str:
    """What the protocol requests of an aggregation; or why there is no sum."""
    everybody = np.arange(max(cohort.clients, cohort.units.size), dtype=np.int32).reshape(-1, 1)
    once, _ = _all_respond(protocol.setup(cohort._replace(units=everybody), streams))
    first = cohort._replace(units=cohort.units[:1]) if one_by_one else cohort
    before, prepared = _all_respond(protocol.prepare(first, streams))
    if isinstance(prepared, SessionFailure):
        return prepared.reason
    uploaded = np.ones(cohort.units.shape, dtype=bool)
    agreement: list[PhaseRequest] = []
    if cohort.receipts is not None:
        confirmation, prepared = _all_respond(confirm_units(first.units, prepared, cohort.receipts, None))
        before += confirmation
        agreement, _ = _all_respond(confirm_sum(cohort.units, uploaded, cohort.receipts, None))
    size = checked_upload_bytes(protocol, sizes[1], cohort.dimension) + told_bytes
    down, up, seconds = (np.broadcast_to(each, first.units.shape).ravel() for each in (
        sizes[0] + np.asarray(prepared.down_bytes), size + np.asarray(prepared.up_bytes), prepared.compute_s
    ))  # fmt: skip
    before.append(PhaseRequest(WORK, first.units.ravel(), down, up, seconds))
    secrets = [prepared.secret] * (len(cohort.units) if one_by_one else 1)
    after, result = _all_respond(protocol.recover(cohort, uploaded, secrets, streams))
    if isinstance(result, SessionFailure):
        return result.reason
    return _Requests(once, before, [*agreement, *after], result.compute_s)


def _all_respond(session: Session[Any]) -> tuple[list[PhaseRequest], Any]:
    """A session to which everybody responds: its requests, and its result."""
    requests: list[PhaseRequest] = []
    try:
        requests.append(next(session))
        while True:
            requests.append(session.send(np.ones(len(requests[-1].to), dtype=bool)))
    except StopIteration as end:
        return requests, end.value


def _client_costs(requests: list[PhaseRequest], clients: Any, others: bool) -> JsonObject:
    """Mean bytes and the seconds that the requests mean for each of some clients; ``others``: or for their jobs."""

    def total(request: PhaseRequest, sizes: Any) -> Any:
        return np.broadcast_to(sizes, len(request.to))[others | np.isin(request.to, clients)].sum()

    down = sum(total(each, each.down_bytes) for each in requests)
    up = sum(total(each, each.up_bytes) for each in requests)
    n = len(clients)
    return {"bytes_down": float(down) / n, "bytes_up": float(up) / n, "seconds": _seconds(requests)}


def _seconds(requests: list[PhaseRequest]) -> float:
    """The longest computation in each, added up."""
    return float(sum(np.max(each.compute_s, initial=0.0) for each in requests))


def _row(request: PhaseRequest, times: int) -> JsonObject:
    n = len(request.to)
    down, up = (float(np.mean(np.broadcast_to(size, n))) for size in (request.down_bytes, request.up_bytes))
    return {"phase": request.kind, "times": times, "asked": n, "bytes_down": down, "bytes_up": up,
            "seconds": _seconds([request])}  # fmt: skip
