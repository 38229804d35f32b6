"""The message-level trace as a Chrome/Perfetto timeline: one track an agent.

Format: the Trace Event Format's complete ("X") and metadata ("M") events, times in microseconds.
"""

import csv
import json
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import inf
from pathlib import Path

import numpy as np

from simfl.core.json_data import JsonObject
from simfl.core.storage.disk import write_atomically
from simfl.core.types import SERVER, Bools, Floats
from simfl.network.links import SharedLinks

EDGES = 10**9
"""Numbers of edges, and of servers beside one another, from here on."""

SIDES = ("down", "up")
"""From the server, and to it."""


class Traffic:
    """The messages between server and clients, as far as they came: how much of a shared link is in use.

    The bytes of a message are spread evenly over the time from its sending to its arrival; of one that was given up,
    those until then. Three messages of 60 bytes; the second is given up after half of its time:

    >>> sent = [{"event": "message", "from": -1, "to": i, "bytes": 60, "sent_s": 0.0, "arrives_s": 2.0} for i in (0, 1)]
    >>> back = {"event": "message", "from": 0, "to": -1, "bytes": 60, "sent_s": 2.0, "arrives_s": 5.0}
    >>> traffic = Traffic([*sent, {"event": "cancel", "client": 1, "time_s": 1.0}, back])
    >>> [column.tolist() for column in traffic.rates("down")], [column.tolist() for column in traffic.rates("up")]
    ([[0.0, 1.0, 2.0], [60.0, 30.0, 0.0]], [[2.0, 5.0], [20.0, 0.0]])

    Args:
        events: all records of a run.
    """

    def __init__(self, events: Iterable[JsonObject]) -> None:
        latest: dict[int, list[float]] = {}
        sent: dict[str, list[list[float]]] = {side: [] for side in SIDES}
        self.last_s = np.inf
        for event in events:
            if event["event"] == "cancel" and (open_ := latest.get(event["client"])) is not None:
                open_[1] = max(open_[0], min(open_[1], event["time_s"]))
            elif event["event"] == "round_end":
                self.last_s = event["time_s"]
            elif event["event"] == "message" and SERVER in (event["from"], event["to"]) and event["bytes"]:
                down = event["from"] == SERVER
                client = event["to"] if down else event["from"]
                begin_s, end_s = event["sent_s"], event["arrives_s"]
                row = [begin_s, end_s, event["bytes"] / (end_s - begin_s) if end_s > begin_s else 0.0, client]
                sent["down" if down else "up"].append(row)
                latest[client] = row
        self._sent = {side: np.array(rows, dtype=np.float64).reshape(-1, 4) for side, rows in sent.items()}

    def rates(self, side: str, crosses: Bools | None = None) -> tuple[Floats, Floats]:
        """The moments at which the rate on a link changes, in seconds, and bytes per second from each on.

        Args:
            side: one of :data:`SIDES`.
            crosses: whose messages are on the link, bool (clients,); None = everybody's.
        """
        rows = self._sent[side]
        if crosses is not None:
            rows = rows[crosses[rows[:, 3].astype(np.int64)]]
        begin_s, end_s, rate = rows[:, :3].T
        times_s: Floats
        times_s, place = np.unique(np.concatenate([begin_s, np.minimum(end_s, self.last_s)]), return_inverse=True)
        rate_steps = np.bincount(place, np.concatenate([rate, -rate]), minlength=len(times_s))
        total: Floats = np.cumsum(rate_steps, dtype=np.float64)
        total[np.abs(total) < 1e-9 * np.max(rate, initial=0.0)] = 0.0
        return times_s, total


def mean_rates(times_s: Floats, rate: Floats, edges_s: Floats) -> Floats:
    """Mean bytes per second between each two edges."""
    if not len(times_s):
        return np.zeros(len(edges_s) - 1)
    sent = np.append(0.0, np.cumsum(rate[:-1] * np.diff(times_s)))
    return np.diff(np.interp(edges_s, times_s, sent)) / np.diff(edges_s)


Span = JsonObject


def write_timeline(
    events: Path,
    target: Path,
    names: tuple[str, ...] | None = None,
    phases: Path | None = None,
    shared: SharedLinks | None = None,
) -> None:
    """Writes the timeline of an ``events.jsonl`` to ``target``, a JSON file that Perfetto's viewer opens.

    ``names`` of clients None numbers them. The ``phases.csv`` of an aggregation protocol gets tracks of its own, and
    each ``shared`` link, the server's and those with names, a curve of its bytes per second in each direction.
    """
    edges: dict[str, int] = {}
    with open(events, encoding="utf-8") as lines:
        spans = list(timeline(map(json.loads, lines), edges))
    others = {SERVER: "server", **{number: name for name, number in edges.items()}}
    clients = {track: others.get(track - 1) or (names[track - 1] if names else f"client {track - 1}")
               for track in sorted({span["tid"] for span in spans})}  # fmt: skip
    first = max(clients, default=0) + 1
    for track, client in _set_beside(spans, first).items():
        clients[track] = f"{clients[client]}, beside its work"
        first = track + 1
    if phases is not None:
        with open(phases, newline="", encoding="utf-8") as table:
            spans += protocol_phases(csv.DictReader(table), first)
    for number, track in enumerate(sorted({span["tid"] for span in spans} - clients.keys()), 1):
        clients[track] = f"secure aggregation {number}"
    if shared is not None:
        spans += _link_use(events, shared)
    labels = [
        {"ph": "M", "pid": 0, "tid": track, "name": "thread_name", "args": {"name": name}}
        for track, name in clients.items()
    ]
    document = {"traceEvents": [*labels, *spans], "displayTimeUnit": "ms"}
    write_atomically(target, json.dumps(document, separators=(",", ":")).encode())


def _link_use(events: Path, shared: SharedLinks) -> Iterator[Span]:
    """Counters of the links."""
    with open(events, encoding="utf-8") as lines:
        traffic = Traffic(json.loads(line) for line in lines)
    for side in SIDES:
        of_server = [("server's link", None)] if shared.has_server_link else []
        for name, crosses in [*of_server, *((link.name, getattr(link, side)) for link in shared.named)]:
            times_s, rate = traffic.rates(side, crosses)
            for time_s, bytes_per_s in zip(times_s.tolist(), rate.tolist(), strict=True):
                counted = {"bytes_per_s": bytes_per_s}
                yield {"ph": "C", "pid": 0, "tid": 0, "name": f"{name}, {side}", "ts": time_s * 1e6, "args": counted}


def protocol_phases(rows: Iterable[dict[str, str]], first: int) -> Iterator[Span]:
    """Spans of the rows of ``phases.csv`` on as few tracks, from number ``first`` on, as there are phases at a time."""
    free_s: list[float] = []
    for row in sorted(rows, key=lambda row: (float(row["started_s"]), float(row["ended_s"]))):
        start_s, end_s = float(row["started_s"]), float(row["ended_s"])
        track = next((place for place, until_s in enumerate(free_s) if until_s <= start_s), len(free_s))
        free_s[track:] = [end_s, *free_s[track + 1 :]]
        counts = {name: int(row[name]) for name in ("round", "asked", "answered", "failed", "bytes_down", "bytes_up")}
        failure = {"failure": row["failure"]} if row["failure"] else {}
        yield _span(row["phase"], first + track - 1, start_s, end_s, **counts, **failure)


def _set_beside(spans: list[Span], first: int) -> dict[int, int]:
    """Phases of a protocol are answered beside a client's own work. Moves what of that overlaps the work, or one
    another, to as few tracks more, from number ``first`` on, as there are at a time; the client's own track by these.
    """
    intervals_on: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    own_track = dict[int, int]()
    is_own = {id(span): not 0 < span["tid"] <= EDGES or span["name"].removesuffix(" (lost)") in OWN_WORK
              for span in spans}  # fmt: skip
    for span in sorted(spans, key=lambda span: (not is_own[id(span)], span["ts"])):
        client, interval = span["tid"], (span["ts"], span["ts"] + span["dur"])
        if not is_own[id(span)]:
            tracks = [client, *(track for track, of in own_track.items() if of == client), first + len(own_track)]
            span["tid"] = next(track for track in tracks if _is_free(intervals_on[track], *interval))
            if span["tid"] == tracks[-1]:
                own_track[span["tid"]] = client
        insort(intervals_on[span["tid"]], interval)
    return own_track


def _is_free(intervals: list[tuple[float, float]], begin: float, end: float) -> bool:
    """Whether this interval overlaps none of those, which are ascending, by more than a nanosecond."""
    place = bisect_right(intervals, (begin, inf))
    before = place == 0 or intervals[place - 1][1] <= begin + 1e-3
    return before and (place == len(intervals) or intervals[place][0] >= end - 1e-3)


MESSAGES = {"model": "download", "update": "upload", "failure": "connection lost"}
"""What these messages are on the clients' tracks; announcements and those of a protocol's phases keep their names."""

OWN_WORK = {*MESSAGES.values(), "compute", "compute (fails)", "wait", "cancel", "cancelled"}
"""What a client does one after another."""


class _Track:
    """A client's latest span, and its latest wait, which end when it is known what came next."""

    aggregator = SERVER

    def __init__(self) -> None:
        self.span: Span | None = None
        self.since_s: float | None = None
        self.until_s: float | None = None

    def end_span(self, at_s: float) -> None:
        """The latest span goes on no longer, and there is nothing to wait for."""
        if self.span is not None:
            self.span["dur"] = min(self.span["dur"], max(0.0, at_s * 1e6 - self.span["ts"]))
        self.since_s = None

    def begin_span(self, span: Span | None) -> Iterator[Span]:
        """What is known now that ``span`` begins."""
        if self.span is not None:
            yield self.span
        self.span = span

    def end_wait(self, at_s: float | None) -> Iterator[Span]:
        """The wait that a message of the server ends, or nothing any more."""
        ends = [time_s for time_s in (self.until_s, at_s) if time_s is not None]
        if self.since_s is not None and ends and self.since_s < min(ends):
            assert self.span is not None
            yield _span("wait", self.span["tid"] - 1, self.since_s, min(ends))
        self.since_s = self.until_s = None


def timeline(events: Iterable[JsonObject], edges: dict[str, int] | None = None) -> Iterator[Span]:
    """Spans of download, compute, upload, phases and wait on the clients' tracks, and of rounds on the server's and the
    edges', whose numbers are put in ``edges``.

    A client waits from the arrival of its answer until the round ends or the server sends it something, and not while
    it does its own work. What it was told to give up ends there, so that it does not lie over its next job.
    """
    work: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    waits = []
    for span in _spans(events, {} if edges is None else edges):
        if span["name"] == "wait":
            waits.append(span)
            continue
        if span["name"].removesuffix(" (lost)") in OWN_WORK and span["dur"]:
            work[span["tid"]].append((span["ts"], span["ts"] + span["dur"]))
        yield span
    for intervals in work.values():
        intervals.sort()
    for span in sorted(waits, key=lambda wait: wait["ts"]):
        intervals, begin, end = work[span["tid"]], span["ts"], span["ts"] + span["dur"]
        place = bisect_right(intervals, (begin, inf))
        begin = max([begin, *(before[1] for before in intervals[max(0, place - 1) : place])])
        end = min([end, *(after[0] for after in intervals[place : place + 1])])
        if begin < end:
            insort(intervals, (begin, end))
            yield span | {"ts": begin, "dur": end - begin}


def _spans(events: Iterable[JsonObject], numbers: dict[str, int]) -> Iterator[Span]:
    tracks: defaultdict[int, _Track] = defaultdict(_Track)
    begins_s: dict[int, float] = {}
    for each in events:
        named = {key: each[key] for key in ("from", "to", "aggregator") if isinstance(each.get(key), str)}  # edges
        event = each | {key: numbers.setdefault(name, EDGES + len(numbers)) for key, name in named.items()}
        aggregator = event.get("aggregator", SERVER)
        match event["event"]:
            case "round_start":
                begins_s[aggregator] = event["time_s"]
            case "message":
                yield from _message(event, tracks)
            case "compute":
                name = "compute (fails)" if event["completed"] is False else "compute"
                span = _span(name, event["client"], event["start_s"], event["end_s"], job=event["job"])
                yield from tracks[event["client"]].begin_span(span)
            case "cancel":
                track = tracks[event["client"]]
                if track.span is not None and track.span["name"] != "cancel":
                    track.end_span(event["time_s"])
                yield _span("cancelled", event["client"], event["time_s"], event["time_s"])
            case "round_end":
                begin, end = begins_s.get(aggregator, 0.0), event["time_s"]
                yield _span(f"round {event['round']}", aggregator, begin, end, aggregated=event["cardinality"])
                for track in tracks.values():
                    if track.aggregator == aggregator and track.since_s is not None and track.until_s is None:
                        track.until_s = end
    for track in tracks.values():
        yield from track.end_wait(None)
        yield from track.begin_span(None)


def _message(event: JsonObject, tracks: defaultdict[int, _Track]) -> Iterator[Span]:
    kind: str = event["kind"]
    sent_s = event["sent_s"]
    down = event["from"] == SERVER or event["from"] >= EDGES > event["to"] != SERVER
    client, aggregator = (event["to"], event["from"]) if down else (event["from"], event["to"])
    track = tracks[client]
    track.aggregator = aggregator
    if kind == "cancel" or track.span is not None and track.span["name"] == "cancel":
        track.end_span(sent_s)
    if down:
        yield from track.end_wait(sent_s)
    if track.span is not None and track.span["name"].startswith("acknowledgement"):  # perhaps it was not waited for
        track.end_span(sent_s)
    name = MESSAGES.get(kind, kind) + (" (lost)" if event.get("lost") else "")
    yield from track.begin_span(_span(name, client, sent_s, event["arrives_s"], bytes=event["bytes"]))
    if not down and kind != "failure":
        track.since_s = event["arrives_s"]


def _span(name: str, agent: int, start_s: float, end_s: float, **args: object) -> Span:
    return {"ph": "X", "pid": 0, "tid": agent + 1, "name": name, "ts": start_s * 1e6, "dur": (end_s - start_s) * 1e6,
            "args": args}  # fmt: skip
