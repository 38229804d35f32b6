"""Several shared links with messages that come and go one by one, each over one of them or more.

Max-min fair (Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2): every link has a *level*, infinite where
it has room for all. A message has the least level of the links that it crosses, or the rate of its own line where that
is less. Levels are found one after another. That link is filled next whose messages, if all of them rose together from
now on, would meet its capacity first; what its messages have then is final, and is taken off the other links that they
cross. Since rates only rise, no link that is filled later has a lower level.

That begins with those who were held up before. With anybody held up, or let go, a link's level is never above the right
one: who needs no more, and is let go, raises it, and so does who needs more and is held up. So the right levels are met
after as many moves as there are changes, and most links need none.

Messages over the same links stand in one *group*. All of a group that get less than their own lines allow have one
rate, so that one number tells how much each of them has been sent; a step costs a few operations a link, and one on
the arrays of the group that changes. A message that was never held up ends exactly, to the last bit, when it would have
alone.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush
from math import frexp, inf
from typing import Any

import numpy as np

from simfl.core.types import Floats
from simfl.network.fair_link import FULL, Ended

_Row = tuple[float, int, int]
"""A message: bytes per second of its line, its serial number, and the first in whole units, so that sums are exact."""


class _Entry:
    """A message: when it would end alone; and when it ends, or what its group will have ``sent`` of each then."""

    __slots__ = ("message", "serial", "alone_s", "row", "group", "is_held", "place")

    def __init__(self, message: Any, serial: int, alone_s: float, row: _Row, group: "_Group") -> None:
        self.message, self.serial, self.alone_s, self.row, self.group = message, serial, alone_s, row, group
        self.is_held, self.place = False, alone_s


class _Group:
    """Messages over the same links.

    Attributes:
        links: that they cross.
        rows: of the messages, ascending.
        first: the place from which on they are held up: they get less than their lines allow.
        level: what those have, bytes per second.
        sent: bytes of each of those.
        free_queue: (when it ends, serial) of the others, and old entries.
        slow_queue: (``sent`` when it ends, serial) of those that get less, and old entries.
        free_s, slow_s: when the next of each ends, if nothing changes.
        least_first: a place that ``first`` does not fall below while levels are found.
    """

    __slots__ = ("links", "rows", "first", "level", "sent", "free_queue", "slow_queue", "free_s", "slow_s",
                 "least_first")  # fmt: skip

    def __init__(self, links: tuple[int, ...]) -> None:
        self.links, self.first, self.level, self.sent = links, 0, inf, 0.0
        self.rows: list[_Row] = []
        self.free_queue: list[tuple[float, int]] = []
        self.slow_queue: list[tuple[float, int]] = []
        self.free_s = self.slow_s = inf
        self.least_first = 0


class FairNetwork:
    """Links and the messages on them; what its methods do, :class:`simfl.network.fair_link.FairLink` says.

    Args:
        bytes_per_s: of each link.
        crossings: for each group of messages the links that they cross, by their places in ``bytes_per_s``.
    """

    def __init__(self, bytes_per_s: Sequence[float], crossings: Sequence[tuple[int, ...]]) -> None:
        self.now_s = 0.0
        self.entries: dict[int, _Entry] = {}
        self.groups = [_Group(links) for links in crossings]
        self._on_link = [[group for group in self.groups if link in group.links] for link in range(len(bytes_per_s))]
        self._new: list[_Entry] = []
        self._is_filled = True
        self._next_s = inf
        self._units = 2.0 ** min(60 - frexp(min(bytes_per_s))[1], 1000)  # in a byte per second
        self._left = [int(each * self._units) for each in bytes_per_s]
        self._slow_counts = [0] * len(bytes_per_s)
        self._overfull = [2 * (1 - FULL) * each for each in bytes_per_s]  # once by rounding, once by who was let go

    @property
    def next_s(self) -> float:
        """When the next message ends, if none comes or goes before; infinite if there is none."""
        if not self._is_filled:
            self._fill()
        return self._next_s

    def add(self, now_s: float, message: Any, serial: int, alone_s: float, bytes_per_s: float, way: int) -> None:
        """A message begins; ``bytes_per_s`` of its own line, and the number of its group."""
        self._advance(now_s)
        group = self.groups[way]
        entry = self._insert(message, serial, alone_s, bytes_per_s, group)
        heappush(group.free_queue, (alone_s, serial))
        self._new.append(entry)
        self._is_filled = False

    def _insert(self, message: Any, serial: int, alone_s: float, line: float, group: _Group) -> _Entry:
        row = (line, serial, int(line * self._units))
        place = bisect_right(group.rows, row)
        group.rows.insert(place, row)
        self._count(group, 1, row, place < group.first or (place == group.first and line <= group.level * FULL))
        entry = self.entries[serial] = _Entry(message, serial, alone_s, row, group)
        return entry

    def _count(self, group: _Group, step: int, row: _Row, is_free: bool) -> None:
        """A row has come, or (-1) has gone."""
        group.first += step * is_free
        for link in group.links:
            if is_free:
                self._left[link] -= step * row[2]
            else:
                self._slow_counts[link] += step

    def _move(self, group: _Group, step: int, row: _Row) -> None:
        """A row is not held up any more, or (-1) is from now on."""
        group.first += step
        for link in group.links:
            self._left[link] -= step * row[2]
            self._slow_counts[link] -= step

    def remove(self, now_s: float, serial: int) -> float:
        self._advance(now_s)
        entry = self._drop(serial)
        if entry.is_held:
            return max(0.0, now_s + (entry.place - entry.group.sent) / entry.row[0] - entry.alone_s)
        return max(0.0, entry.place - entry.alone_s)

    def end(self) -> list[Ended]:
        now_s = self.next_s
        self._advance(now_s)
        serials = set[int]()
        for group in self.groups:
            if group.free_s <= now_s:
                self._take(group.free_queue, now_s, False, serials)
            if group.slow_s <= now_s:
                group.sent = group.slow_queue[0][0]
                self._take(group.slow_queue, group.sent, True, serials)
        ended = [self._drop(serial) for serial in sorted(serials)]
        return [Ended(entry.message, max(0.0, now_s - entry.alone_s)) for entry in ended]

    def _take(self, queue: list[tuple[float, int]], most: float, is_held: bool, serials: set[int]) -> None:
        """Takes what ends up to a place off a queue; old entries, too."""
        while queue and queue[0][0] <= most:
            place, serial = heappop(queue)
            entry = self.entries.get(serial)
            if entry is not None and entry.place == place and entry.is_held is is_held:
                serials.add(serial)

    def _drop(self, serial: int) -> _Entry:
        entry = self.entries.pop(serial)
        group, row = entry.group, entry.row
        place = bisect_left(group.rows, row)
        del group.rows[place]
        self._count(group, -1, row, place < group.first)
        self._is_filled = False
        return entry

    def _advance(self, now_s: float) -> None:
        if now_s > self.now_s:
            if not self._is_filled:
                self._fill()
            for group in self.groups:
                if group.first < len(group.rows):
                    group.sent += (now_s - self.now_s) * group.level
            self.now_s = now_s

    # -- the levels ------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """What each message has from now on."""
        before = [group.first for group in self.groups]
        self._find_levels()
        new, self._new = self._new, []
        for entry in new:
            rows, first = entry.group.rows, entry.group.first
            self._put(entry, first < len(rows) and entry.row >= rows[first])
        self._next_s = inf
        for group, old in zip(self.groups, before, strict=True):
            if old != group.first:
                for _, serial, _ in group.rows[min(old, group.first) : max(old, group.first)]:
                    self._put(self.entries[serial], old > group.first)
            self._find_next_end(group)
        self._is_filled = True

    def _put(self, entry: _Entry, is_held: bool) -> None:
        """Holds a message up, or lets it go on at the rate of its line."""
        group, line = entry.group, entry.row[0]
        if is_held is entry.is_held or self.entries.get(entry.serial) is not entry:
            return
        entry.is_held = is_held
        if is_held:
            entry.place = group.sent + (entry.place - self.now_s) * line
            heappush(group.slow_queue, (entry.place, entry.serial))
        else:
            entry.place = self.now_s + max(0.0, entry.place - group.sent) / line
            heappush(group.free_queue, (entry.place, entry.serial))

    def _find_next_end(self, group: _Group) -> None:
        """Notes when the next messages of a group end; takes old entries off the heads of the queues."""
        free, slow, entries, now_s = group.free_queue, group.slow_queue, self.entries, self.now_s
        group.free_s = group.slow_s = inf
        while free:
            entry = entries.get(free[0][1])
            if entry is not None and entry.place == free[0][0] and not entry.is_held:
                group.free_s = max(now_s, entry.place)
                break
            heappop(free)
        while slow:
            entry = entries.get(slow[0][1])
            if entry is not None and entry.place == slow[0][0] and entry.is_held:
                group.slow_s = now_s + max(0.0, entry.place - group.sent) / group.level
                break
            heappop(slow)
        else:
            group.sent = 0.0
        self._next_s = min(self._next_s, group.free_s, group.slow_s)

    def _find_levels(self) -> None:
        """From those before: those held up change until the levels that follow are right for all of them."""
        for group in self.groups:
            group.level, group.least_first = inf, 0
        final_bytes_per_s, final_count = [0.0] * len(self._left), [0] * len(self._left)
        least, most_held, open_count = 0.0, 1, len(self.groups)
        while open_count:
            level, fullest = inf, -1
            for link, units in enumerate(self._left):
                level_here = units / self._units - final_bytes_per_s[link]
                if count := self._slow_counts[link] - final_count[link]:
                    level_here /= count
                elif level_here >= self._overfull[link]:
                    continue
                if level_here < level:
                    level, fullest = level_here, link
            if fullest < 0:
                return
            groups = [group for group in self._on_link[fullest] if group.level == inf]
            if self._moves(groups, level, most_held):
                most_held *= 2
                continue
            least = max(least, level)
            open_count -= len(groups)
            for group in groups:
                group.level, count = least, len(group.rows) - group.first
                for link in group.links:
                    final_count[link] += count
                    final_bytes_per_s[link] += count * least
            final_bytes_per_s[fullest] = -inf

    def _moves(self, groups: list[_Group], level: float, count: int) -> bool:
        """Lets all go on that need no more than a link's level, or else holds up at most so many of those that need
        more, the widest first; either can only raise it. Whether there were any.
        """
        most, widest, were_any = level * FULL, None, False
        for group in groups:
            rows = group.rows
            while group.first < len(rows) and rows[group.first][0] <= most:
                self._move(group, 1, rows[group.first])
                group.least_first, were_any = group.first, True
            if group.first > group.least_first and (row := rows[group.first - 1])[0] > most:
                if widest is None or row > widest.rows[widest.first - 1]:
                    widest = group
        if were_any or widest is None:
            return were_any
        least_first = max(widest.least_first, widest.first - count)
        while widest.first > least_first and (row := widest.rows[widest.first - 1])[0] > most:
            self._move(widest, -1, row)
        return True

    # -- checkpoints -----------------------------------------------------------------------------------

    def state(self) -> Floats:
        """All but the messages themselves, (1 + groups + messages, 6)."""
        number = {id(group): place for place, group in enumerate(self.groups)}
        rows = [
            (entry.serial, entry.alone_s, entry.row[0], number[id(entry.group)], entry.is_held, entry.place)
            for entry in self.entries.values()
        ]
        heads = [(self.now_s, self._is_filled), *((group.sent, 0.0) for group in self.groups)]
        return np.array([*((*head, 0.0, 0.0, 0.0, 0.0) for head in heads), *sorted(rows)], dtype=np.float64)

    def restore(self, state: Floats, messages: dict[int, Any]) -> None:
        rows = state.tolist()
        self.now_s = rows[0][0]
        for group, row in zip(self.groups, rows[1 : 1 + len(self.groups)], strict=True):
            group.sent = row[0]
        for number, alone_s, line, way, is_held, place in rows[1 + len(self.groups) :]:
            serial, group = int(number), self.groups[int(way)]
            entry = self._insert(messages[serial], serial, alone_s, line, group)
            entry.is_held, entry.place = is_held > 0, place
            heappush(group.slow_queue if entry.is_held else group.free_queue, (place, serial))
            self._new.append(entry)
        self._is_filled = False
        if rows[0][1]:
            self._fill()
