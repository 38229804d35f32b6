"""What messages of a log would have taken had each been alone on the server's link.

Where clients share the server's link, a client's downloads and uploads last longer than its own line makes them, and
its profile would be that of a slower line. The log says when each message was under way. With the link's bandwidth, and
lines for all clients, fair sharing says how long each message was held up (:func:`simfl.network.fair_sharing.waits_s`,
as in a simulation). Taking that off gives other lines, for which it is computed again, until the lines stay: a fixed
point, from the lines that the log seems to show when nothing is shared.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.network.fair_sharing import waits_s
from simfl.network.shared_edges import ServerLink
from simfl.remote.calibration import LINE, Calibration, ClientFit, calibrate
from simfl.remote.job_times import JobTime

Floats = NDArray[np.float64]

MOST_STEPS = 1000
"""Steps towards the fixed point."""

CLOSE = 1e-5
"""By which share of itself a bandwidth may still change in a step."""

FASTER = 1.1
"""By how much a line is made faster in order to see whether the log would show it."""

MOST_GROUPS = 100
"""Clients are tried one by one; more than so many, some at a time."""


def calibrate_shared(
    rows: Sequence[JobTime], server: ServerLink, confidence: float = 0.95, silent: int = 0
) -> Calibration:
    """Fits a profile to each client's jobs, with its own line alone.

    Args:
        rows: all jobs of a time, with the durations that clients reported; who is left out here held nobody up.
        server: the bandwidth of its link; a direction that is unlimited keeps its durations.
        confidence, silent: as for :func:`simfl.remote.calibration.calibrate`.

    Raises:
        SimflError: as there.
    """
    waits, lines, settled = np.zeros((2, len(rows))), np.zeros(0), False
    for _ in range(MOST_STEPS):
        before, fits = lines, calibrate(_without(rows, waits, server)).clients
        lines = np.array([fit.columns[name].value for fit in fits for name in LINE[1:]])
        if settled := len(before) > 0 and bool(np.abs(lines / before - 1).max() < CLOSE):
            break
        waits = _waits_s(rows, fits, server)
    fitted = calibrate(_without(rows, waits, server), confidence, silent)
    behind = _behind(rows, fitted.clients, server)
    unbounded = (
        replace(fit, columns=fit.columns | {name: replace(fit.columns[name], high=inf) for name in LINE[1:]
                                            if fit.client in behind.get(name, ())})
        for fit in fitted.clients
    )  # fmt: skip
    return replace(fitted, clients=tuple(unbounded), behind=behind, settled=settled)


def _behind(rows: Sequence[JobTime], fits: Sequence[ClientFit], server: ServerLink) -> dict[str, tuple[int, ...]]:
    """Of each bandwidth, whose is not known from above: a faster line would make its messages little shorter, or it is
    about as wide as the server's link.
    """
    clients, before = np.array([row.client for row in rows]), _messages(rows, fits, server)
    limited, behind = (server.down_bytes_per_s, server.up_bytes_per_s), dict[str, list[int]]()
    for group in range(min(MOST_GROUPS, len(fits))):
        some = {fit.client for fit in fits[group::MOST_GROUPS]}
        for name, limit, slow, fast in zip(LINE[1:], limited, before, _messages(rows, fits, server, some), strict=True):
            if limit is None:
                continue
            gained_s = np.bincount(clients, slow.alone_s + slow.waits_s - fast.alone_s - fast.waits_s)
            own_s = np.bincount(clients, slow.alone_s - fast.alone_s)
            as_wide = {fit.client for fit in fits if fit.columns[name].high * FASTER >= limit}
            behind.setdefault(name, []).extend(
                client for client in some if gained_s[client] <= own_s[client] / 2 or client in as_wide
            )
    return {name: tuple(sorted(some)) for name, some in behind.items()}


def _without(rows: Sequence[JobTime], waits: Floats, server: ServerLink) -> list[JobTime]:
    """Without these waits, (2, n); but no message is faster than the server's link."""
    least = [0.0 if limit is None else 1 / limit for limit in (server.down_bytes_per_s, server.up_bytes_per_s)]
    shorter = []
    for row, down_s, up_s in zip(rows, *waits.tolist(), strict=True):
        assert row.download_s is not None and row.upload_s is not None, "only jobs with durations"
        download_s = min(row.download_s, max(row.download_s - down_s, row.down_bytes * least[0]))
        upload_s = min(row.upload_s, max(row.upload_s - up_s, row.up_bytes * least[1]))
        shorter.append(row._replace(download_s=download_s, upload_s=upload_s))
    return shorter


class _Messages(NamedTuple):
    """All messages in one direction, (n,): seconds on the link alone, and by how many each was held up."""

    alone_s: Floats
    waits_s: Floats


def _messages(
    rows: Sequence[JobTime], fits: Sequence[ClientFit], server: ServerLink, faster: Collection[int] = ()
) -> tuple[_Messages, _Messages]:
    """Downloads and uploads, if the lines are as fitted, but for some clients whose lines are ``FASTER``."""
    columns = {fit.client: fit.columns for fit in fits}
    latency_s = np.array([columns[row.client]["latency_s"].value for row in rows])
    handed_s, received_s, upload_s = (
        np.array([getattr(row, name) for row in rows]) for name in ("handed_s", "received_s", "upload_s")
    )
    factor = np.array([FASTER if row.client in faster else 1.0 for row in rows])
    messages = []
    for way, begins_s in (("down", handed_s), ("up", received_s - upload_s + latency_s)):  # answers are on it last
        limit = getattr(server, f"{way}_bytes_per_s") or inf
        lines = np.array([columns[row.client][f"{way}_bytes_per_s"].value for row in rows]) * factor
        alone_s = np.array([getattr(row, f"{way}_bytes") for row in rows]) / np.minimum(lines, limit)
        none = np.zeros(len(rows))
        waits = none if limit == inf else waits_s(begins_s, alone_s, np.minimum(lines, limit) / limit)
        messages.append(_Messages(alone_s, waits))
    return messages[0], messages[1]


def _waits_s(rows: Sequence[JobTime], fits: Sequence[ClientFit], server: ServerLink) -> Floats:
    """By how many seconds each message was held up, (2, n)."""
    return np.array([each.waits_s for each in _messages(rows, fits, server)])
