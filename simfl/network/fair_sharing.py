"""Max-min fair sharing of one link by the messages that are on it together.

The link is a fluid: at every moment each message has the same rate, unless its own line allows less; what such messages
leave over is divided among the others. This is progressive filling (Bertsekas and Gallager, Data Networks, 2nd ed.,
section 6.5.2) of a single link. Rates change only when a message begins or ends.

Units: a message is known by the seconds that it would need alone and by its *share*, the part of the link's bandwidth
that it can take at most, in (0, 1]; its size is their product, in seconds of the whole link. A message that was never
held up ends exactly, to the last bit, when it would have ended alone.
"""

from collections import deque
from heapq import heappop, heappush
from math import inf

import numpy as np
from numpy.typing import NDArray

from simfl.network.fair_link import FULL, UnequalLink
from simfl.network.level_sharing import LevelLink

Floats = NDArray[np.float64]


def waits_s(begins_s: Floats, alone_s: Floats, share: Floats) -> Floats:
    """By how many seconds messages end later than they would alone, (n,); exactly 0 for those never held up.

    Args:
        begins_s: when each begins, (n,).
        alone_s: seconds that each takes alone; 0 for one that has no bytes, (n,).
        share: of the link, at most, (n,).

    The steps in Python are O(n log n), or arrays of all messages where the level keeps passing shares.

    Three messages of a second each begin together; the third can use no more than a quarter of the link:

    >>> waits_s(np.zeros(3), np.array([1.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.25])).round(3).tolist()
    [1.25, 1.25, 0.0]
    """
    waits = np.zeros(len(begins_s))
    some = np.flatnonzero(alone_s > 0)
    begins_s, alone_s, share = begins_s[some], alone_s[some], share[some]
    if not some.size or not _overfull(begins_s, begins_s + alone_s, share):
        return waits
    together = (begins_s == begins_s[0]).all()
    if (share != share[0]).any():
        waits[some] = _filled_waits_s(alone_s, share) if together else _unequal_waits_s(begins_s, alone_s, share)
    elif together:
        waits[some] = _together_waits_s(alone_s, float(share[0]))
    else:
        waits[some] = _equal_waits_s(begins_s, alone_s, float(share[0]))
    return waits


def _overfull(begins_s: Floats, ends_s: Floats, share: Floats) -> bool:
    """Whether messages that all had their full rate would at some moment need more than the link has."""
    if share.sum() <= FULL:
        return False
    times_s = np.concatenate([ends_s, begins_s])  # at one moment ends come first
    order = np.argsort(times_s, kind="stable")
    return bool(np.cumsum(np.concatenate([-share, share])[order]).max() > FULL)


def _together_waits_s(alone_s: Floats, share: float) -> Floats:
    """Of messages that begin together: the shortest ends first, and the others have more."""
    order = np.argsort(alone_s, kind="stable")
    n = len(alone_s)
    slowness = np.maximum(1.0, np.arange(n, 0, -1) * share)
    slowness[slowness <= FULL] = 1.0
    lost_s = np.cumsum(np.diff(alone_s[order], prepend=0.0) * (slowness - 1))
    waits = np.empty(n)
    waits[order] = lost_s
    return waits


def _filled_waits_s(alone_s: Floats, share: Floats) -> Floats:
    """Of messages that begin together, with any shares: the level to which the link is filled only rises.

    So each message is held up from the beginning on until the level reaches its share, if at all; all that are have
    sent equally much. If all have one size, those end first, together, and the level is one number until then.
    """
    if np.ptp(alone_s * share) <= (FULL - 1) * (alone_s[0] * share[0]):
        return alone_s * np.maximum(share / _level(share) - 1, 0.0)
    sizes, shares, alone = (alone_s * share).tolist(), share.tolist(), alone_s.tolist()
    waits = [0.0] * len(share)
    by_share, by_size = (deque(np.argsort(key, kind="stable").tolist()) for key in (share, alone_s * share))
    limited, ends = set(by_share), list[tuple[float, int]]()
    now, sent, left = 0.0, 0.0, 1.0
    while limited:
        while limited and (shares[first := by_share[0]] * len(limited) <= left * FULL or first not in limited):
            by_share.popleft()  # the level has reached its share
            if first in limited:
                limited.discard(first)
                left -= shares[first]
                ends_s = now + (sizes[first] - sent) / shares[first] if sent else alone[first]
                heappush(ends, (ends_s, first))
        while by_size and by_size[0] not in limited:
            by_size.popleft()
        level = max(left, 0.0) / len(limited) if limited else 1.0
        ends_s = now + (sizes[by_size[0]] - sent) / level if limited else inf
        if not limited or (ends and ends[0][0] <= ends_s):
            ended_s, i = heappop(ends)
            left += shares[i]
        else:
            ended_s, i = ends_s, by_size.popleft()
            limited.discard(i)
        sent += (ended_s - now) * level
        now = ended_s
        waits[i] = max(0.0, now - alone[i])
    for ended_s, i in ends:
        waits[i] = max(0.0, ended_s - alone[i])
    return np.array(waits)


def _level(share: Floats) -> float:
    """What each of those gets who are held up; infinite if all shares fit."""
    ascending = np.sort(share)
    before, others = np.cumsum(ascending) - ascending, np.arange(len(share), 0, -1)
    narrow = before + ascending * others > FULL
    first = int(narrow.argmax())
    return float((1 - before[first]) / others[first]) if narrow[first] else inf


def _equal_waits_s(begins_s: Floats, alone_s: Floats, share: float) -> Floats:
    """Of messages with equal shares, in the link's virtual time: what each message on the link has sent since 0."""
    n, waits = len(begins_s), [0.0] * len(begins_s)
    order = np.argsort(begins_s, kind="stable")
    begins, numbers = [*begins_s[order].tolist(), inf], order.tolist()
    sizes = (alone_s[order] * share).tolist()
    ends = (begins_s + alone_s).tolist()
    on_link: list[tuple[float, int]] = []
    sent, now, held_s, i, rate = 0.0, 0.0, -inf, 0, share
    while i < n or on_link:
        ends_s = now + (on_link[0][0] - sent) / rate if on_link else inf
        begin_s = begins[i]
        if begin_s < ends_s:
            sent += (begin_s - now) * rate
            now = begin_s
            heappush(on_link, (sent + sizes[i], i))
            i += 1
        else:
            now = max(now, ends_s)
            sent, j = heappop(on_link)
            if held_s > begins[j]:
                waits[numbers[j]] = max(0.0, now - ends[numbers[j]])
        demand = len(on_link) * share
        rate = share if demand <= FULL else 1 / len(on_link)
        if demand > FULL:
            held_s = inf  # from now on, until it is found out when that ended
        elif held_s == inf:
            held_s = now
    return np.array(waits)


def _unequal_waits_s(begins_s: Floats, alone_s: Floats, share: Floats) -> Floats:
    """Of any messages; where the level keeps passing the shares of many, with a step on all of them a time."""
    order = np.argsort(begins_s, kind="stable")
    begins_s, ends_s, share = begins_s[order], (begins_s + alone_s)[order], share[order]
    level_waits_s = LevelLink(begins_s, ends_s, alone_s[order] * share, share).waits_s()
    waits = np.empty(len(order))
    waits[order] = _one_by_one_waits_s(begins_s, ends_s, share) if level_waits_s is None else level_waits_s
    return waits


def _one_by_one_waits_s(begins_s: Floats, ends_s: Floats, share: Floats) -> Floats:
    """Of messages by their begins."""
    link, waits = UnequalLink(), np.zeros(len(begins_s))
    begins, ends, shares = [*begins_s.tolist(), inf], ends_s.tolist(), share.tolist()
    number = 0
    while number < len(ends) or link.next_s < inf:
        if begins[number] < link.next_s:
            link.add(begins[number], number, number, ends[number], shares[number])
            number += 1
        else:
            for ended, wait_s in link.end():
                waits[ended] = wait_s
    return waits
