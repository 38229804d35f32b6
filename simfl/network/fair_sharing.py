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
from math import inf, nan

import numpy as np

from simfl.core.types import Floats
from simfl.network.fair_link import FULL, UnequalLink

MOST_CHANGES = 64
"""Shares, for each message, that the level may pass; more where many shares are nearly equal and it swings over all."""


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


class LevelLink:
    """A link on which messages of any shares come and go, their begins known: O(log n) a step.

    At every moment there is a level: messages with a smaller share of the link than that are free, which means that
    they have all of their share, and each of the others is held and has the level. All held messages have sent equally
    much since any moment at which they were all held. So a held message ends when what each has ``sent`` reaches a
    number that is known when it becomes held, a free one at a time that is known when it becomes free, and both kinds
    wait in a heap. Where the level passes the share of a message, that changes heaps.

    Args:
        begins_s: when each message begins, ascending, (n,).
        ends_s: when each would end alone, (n,).
        sizes: in seconds of the whole link, (n,).
        shares: of the link that each can take at most, (n,).
    """

    def __init__(self, begins_s: Floats, ends_s: Floats, sizes: Floats, shares: Floats) -> None:
        n, by_share = len(shares), np.argsort(shares, kind="stable")
        rank = np.empty(n, dtype=np.int64)
        rank[by_share] = np.arange(n)
        self.begins_s = [*begins_s.tolist(), inf]
        self.ends_s, self.sizes, self.shares = ends_s.tolist(), sizes.tolist(), shares.tolist()
        self.by_share, self.rank = by_share.tolist(), rank.tolist()
        self.sorted_shares = [-inf, *shares[by_share].tolist(), nan]
        self.free_key, self.held_key = [nan] * n, [nan] * n  # nan: is not
        self.last_free_s, self.held_since = list(self.ends_s), [nan] * n
        self.free: list[tuple[float, int]] = []  # the first entry of a heap is true, others may be out of date
        self.held_heap: list[tuple[float, int]] = []
        self.sent, self.used, self.holding, self.edge = 0.0, 0.0, 0, n

    def waits_s(self) -> Floats | None:
        """How much later each message ends than alone, (n,); None if the level passes shares too often for this way."""
        i, now_s, level, changes, waits = 0, 0.0, inf, 0, [0.0] * len(self.shares)
        begins_s, free, held_heap, sorted_shares = self.begins_s, self.free, self.held_heap, self.sorted_shares
        while changes <= MOST_CHANGES * len(waits):
            begin_s, free_s, held_s = begins_s[i], free[0][0] if free else inf, inf
            if held_heap and (held_s := now_s + (held_heap[0][0] - self.sent) / level) < now_s:
                held_s = now_s
            if held_s <= begin_s and held_s <= free_s:
                if held_s == inf:
                    return np.array(waits)
                now_s = held_s
                self._end_held(now_s, waits)
            else:
                next_s = free_s if free_s <= begin_s else begin_s
                if held_heap:
                    self.sent += (next_s - now_s) * level
                now_s = next_s
                if free_s <= begin_s:
                    self._end_free(now_s, waits)
                else:
                    self._begin(i)
                    i += 1
            while True:
                level = (1 - self.used) / self.holding if self.holding else self._left_over()
                limit, edge = level * FULL, self.edge
                if sorted_shares[edge + 1] <= limit:
                    self._release(now_s)
                elif sorted_shares[edge] > limit:
                    self._restrain(now_s)
                else:
                    break
                changes += 1
        return None

    def _begin(self, i: int) -> None:
        if self.rank[i] < self.edge:
            self.used += self.shares[i]
            self.free_key[i] = end_s = self.ends_s[i]
            heappush(self.free, (end_s, i))
        else:
            self.holding += 1
            self.held_since[i] = sent = self.sent
            self.held_key[i] = key = sent + self.sizes[i]
            heappush(self.held_heap, (key, i))

    def _end_held(self, now_s: float, waits: list[float]) -> None:
        """The held message that has the least left ends."""
        held_heap, held_key = self.held_heap, self.held_key
        self.sent, ended = heappop(held_heap)
        held_key[ended] = nan
        self.holding -= 1
        if (wait_s := now_s - self.ends_s[ended]) > 0:
            waits[ended] = wait_s
        while held_heap and held_key[held_heap[0][1]] != held_heap[0][0]:
            heappop(held_heap)

    def _end_free(self, now_s: float, waits: list[float]) -> None:
        """The free message that ends first ends."""
        free, free_key = self.free, self.free_key
        ended = heappop(free)[1]
        free_key[ended] = nan
        if (wait_s := now_s - self.ends_s[ended]) > 0:
            waits[ended] = wait_s
        while free and free_key[free[0][1]] != free[0][0]:
            heappop(free)
        self.used = self.used - self.shares[ended] if free else 0.0

    def _left_over(self) -> float:
        """The level where nobody is held: none, or the link is overfull and somebody must be."""
        self.sent = 0.0
        return inf if self.used <= FULL else 0.0

    def _release(self, now_s: float) -> None:
        """The level has reached the next share; who has it, if there, becomes free."""
        i, held_heap, held_key = self.by_share[self.edge], self.held_heap, self.held_key
        self.edge += 1
        if (key := held_key[i]) == key:
            self.holding -= 1
            self.used += self.shares[i]
            if self.held_since[i] != self.sent:  # else no time has passed
                self.last_free_s[i] = now_s + (key - self.sent) / self.shares[i]
            held_key[i], self.free_key[i] = nan, self.last_free_s[i]
            heappush(self.free, (self.last_free_s[i], i))
            while held_heap and held_key[held_heap[0][1]] != held_heap[0][0]:
                heappop(held_heap)

    def _restrain(self, now_s: float) -> None:
        """The level has fallen below the last share; who has it, if there, becomes held."""
        self.edge -= 1
        i, free, free_key = self.by_share[self.edge], self.free, self.free_key
        if (key := free_key[i]) == key:
            self.holding += 1
            self.used -= self.shares[i]
            self.held_since[i] = self.sent
            self.held_key[i] = self.sent + (key - now_s) * self.shares[i]
            heappush(self.held_heap, (self.held_key[i], i))
            free_key[i] = nan
            while free and free_key[free[0][1]] != free[0][0]:
                heappop(free)
