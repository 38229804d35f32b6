"""Max-min fair sharing of one link by messages with any shares, whose begins are known: O(log n) a step.

At every moment there is a level: messages with a smaller share of the link than that are free, which means that they
have all of their share, and each of the others is held and has the level (:mod:`simfl.network.fair_sharing`). All held
messages have sent equally much since any moment at which they were all held. So a held message ends when what each has
``sent`` reaches a number that is known when it becomes held, a free one at a time that is known when it becomes free,
and both kinds wait in a heap. Where the level passes the share of a message, that changes heaps.
"""

from heapq import heappop, heappush
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from simfl.network.fair_link import FULL

Floats = NDArray[np.float64]

MOST_CHANGES = 64
"""Shares, for each message, that the level may pass; more where many shares are nearly equal and it swings over all."""


class LevelLink:
    """A link on which messages come and go.

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
