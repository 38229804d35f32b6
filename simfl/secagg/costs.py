"""What an aggregation costs if nobody fails: the protocol's own sessions, to which every client responds.

So there is one source of bytes and seconds: what the simulation itself requests.
"""

from typing import Any, NamedTuple

import numpy as np

from simfl.core.json_data import JsonObject
from simfl.core.rng import Streams
from simfl.secagg.base import Protocol
from simfl.secagg.sessions import Cohort, PhaseRequest, Session, SessionFailure

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
        until its update, and ``clear``, its bytes without a protocol; ``bytes_down``, ``bytes_up``: of an aggregation
        in all; ``clear_bytes_down``, ``clear_bytes_up``: the same without a protocol; ``server_s``: computation after
        the last phase; ``work``: operations of a client and of the server by kind, where the protocol counts them;
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
        "client": _client_costs(before if one_by_one else [*before, *after, *news], clients),
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
    size = protocol.upload_bytes(sizes[1], cohort.dimension) + told_bytes
    down, seconds = (np.broadcast_to(each, first.units.shape).ravel() for each in (
        sizes[0] + np.asarray(prepared.down_bytes), np.asarray(prepared.compute_s)))  # fmt: skip
    before.append(PhaseRequest(WORK, first.units.ravel(), down, size, seconds))
    secrets = [prepared.secret] * (len(cohort.units) if one_by_one else 1)
    uploaded = np.ones(cohort.units.shape, dtype=bool)
    after, result = _all_respond(protocol.recover(cohort, uploaded, secrets, streams))
    return result.reason if isinstance(result, SessionFailure) else _Requests(once, before, after, result.compute_s)


def _all_respond(session: Session[Any]) -> tuple[list[PhaseRequest], Any]:
    """A session to which everybody responds: its requests, and its result."""
    requests: list[PhaseRequest] = []
    try:
        requests.append(next(session))
        while True:
            requests.append(session.send(np.ones(len(requests[-1].to), dtype=bool)))
    except StopIteration as end:
        return requests, end.value


def _client_costs(requests: list[PhaseRequest], clients: Any) -> JsonObject:
    """Mean bytes and the seconds that the requests mean for each of some clients."""

    def total(request: PhaseRequest, sizes: Any) -> Any:
        return np.broadcast_to(sizes, len(request.to))[np.isin(request.to, clients)].sum()

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
