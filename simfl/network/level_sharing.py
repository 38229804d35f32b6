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
        self.free: list[tuple[float, int]] = []
        self.held: list[tuple[float, int]] = []
        self.sent, self.used, self.holding, self.edge = 0.0, 0.0, 0, n

    def waits_s(self) -> Floats | None:
        """How much later each message ends than alone, (n,); None if the level passes shares too often for this way."""
        i, now_s, level, changes, waits = 0, 0.0, inf, 0, [0.0] * len(self.shares)
        begins_s, ends_s, free, held, sorted_shares = (
            self.begins_s,
            self.ends_s,
            self.free,
            self.held,
            self.sorted_shares,
        )
        free_key, held_key = self.free_key, self.held_key
        while changes <= MOST_CHANGES * len(waits):
            while free and free_key[free[0][1]] != free[0][0]:
                heappop(free)
            while held and held_key[held[0][1]] != held[0][0]:
                heappop(held)
            begin_s, free_s = begins_s[i], free[0][0] if free else inf
            held_s = now_s + (held[0][0] - self.sent) / level if held else inf
            before_s, now_s = now_s, max(now_s, min(begin_s, free_s, held_s))
            if now_s == inf:
                return np.array(waits)
            self.sent += (now_s - before_s) * level if held else 0.0
            if held_s <= now_s:
                self.sent, ended = heappop(held)
                held_key[ended] = nan
                self.holding -= 1
                waits[ended] = max(0.0, now_s - ends_s[ended])
            elif free_s <= now_s:
                ended = heappop(free)[1]
                free_key[ended] = nan
                self.used = self.used - self.shares[ended] if free else 0.0
                waits[ended] = max(0.0, now_s - ends_s[ended])
            else:
                self._begin(i)
                i += 1
            while True:
                level = (1 - self.used) / self.holding if self.holding else self._left_over()
                if sorted_shares[self.edge + 1] <= level * FULL:
                    self._release(now_s)
                elif sorted_shares[self.edge] > level * FULL:
                    self._restrain(now_s)
                else:
                    break
                changes += 1
        return None

    def _begin(self, i: int) -> None:
        if self.rank[i] < self.edge:
            self.used += self.shares[i]
            self.free_key[i] = self.ends_s[i]
            heappush(self.free, (self.ends_s[i], i))
        else:
            self._hold(i, self.sizes[i])

    def _hold(self, i: int, left: float) -> None:
        """A message becomes held; ``left`` of it, in seconds of the whole link."""
        self.holding += 1
        self.held_since[i] = self.sent
        self.held_key[i] = self.sent + left
        heappush(self.held, (self.held_key[i], i))

    def _left_over(self) -> float:
        """The level where nobody is held: none, or the link is overfull and somebody must be."""
        self.sent = 0.0
        return inf if self.used <= FULL else 0.0

    def _release(self, now_s: float) -> None:
        """The level has reached the next share; who has it, if there, becomes free."""
        i = self.by_share[self.edge]
        self.edge += 1
        if (held_key := self.held_key[i]) == held_key:
            self.holding -= 1
            self.used += self.shares[i]
            if self.held_since[i] != self.sent:  # else no time has passed
                self.last_free_s[i] = now_s + (held_key - self.sent) / self.shares[i]
            self.held_key[i], self.free_key[i] = nan, self.last_free_s[i]
            heappush(self.free, (self.last_free_s[i], i))

    def _restrain(self, now_s: float) -> None:
        """The level has fallen below the last share; who has it, if there, becomes held."""
        self.edge -= 1
        i = self.by_share[self.edge]
        if (free_key := self.free_key[i]) == free_key:
            self.used -= self.shares[i]
            self.free_key[i] = nan
            self._hold(i, (free_key - now_s) * self.shares[i])
