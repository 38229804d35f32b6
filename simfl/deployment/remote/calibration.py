"""Device profiles from how long the jobs of real clients took.

The model, for each client by itself. A message of b bytes takes ``latency_s + b / bytes_per_s`` and an error; the
latency is that of both directions, each direction has its bandwidth. Work on n samples takes
``n / samples_per_s * exp(work_sigma z)``, z standard normal. Least squares give latency and bandwidths, the mean and
the standard deviation of log(samples / work_s) the speed and its spread; intervals are Student's and chi-squared's, for
errors that are normal.

Latency can be told from bandwidth only where messages have different sizes. Where all have one, it is 0 and the
bandwidth is what messages of that size experience; :attr:`Calibration.unresolved` says so.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, sqrt
from typing import NamedTuple

import numpy as np
from scipy import stats

from simfl.api.files import csv_bytes
from simfl.deployment.remote.job_times import JobTime
from simfl.plugins import Floats, SimflError, amount
from simfl.plugins.devices import PROFILE_COLUMNS
from simfl.plugins.network import ServerLink, waits_s

LINE = ("latency_s", "down_bytes_per_s", "up_bytes_per_s")

FITTED = ("samples_per_s", "work_sigma", "down_bytes_per_s", "up_bytes_per_s", "latency_s")
"""Columns that a log can give, in the order of the file and the table."""

MOST_ROWS = 40
"""Clients that a table in the terminal shows."""

MOST_STEPS = 1000
"""Steps towards the fixed point."""

CLOSE = 1e-5
"""By which share of itself a bandwidth may still change in a step."""

FASTER = 1.1
"""By how much a line is made faster in order to see whether the log would show it."""

MOST_GROUPS = 100
"""Clients are tried one by one; more than so many, some at a time."""


@dataclass(frozen=True)
class Estimate:
    """A number with its confidence interval; the ends are 0 and infinity where too few jobs say nothing."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ClientFit:
    """A client's profile.

    Attributes:
        client: its number.
        jobs: that it is fitted to.
        columns: each column of a file of profiles that was fitted.
        one_size: all messages of a direction have one size, so that latency is not told from bandwidth.
        no_bytes: the log has no sizes, so that latency is a message's mean time and bandwidths are not known.
        one_count: all jobs have one number of samples, so that a fixed time of a job is not told from the speed.
        fixed_s: of each job, apart from its samples, as a line through work times says; None where one_count, or where
            fewer than three jobs leave no error.
    """

    client: int
    jobs: int
    columns: dict[str, Estimate]
    one_size: bool
    one_count: bool
    fixed_s: Estimate | None
    no_bytes: bool = False


@dataclass(frozen=True)
class Calibration:
    """The profiles of all clients of a log.

    Attributes:
        clients: in the order of their numbers.
        confidence: of the intervals.
        silent: jobs whose clients reported no durations; they are left out.
        behind: of each bandwidth, the clients for whom the server's link was narrower; it is known from below only.
        settled: whether taking off what messages waited for each other led to bandwidths that stay.
    """

    clients: tuple[ClientFit, ...]
    confidence: float
    silent: int = 0
    behind: dict[str, tuple[int, ...]] = field(default_factory=dict)
    settled: bool = True

    @property
    def unresolved(self) -> list[str]:
        """What the log could not tell apart, or does not show, in sentences."""
        said = []
        if any(fit.no_bytes for fit in self.clients):
            said.append("bandwidths: the log has no down_bytes and up_bytes; times only are fitted, and latency_s is a"
                        " message's mean time, whatever its size")  # fmt: skip
        if some := [fit.client for fit in self.clients if fit.one_size]:
            said.append(f"latency and bandwidth of {_clients(some, len(self.clients))}: every message has one size; "
                        "latency_s is 0, and the bandwidths hold for messages of this size only")  # fmt: skip
        if some := [fit.client for fit in self.clients if fit.one_count]:
            said.append(f"speed and a fixed time of each job of {_clients(some, len(self.clients))}: every job has one "
                        "number of samples; samples_per_s holds for this number only")  # fmt: skip
        for name, behind in self.behind.items():
            if behind:
                said.append(f"{name} of {_clients([*behind], len(self.clients))} from the server's own: that was"
                            " narrower while others shared it, and a faster line would show little")  # fmt: skip
        if not self.settled:
            said.append("how long messages waited for each other: the bandwidths have not settled, and may be some per"
                        " cent off")  # fmt: skip
        for fit in self.clients:
            if fit.fixed_s is not None and fit.fixed_s.low > 0:
                low, high = fit.fixed_s.low, fit.fixed_s.high
                said.append(f"work of client {fit.client} is not proportional to its samples: {low:.3g} to {high:.3g} s"
                            " of each job are fixed, which a profile cannot say")  # fmt: skip
        if few := [fit.client for fit in self.clients if fit.jobs < 3]:
            said.append(f"spread of {_clients(few, len(self.clients))}: fewer than three jobs")
        said.append("availability: a log of jobs does not show who was not there")
        return said


def _clients(some: list[int], of: int) -> str:
    if len(some) == of:
        return "every client"
    shown = ", ".join(map(str, some[:8])) + (", ..." if len(some) > 8 else "")
    return f"client{'s' if len(some) > 1 else ''} {shown}"


def calibrate(rows: Sequence[JobTime], confidence: float = 0.95, silent: int = 0) -> Calibration:
    """Fits a profile to each client's jobs.

    Args:
        rows: with the durations that clients reported.
        confidence: probability with which an interval covers the truth.
        silent: jobs without durations, which are not among the rows.

    Raises:
        SimflError: a client has no job with samples that took time.
    """
    by_client: dict[int, list[JobTime]] = {}
    for row in rows:
        by_client.setdefault(row.client, []).append(row)
    fits = (_fit(client, by_client[client], confidence) for client in sorted(by_client))
    return Calibration(tuple(fits), confidence, silent)


def _fit(client: int, rows: list[JobTime], confidence: float) -> ClientFit:
    columns = zip(JobTime._fields, zip(*rows, strict=True), strict=True)
    table: dict[str, Floats] = {name: np.array(values, dtype=np.float64) for name, values in columns}
    down, up = (table["down_bytes"], table["download_s"]), (table["up_bytes"], table["upload_s"])
    no_bytes = not any(sizes.any() for sizes, _ in (down, up))
    one_size = not no_bytes and all(len(set(sizes.tolist())) == 1 for sizes, _ in (down, up))
    line = (_no_bytes if no_bytes else _one_size if one_size else _line)(down, up, confidence)
    worked = (table["samples"] > 0) & (table["work_s"] > 0)
    samples, work_s = table["samples"][worked], table["work_s"][worked]
    if not len(samples):
        raise SimflError(f"client {client}: no job has samples and a work time above 0")
    one_count = len(set(samples.tolist())) < 2
    fixed = None if one_count or len(samples) < 3 else _intercept(samples, work_s, confidence)
    columns_of = _speed(samples, work_s, confidence) | line
    return ClientFit(client, len(rows), columns_of, one_size, one_count, fixed, no_bytes)


def _speed(samples: Floats, work_s: Floats, confidence: float) -> dict[str, Estimate]:
    """Speed and spread: mean and standard deviation of the logarithm of samples over seconds."""
    n = len(samples)
    logs = np.log(samples / work_s)
    mean, deviation = float(logs.mean()), float(logs.std(ddof=1)) if n > 1 else 0.0
    if n == 1:
        return {"samples_per_s": Estimate(exp(mean), 0.0, inf), "work_sigma": Estimate(0.0, 0.0, inf)}
    half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * deviation / sqrt(n)
    ends = stats.chi2.ppf([(1 + confidence) / 2, (1 - confidence) / 2], n - 1)
    low, high = (deviation * sqrt((n - 1) / float(end)) for end in ends)
    return {
        "samples_per_s": Estimate(exp(mean), exp(mean - half), exp(mean + half)),
        "work_sigma": Estimate(deviation, low, high),
    }


def _no_bytes(down: tuple[Floats, Floats], up: tuple[Floats, Floats], confidence: float) -> dict[str, Estimate]:
    """The mean time of a message as its latency; bandwidths that are not known limit nothing."""
    seconds = np.concatenate([down[1], up[1]])
    value, half = _least_squares(np.ones((len(seconds), 1)), seconds, confidence)
    latency = Estimate(float(value[0]), max(0.0, float(value[0] - half[0])), float(value[0] + half[0]))
    return {"latency_s": latency, **dict.fromkeys(LINE[1:], Estimate(inf, 0.0, inf))}


def _one_size(down: tuple[Floats, Floats], up: tuple[Floats, Floats], confidence: float) -> dict[str, Estimate]:
    """Bandwidths of messages that all have one size: the size over the mean time."""
    estimates = {"latency_s": Estimate(0.0, 0.0, 0.0)}
    for name, (sizes, seconds) in zip(LINE[1:], (down, up), strict=True):
        n, mean_s = len(seconds), float(seconds.mean())
        half_s = inf
        if n > 1:
            half_s = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * float(seconds.std(ddof=1)) / sqrt(n)
        estimates[name] = _bandwidth(*(each / sizes[0] if sizes[0] else 0.0 for each in (mean_s, half_s)))
    return estimates


def _line(down: tuple[Floats, Floats], up: tuple[Floats, Floats], confidence: float) -> dict[str, Estimate]:
    """Latency and bandwidths by least squares; what would be negative is 0, and the others are fitted without it."""
    n = len(down[0])
    design = np.zeros((2 * n, 3))
    design[:, 0], design[:n, 1], design[n:, 2] = 1, down[0], up[0]
    seconds = np.concatenate([down[1], up[1]])
    value, half = _least_squares(design, seconds, confidence)
    free = value > 0
    if not free.all():
        value = np.zeros(3)
        value[free] = np.linalg.lstsq(design[:, free], seconds, rcond=None)[0]
        value = np.maximum(value, 0)
    latency = Estimate(float(value[0]), max(0.0, float(value[0] - half[0])), float(value[0] + half[0]))
    bandwidths = (_bandwidth(float(value[i]), float(half[i])) for i in (1, 2))
    return {"latency_s": latency, **dict(zip(LINE[1:], bandwidths, strict=True))}


def _least_squares(design: Floats, seconds: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Coefficients and the half widths of their intervals."""
    scale = np.abs(design).max(axis=0)
    value, _, rank, _ = np.linalg.lstsq(design / scale, seconds, rcond=None)
    left = len(seconds) - int(rank)
    if left < 1 or rank < design.shape[1]:
        return value / scale, np.full(design.shape[1], inf)
    variance = float(((seconds - design / scale @ value) ** 2).sum()) / left
    covariance = variance * np.linalg.inv((design / scale).T @ (design / scale))
    half = float(stats.t.ppf((1 + confidence) / 2, left)) * np.sqrt(np.diag(covariance))
    return value / scale, half / scale


def _bandwidth(s_per_byte: float, half: float) -> Estimate:
    value = 1 / s_per_byte if s_per_byte > 0 else inf
    high = 1 / (s_per_byte - half) if s_per_byte > half else inf
    return Estimate(value, 1 / (s_per_byte + half) if s_per_byte + half > 0 else inf, high)


def _intercept(samples: Floats, work_s: Floats, confidence: float) -> Estimate:
    """The work time of no samples, by a line through the work times."""
    value, half = _least_squares(np.stack([np.ones(len(samples)), samples], axis=1), work_s, confidence)
    return Estimate(float(value[0]), float(value[0] - half[0]), float(value[0] + half[0]))


def profiles_bytes(calibration: Calibration, draw_devices: bool = False) -> bytes:
    """The file that ``devices.profiles`` reads: each column, then the ends of its interval.

    Args:
        calibration: what was fitted.
        draw_devices: leave out the column ``client``, so that every client of a scenario draws one of the devices.
    """
    assert set(FITTED) < set(PROFILE_COLUMNS)
    named = [f"{name}{end}" for name in FITTED for end in ("", "_low", "_high")]
    rows: list[list[object]] = [[*([] if draw_devices else ["client"]), "jobs", *named]]
    for fit in calibration.clients:
        ends = (fit.columns[name] for name in FITTED)
        cells = [number for each in ends for number in (each.value, each.low, each.high)]
        rows.append([*([] if draw_devices else [fit.client]), fit.jobs, *cells])
    return csv_bytes(rows)


def calibration_text(calibration: Calibration) -> str:
    """A table with a row a client, and what the log cannot separate."""
    share = f"{100 * calibration.confidence:g} %"
    heads = ["client", "jobs", *(_head(name) for name in FITTED)]
    shown = calibration.clients[:MOST_ROWS]
    rows = [heads, *([str(fit.client), str(fit.jobs), *_cells(fit)] for fit in shown)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    if left := len(calibration.clients) - len(shown):
        lines.append(f"... and {amount(left, 'more client')}, all of them in the file")
    lines.append(f"In brackets: {share} intervals.")
    if calibration.silent:
        lines.append(f"Left out: {amount(calibration.silent, 'job')} whose clients reported no durations.")
    lines += [f"Not separable: {text}." for text in calibration.unresolved]
    return "\n".join(lines)


def _head(name: str) -> str:
    return {"down_bytes_per_s": "down kB/s", "up_bytes_per_s": "up kB/s", "samples_per_s": "samples/s",
            "work_sigma": "work sigma", "latency_s": "latency s"}[name]  # fmt: skip


def _cells(fit: ClientFit) -> list[str]:
    cells = []
    for name in FITTED:
        scale = 1e-3 if name.endswith("bytes_per_s") else 1.0
        each: Estimate = fit.columns[name]
        untold = fit.one_size if name == "latency_s" else fit.no_bytes and name in LINE
        cells.append("?" if untold else _shown(each, scale))
    return cells


def _shown(each: Estimate, scale: float) -> str:
    value, low, high = (f"{scale * number:.3g}" for number in (each.value, each.low, each.high))
    return f"{value} [{low}, {high}]"


def calibrate_shared(
    rows: Sequence[JobTime], server: ServerLink, confidence: float = 0.95, silent: int = 0
) -> Calibration:
    """Fits a profile to each client's jobs, with its own line alone.

    Where clients share the server's link, a client's downloads and uploads last longer than its own line makes them,
    and its profile would be that of a slower line. The log says when each message was under way. With the link's
    bandwidth, and lines for all clients, fair sharing says how long each message was held up
    (:func:`simfl.network.fair_sharing.waits_s`, as in a simulation). Taking that off gives other lines, for which it
    is computed again, until the lines stay: a fixed point, from the lines that the log seems to show when nothing is
    shared.

    Args:
        rows: all jobs of a time, with the durations that clients reported; who is left out here held nobody up.
        server: the bandwidth of its link; a direction that is unlimited keeps its durations.
        confidence, silent: as for :func:`calibrate`.

    Raises:
        SimflError: as there.
    """
    waits, lines, settled = np.zeros((2, len(rows))), np.zeros(0), False
    for _ in range(MOST_STEPS):
        before, fits = lines, calibrate(_without(rows, waits, server)).clients
        lines = np.array([fit.columns[name].value for fit in fits for name in LINE[1:]])
        if settled := len(before) > 0 and bool(np.isclose(lines, before, CLOSE, 0).all()):
            break
        waits = np.array([each.waits_s for each in _messages(rows, fits, server)])
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
