"""Messages on one shared link, followed step by step with nothing of simfl: O(n^2) and more, for small cases."""

from collections import defaultdict
from math import inf
from typing import Any, NamedTuple

import numpy as np

SERVER = -1


class Way(NamedTuple):
    """A message on the link: from ``begin_s`` on it has ``size`` bytes to send, at most ``most`` of them a second, and
    is gone at ``gone_s`` if it has not ended.
    """

    begin_s: float
    size: float
    most: float
    gone_s: float = inf


def rates(most: list[float], capacity: float) -> list[float]:
    """Max-min fair rates: the hungriest get what the others leave, again and again."""
    found, left, open_ = [0.0] * len(most), capacity, set(range(len(most)))
    while open_:
        even = left / len(open_)
        small = {i for i in open_ if most[i] <= even}
        for i in small or open_:
            found[i] = most[i] if small else even
        left -= sum(most[i] for i in small)
        open_ = open_ - small if small else set()
    return found


def ends_s(ways: list[Way], capacity: float) -> list[float]:
    """When each has sent all; infinite for those gone before."""
    left, end, now = [way.size for way in ways], [inf] * len(ways), 0.0
    waiting = {i for i, way in enumerate(ways) if way.size > 0 and way.gone_s > way.begin_s}
    for i, way in enumerate(ways):
        if not way.size:
            end[i] = way.begin_s
    while waiting:
        on_link = [i for i in sorted(waiting) if ways[i].begin_s <= now]
        rate = dict(zip(on_link, rates([ways[i].most for i in on_link], capacity), strict=True))
        times = [ways[i].begin_s for i in waiting if ways[i].begin_s > now]
        times += [ways[i].gone_s for i in on_link] + [now + left[i] / rate[i] for i in on_link]
        later = min(times)
        for i in on_link:
            left[i] -= rate[i] * (later - now)
            if left[i] <= 1e-9 * ways[i].size:
                end[i] = later
            if left[i] <= 1e-9 * ways[i].size or ways[i].gone_s <= later:
                waiting.discard(i)
        now = later
    return end


class _GivenUp:
    """When nobody waits for a client's messages any more: for an update until it is heard, which its client may go on
    sending after that, and when it has another job.
    """

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.cancelled: dict[int, list[tuple[float, int, int]]] = defaultdict(list)
        self.works: dict[int, list[tuple[float, int]]] = defaultdict(list)
        starts_s = [event["time_s"] for event in events if event["event"] == "round_start"]
        for number, event in enumerate(events):
            if event["event"] == "cancel":
                job = (int(np.searchsorted(starts_s, event["time_s"])) - 1 << 32) | event["client"]
                about = event["time_s"], number, event.get("job", job)
                self.cancelled[event["client"]].append(about)
            elif event["event"] == "compute" and event["completed"]:
                self.works[event["client"]].append((event["end_s"], event["job"]))
        self.heard_s: dict[int, float] = {}
        for event in events:
            if event.get("kind") == "update" and not event.get("lost"):
                job = self._job(event)
                self.heard_s[job] = min(event["arrives_s"], self.heard_s.get(job, inf))
        self.last_s = max(event["time_s"] for event in events if event["event"] == "round_end")

    def times_s(self, number: int, message: dict[str, Any]) -> list[float]:
        """When a message, a certain record of the run, was given up; what is cancelled in the instant in which it is
        sent stands before the record of its end.
        """
        sent_s, arrives_s, client = message["sent_s"], message["arrives_s"], max(message["from"], message["to"])
        times = [
            (time_s, job)
            for time_s, cancelled, job in self.cancelled[client]
            if sent_s < time_s < arrives_s or sent_s == time_s < arrives_s and number < cancelled
        ]
        if message["kind"] != "update":
            return [time_s for time_s, _ in times]
        sends = self._job(message)
        return [time_s for time_s, job in times if job == sends and time_s <= self.heard_s.get(job, inf)]

    def _job(self, update: dict[str, Any]) -> int:
        """Its last work before it was sent."""
        return max(each for each in self.works[update["from"]] if each[0] <= update["sent_s"])[1]


class Sent(NamedTuple):
    """A message as its record has it: whose it is, its bytes, when it entered the link and left it, and when it was
    given up.
    """

    client: int
    size: float
    begin_s: float
    end_s: float
    gone_s: float


def sent_messages(events: list[dict[str, Any]], side: str, latency_s: list[float]) -> list[Sent]:
    """All messages of a run from ("down") or to ("up") the server; of networks without jitter."""
    given_up = _GivenUp(events)
    found = []
    for number, event in enumerate(events):
        if event["event"] != "message" or event["kind"] == "cancel":
            continue
        down = event["from"] == SERVER
        client = event["to"] if down else event["from"]
        if down != (side == "down"):
            continue
        sent_s, arrives_s = event["sent_s"], event["arrives_s"]
        begin_s = sent_s if down else sent_s + latency_s[client]
        end_s = arrives_s - latency_s[client] if down else arrives_s
        gone_s = min([*given_up.times_s(number, event), given_up.last_s])
        found.append(Sent(client, event["bytes"], begin_s, end_s, gone_s))
    return found


def wrong_ends(side: str, sent: list[Sent], ends: list[float]) -> list[str]:
    """The messages that did not end when they should have."""
    problems = []
    for one, end_s in zip(sent, ends, strict=True):
        if end_s < one.gone_s and abs(end_s - one.end_s) > 1e-6 * max(1.0, end_s):
            problems.append(f"{side}: {one} did not end at {end_s} s")
        if end_s == inf and one.end_s < one.gone_s - 1e-6 * max(1.0, one.gone_s):
            problems.append(f"{side}: {one} cannot have ended")
    return problems


def link_problems(
    events: list[dict[str, Any]], capacity: dict[str, float], most: list[float], latency_s: list[float]
) -> list[str]:
    """Messages of a run that did not take what max-min fair sharing says; of networks without jitter.

    Args:
        events: those of the run, all of them.
        capacity: bytes/s "down" and "up", where there are such.
        most: bytes/s of each client's own line.
        latency_s: of each client.
    """
    problems = []
    for side, bytes_per_s in capacity.items():
        sent = sent_messages(events, side, latency_s)
        ways = [Way(one.begin_s, one.size, min(most[one.client], bytes_per_s), one.gone_s) for one in sent]
        problems += wrong_ends(side, sent, ends_s(ways, bytes_per_s))
    return problems


def overfull(
    events: list[dict[str, Any]], capacity: dict[str, float], clients: frozenset[int] | None = None
) -> list[str]:
    """Times within which more bytes arrived than the link can carry; also where only a part of the messages is known.

    ``clients`` are those whose messages are on the link; None = all.

    Of a message is known that it was on the link at some time between its beginning and its arrival; those that were
    given up are left out.
    """
    given_up = _GivenUp(events)
    problems = []
    for side, bytes_per_s in capacity.items():
        sent = [
            (event["sent_s"], event["arrives_s"], event["bytes"])
            for number, event in enumerate(events)
            if event["event"] == "message" and event["kind"] != "cancel"
            and (clients is None or max(event["from"], event["to"]) in clients)
            and (event["from"] == SERVER) == (side == "down") and event["arrives_s"] <= given_up.last_s
            and not given_up.times_s(number, event)
        ]  # fmt: skip
        begin, end, size = np.array(sent, dtype=float).reshape(-1, 3).T
        for at_s in np.unique(begin):
            later = np.flatnonzero(begin >= at_s)
            order = later[np.argsort(end[later], kind="stable")]
            carried = np.cumsum(size[order])
            most = bytes_per_s * (end[order] - at_s) * (1 + 1e-9) + 1e-3
            if (carried > most).any():
                problems.append(f"{side}: too many bytes between {at_s} and {end[order][carried > most][0]} s")
    return problems
