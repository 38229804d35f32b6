"""Several shared links with messages that come and go one by one, each over one of them or more.

Max-min fair (Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2): every link has a *level*, infinite where
it has room for all. A message has the least level of the links that it crosses, or the rate of its own line where that
is less. Levels are found one after another. That link is filled next whose messages, if all of them rose together from
now on, would meet its capacity first; what its messages have then is final, and is taken off the other links that they
cross. Since rates only rise, no link that is filled later has a lower level.

Messages over the same links stand in one *group*. All of a group that get less than their own lines allow have one
rate, so that one number tells how much each of them has been sent; a step costs a few operations a link, and one on
the arrays of the group that changes. A message that was never held up ends exactly, to the last bit, when it would have
alone.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import accumulate
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfl.network.fair_link import FULL, Ended

Floats = NDArray[np.float64]


class _Entry:
    """A message: when it would end alone; and when it ends, or what its group will have ``sent`` of each then."""

    __slots__ = ("message", "serial", "alone_s", "line", "group", "is_held", "place")

    def __init__(self, message: Any, serial: int, alone_s: float, line: float, group: "_Group") -> None:
        self.message, self.serial, self.alone_s, self.line, self.group = message, serial, alone_s, line, group
        self.is_held, self.place = False, alone_s


class _Group:
    """Messages over the same links, by the bytes per second of their own lines.

    Attributes:
        links: that they cross.
        lines, serials: of the messages, by line.
        first: the place from which on they get less than their lines allow, when the levels were last found.
        level: what those have, bytes per second.
        sent: bytes of each of those.
        free_queue: (when it ends, serial) of the others, and old entries.
        slow_queue: (``sent`` when it ends, serial) of those that get less, and old entries.
    """

    __slots__ = ("links", "lines", "serials", "first", "level", "sent", "free_queue", "slow_queue", "_sums")

    def __init__(self, links: tuple[int, ...]) -> None:
        self.links, self.first, self.level, self.sent = links, 0, inf, 0.0
        self.lines: list[float] = []
        self.serials: list[int] = []
        self.free_queue: list[tuple[float, int]] = []
        self.slow_queue: list[tuple[float, int]] = []
        self._sums: list[float] | None = None

    def insert(self, line: float, serial: int) -> None:
        place = bisect_right(self.lines, line)
        self.lines.insert(place, line)
        self.serials.insert(place, serial)
        self.first += line <= self.level * FULL
        self._sums = None

    def discard(self, line: float, serial: int) -> None:
        place = self.serials.index(serial, bisect_left(self.lines, line))
        del self.lines[place], self.serials[place]
        self.first -= place < self.first
        self._sums = None

    def below(self, level: float) -> tuple[float, int]:
        """What the messages need together whose lines are at most ``level``, and how many others there are."""
        lines = self.lines
        n = len(lines)
        if lines[0] > level:
            return 0.0, n
        if lines[0] == lines[-1]:
            return n * lines[0], 0
        if self._sums is None:
            self._sums = list(accumulate(lines, initial=0.0))
        count = bisect_right(lines, level)
        return self._sums[count], n - count

    def at(self, level: float) -> float:
        """What all of them have at this level."""
        needed, others = self.below(level)
        return needed + others * level if others else needed


class FairNetwork:
    """Links and the messages on them; what its methods do, :class:`simfl.network.fair_link.FairLink` says.

    Args:
        bytes_per_s: of each link.
        crossings: for each group of messages the links that they cross, by their places in ``bytes_per_s``.
    """

    def __init__(self, bytes_per_s: Sequence[float], crossings: Sequence[tuple[int, ...]]) -> None:
        self.bytes_per_s = list(bytes_per_s)
        self.now_s = 0.0
        self.entries: dict[int, _Entry] = {}
        self.groups = [_Group(links) for links in crossings]
        self._on_link = [[group for group in self.groups if link in group.links] for link in range(len(bytes_per_s))]
        self._new: list[_Entry] = []
        self._is_filled = True
        self._next_s = inf

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
        entry = _Entry(message, serial, alone_s, bytes_per_s, group)
        self.entries[serial] = entry
        group.insert(bytes_per_s, serial)
        heappush(group.free_queue, (alone_s, serial))
        self._new.append(entry)
        self._is_filled = False

    def remove(self, now_s: float, serial: int) -> float:
        self._advance(now_s)
        entry = self._drop(serial)
        if entry.is_held:
            return max(0.0, now_s + (entry.place - entry.group.sent) / entry.line - entry.alone_s)
        return max(0.0, entry.place - entry.alone_s)

    def end(self) -> list[Ended]:
        now_s = self.next_s
        ending = [group for group in self.groups if group.slow_queue and self._held_ends_s(group) <= now_s]
        self._advance(now_s)
        serials = set[int]()
        for group in self.groups:
            self._take(group.free_queue, now_s, False, serials)
        for group in ending:
            group.sent = group.slow_queue[0][0]
            self._take(group.slow_queue, group.sent, True, serials)
        ended = [self._drop(serial) for serial in sorted(serials)]
        return [Ended(entry.message, max(0.0, now_s - entry.alone_s)) for entry in ended]

    def _take(self, queue: list[tuple[float, int]], most: float, is_held: bool, serials: set[int]) -> None:
        """Takes what ends up to a place off a queue; old entries, too."""
        while queue and queue[0][0] <= most:
            place, serial = heappop(queue)
            if self._is_current(place, serial, is_held):
                serials.add(serial)

    def _is_current(self, place: float, serial: int, is_held: bool) -> bool:
        entry = self.entries.get(serial)
        return entry is not None and entry.is_held is is_held and entry.place == place

    def _drop(self, serial: int) -> _Entry:
        entry = self.entries.pop(serial)
        entry.group.discard(entry.line, serial)
        self._is_filled = False
        return entry

    def _advance(self, now_s: float) -> None:
        if now_s > self.now_s:
            if not self._is_filled:
                self._fill()
            for group in self.groups:
                if group.first < len(group.lines):
                    group.sent += (now_s - self.now_s) * group.level
            self.now_s = now_s

    def _held_ends_s(self, group: _Group) -> float:
        return self.now_s + max(0.0, group.slow_queue[0][0] - group.sent) / group.level

    # -- the levels ------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """What each message has from now on."""
        self._find_levels()
        new, self._new = self._new, []
        for entry in new:
            self._put(entry)
        self._next_s = inf
        for group in self.groups:
            old, group.first = group.first, bisect_right(group.lines, group.level * FULL)
            if old != group.first:
                for serial in group.serials[min(old, group.first) : max(old, group.first)]:
                    self._put(self.entries[serial])
            self._find_next_end(group)
        self._is_filled = True

    def _put(self, entry: _Entry) -> None:
        """Holds a message up, or lets it go on at the rate of its line."""
        group = entry.group
        is_held = entry.line > group.level * FULL
        if is_held is entry.is_held or self.entries.get(entry.serial) is not entry:
            return
        entry.is_held = is_held
        if is_held:
            entry.place = group.sent + (entry.place - self.now_s) * entry.line
            heappush(group.slow_queue, (entry.place, entry.serial))
        else:
            entry.place = self.now_s + max(0.0, entry.place - group.sent) / entry.line
            heappush(group.free_queue, (entry.place, entry.serial))

    def _find_next_end(self, group: _Group) -> None:
        """Notes when the next message of a group ends; takes old entries off the heads of the queues."""
        for queue, is_held in ((group.free_queue, False), (group.slow_queue, True)):
            while queue and not self._is_current(*queue[0], is_held):
                heappop(queue)
        if group.free_queue:
            self._next_s = min(self._next_s, max(self.now_s, group.free_queue[0][0]))
        if group.slow_queue:
            self._next_s = min(self._next_s, self._held_ends_s(group))
        else:
            group.sent = 0.0

    def _find_levels(self) -> None:
        left_bytes_per_s = list(self.bytes_per_s)
        open_links = [[group for group in groups if group.lines] for groups in self._on_link]
        for group in self.groups:
            group.level = inf
        levels: dict[int, float] = {}
        least = 0.0
        while True:
            for link, groups in enumerate(open_links):
                if groups and link not in levels:
                    levels[link] = self._level(link, groups, left_bytes_per_s[link])
            fullest = min(levels, key=lambda link: (levels[link], link), default=None)
            if fullest is None or levels[fullest] == inf:
                return
            least = max(least, levels.pop(fullest))
            for group in open_links[fullest]:
                group.level, used_bytes_per_s = least, group.at(least)
                for link in group.links:
                    if link != fullest:
                        left_bytes_per_s[link] -= used_bytes_per_s
                        open_links[link] = [each for each in open_links[link] if each is not group]
                        levels.pop(link, None)
            open_links[fullest] = []

    def _level(self, link: int, groups: list[_Group], left_bytes_per_s: float) -> float:
        """At which a link is full; infinite if it never is.

        What messages need grows with the level along a concave, piecewise linear curve; Newton's method from the left
        meets it after a few pieces.
        """
        if sum(group.at(inf) for group in groups) - left_bytes_per_s <= self.bytes_per_s[link] * (FULL - 1):
            return inf
        level, before = 0.0, -1
        while True:
            needed, others = 0.0, 0
            for group in groups:
                below, above = group.below(level)
                needed, others = needed + below, others + above
            if not others or others == before:
                return level
            level, before = max(level, (left_bytes_per_s - needed) / others), others

    # -- checkpoints -----------------------------------------------------------------------------------

    def state(self) -> Floats:
        """All but the messages themselves, (1 + groups + messages, 6)."""
        number = {id(group): place for place, group in enumerate(self.groups)}
        rows = [
            (entry.serial, entry.alone_s, entry.line, number[id(entry.group)], entry.is_held, entry.place)
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
            entry = _Entry(messages[serial], serial, alone_s, line, group)
            entry.is_held, entry.place = is_held > 0, place
            self.entries[serial] = entry
            group.insert(line, serial)
            heappush(group.slow_queue if entry.is_held else group.free_queue, (place, serial))
            self._new.append(entry)
        for group in self.groups:
            group.first = len(group.lines)
        self._is_filled = False
        if rows[0][1]:
            self._fill()
