"""What an aggregation costs if nobody fails: the protocol's own talks, in which everybody answers.

So there is one source of bytes and seconds: what the simulation itself asks for.
"""

from typing import Any

import numpy as np

from simfl.rng import Streams
from simfl.secagg.base import Ask, Cohort, Failed, Protocol, Talk

__all__ = ["costs"]

WORK = "work"
"""The exchange between a protocol's two talks: the model, and the update that comes back."""


def costs(protocol: Protocol, cohort: Cohort, one_by_one: bool, sizes: tuple[Any, Any], streams: Streams) -> Any:
    """Bytes, computation and phases of an aggregation.

    Args:
        protocol: how it is summed.
        cohort: whose updates, units of any clients.
        one_by_one: units are prepared one by one and recovered together, as buffered servers do.
        sizes: bytes of model and update without a protocol, numbers.
        streams: a run's.

    Returns:
        ``phases``: for each its name, how many ``times`` it comes in an aggregation (0 = once in a run), clients
        ``asked``, mean ``bytes_down`` and ``bytes_up`` of one of them, and the longest ``seconds`` of computation;
        ``client``: bytes and seconds of one client and aggregation, or where units are prepared one by one, of a job
        until its update; ``bytes_down``, ``bytes_up``: of an aggregation in all; ``clear_bytes_down`` and
        ``clear_bytes_up``: the same without a protocol; ``server_s``: computation after the last phase; ``work``:
        operations of a client and of the server by kind, where the protocol counts them; ``ways`` of messages before
        a sum (of a job and of its sum); or ``refused``, the reason why there is no sum.
    """
    played = _played(protocol, cohort, one_by_one, sizes, streams)
    if isinstance(played, str):
        return {"refused": played}
    once, before, after, server_s = played
    times, n = len(cohort.units) if one_by_one else 1, cohort.units.size
    mine = before if one_by_one else [*before, *after]
    own = cohort.units[:1].ravel() if one_by_one else cohort.units.ravel()
    down, up = (sum(_of(ask, own, sizes).sum() for ask, sizes in both) for both in (
        [(ask, ask.down_bytes) for ask in mine], [(ask, ask.up_bytes) for ask in mine]))  # fmt: skip
    counted = {
        kind: _played(counting, cohort, one_by_one, sizes, streams) for kind, counting in protocol.counting().items()
    }
    rows = [_row(ask, 0) for ask in once] + [_row(ask, times) for ask in before] + [_row(ask, 1) for ask in after]
    return {
        "phases": rows,
        "client": {"bytes_down": float(down) / len(own), "bytes_up": float(up) / len(own), "seconds": _seconds(mine)},
        "bytes_down": round(sum(row["times"] * row["asked"] * row["bytes_down"] for row in rows)),
        "bytes_up": round(sum(row["times"] * row["asked"] * row["bytes_up"] for row in rows)),
        "clear_bytes_down": n * sizes[0],
        "clear_bytes_up": n * sizes[1],
        "server_s": server_s,
        "work": {
            kind: {"client": round(_seconds([*found[1], *found[2]])), "server": round(found[3])}
            for kind, found in counted.items()
            if not isinstance(found, str)
        },
        "ways": [2 * len(before), 2 * len(after)],
    }


def _played(
    protocol: Protocol, cohort: Cohort, one_by_one: bool, sizes: tuple[Any, Any], streams: Streams
) -> tuple[list[Ask], list[Ask], list[Ask], float] | str:
    """The asks of the setup, of one preparation with the work that follows, and of the recovery; then the server's
    seconds. Or why there is no sum.
    """
    everybody = np.arange(max(cohort.clients, cohort.units.size), dtype=np.int32).reshape(-1, 1)
    once, _ = _answered(protocol.setup(cohort._replace(units=everybody), streams))
    first = cohort._replace(units=cohort.units[:1]) if one_by_one else cohort
    before, prepared = _answered(protocol.prepare(first, streams))
    if isinstance(prepared, Failed):
        return prepared.reason
    size = protocol.upload_bytes(sizes[1], cohort.dimension)
    down, seconds = (np.broadcast_to(each, first.units.shape).ravel() for each in (
        sizes[0] + np.asarray(prepared.down_bytes), np.asarray(prepared.compute_s)))  # fmt: skip
    before.append(Ask(WORK, first.units.ravel(), down, size, seconds))
    secrets = [prepared.secret] * (len(cohort.units) if one_by_one else 1)
    uploaded = np.ones(cohort.units.shape, dtype=bool)
    after, summed = _answered(protocol.recover(cohort, uploaded, secrets, streams))
    return summed.reason if isinstance(summed, Failed) else (once, before, after, summed.compute_s)


def _answered(talk: Talk) -> tuple[list[Ask], Any]:
    """A talk in which everybody answers: what was asked, and its end."""
    asks: list[Ask] = []
    try:
        asks.append(next(talk))
        while True:
            asks.append(talk.send(np.ones(len(asks[-1].to), dtype=bool)))
    except StopIteration as end:
        return asks, end.value


def _of(ask: Ask, clients: Any, values: Any) -> Any:
    """What an ask means for some of those it goes to, (those,)."""
    return np.broadcast_to(values, len(ask.to))[np.isin(ask.to, clients)]


def _seconds(asks: list[Ask]) -> float:
    """The longest computation in each, added up."""
    return float(sum(np.max(ask.compute_s, initial=0.0) for ask in asks))


def _row(ask: Ask, times: int) -> dict[str, Any]:
    down, up = (float(np.mean(np.broadcast_to(size, len(ask.to)))) for size in (ask.down_bytes, ask.up_bytes))
    return {"phase": ask.kind, "times": times, "asked": len(ask.to), "bytes_down": down, "bytes_up": up,
            "seconds": _seconds([ask])}  # fmt: skip
