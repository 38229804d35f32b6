"""A shared link on which messages come and go one by one; what "fair" is, :mod:`simfl.network.fair_sharing` says.

A message has a serial number of its own; messages that end at one moment do so by these. All that a link is goes into
``state``, an array, and comes back from it to the last bit, so that a run can be killed and resumed at any step.
"""

from heapq import heappop, heappush
from math import inf
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FULL = 1 + 1e-12
"""Shares whose sum is at most this fit on a link: ten times a tenth is all of it."""


class Ended(NamedTuple):
    """A message that has left the link.

    Attributes:
        message: what was given to ``add``.
        wait_s: by how much later than it would have alone, seconds; exactly 0 if it was never held up.
    """

    message: Any
    wait_s: float


class FairLink(Protocol):
    """A link and the messages on it.

    Attributes:
        now_s: until when it has been followed, simulated seconds.
        next_s: when the next message ends, if none comes or goes before; infinite if there is none.
    """

    now_s: float
    next_s: float

    def add(self, now_s: float, message: Any, serial: int, alone_s: float, share: float) -> None:
        """A message begins.

        Args:
            now_s: when; not before ``now_s`` of the link and not after its ``next_s``.
            message: comes back when it ends.
            serial: its number.
            alone_s: when it would end if nothing held it up.
            share: of the link that it can take at most, in (0, 1].
        """

    def remove(self, now_s: float, serial: int) -> float:
        """A message is given up; by how many seconds, at least, it would have ended later than alone."""

    def end(self) -> list[Ended]:
        """Follows the link until ``next_s``; the messages that end then."""

    def state(self) -> Floats:
        """All but the messages themselves, (1 + messages, 5)."""

    def restore(self, state: Floats, messages: dict[int, Any]) -> None:
        """Goes back to a :meth:`state`; ``messages`` by their serial numbers."""


class _Entry:
    """A message on an :class:`EqualLink`; ``target`` is what the link will have sent of each when it ends."""

    __slots__ = ("message", "alone_s", "target")

    def __init__(self, message: Any, alone_s: float, target: float | None = None) -> None:
        self.message, self.alone_s, self.target = message, alone_s, target


class EqualLink:
    """A :class:`FairLink` whose messages all have one share: a step costs O(log n).

    Messages that were never held up stand in ``fresh`` with the times at which they end. Once the link is overfull all
    of them move to ``sharing``, where they stand with what the link will have ``sent`` of each message when they end,
    in seconds of the whole link. A message moves once.

    Args:
        share: of every message.
    """

    def __init__(self, share: float) -> None:
        self.share, self.now_s, self.next_s, self.sent, self.rate = share, 0.0, inf, 0.0, share
        self.entries: dict[int, _Entry] = {}
        self.fresh: list[tuple[float, int]] = []
        self.sharing: list[tuple[float, int]] = []

    def add(self, now_s: float, message: Any, serial: int, alone_s: float, share: float) -> None:
        self._advance(now_s)
        self.entries[serial] = _Entry(message, alone_s)
        heappush(self.fresh, (alone_s, serial))
        self._fill()

    def remove(self, now_s: float, serial: int) -> float:
        self._advance(now_s)
        entry = self.entries.pop(serial)
        wait_s = 0.0
        if entry.target is not None:
            wait_s = max(0.0, now_s + (entry.target - self.sent) / self.share - entry.alone_s)
        self._fill()
        return wait_s

    def end(self) -> list[Ended]:
        now_s, ended = self.next_s, []
        sharing_ends = bool(self.sharing) and self._sharing_ends_s() <= now_s
        self._advance(now_s)
        while self.fresh and self.fresh[0][0] <= now_s:
            ended.append((heappop(self.fresh)[1], 0.0))
        if sharing_ends:
            self.sent = self.sharing[0][0]
            while self.sharing and self.sharing[0][0] <= self.sent:
                serial = heappop(self.sharing)[1]
                if serial in self.entries:
                    ended.append((serial, max(0.0, now_s - self.entries[serial].alone_s)))
        if len(ended) > 1:
            ended.sort()
        endings = [
            Ended(self.entries.pop(serial).message, wait_s) for serial, wait_s in ended if serial in self.entries
        ]
        self._fill()
        return endings

    def _advance(self, now_s: float) -> None:
        if self.sharing:
            self.sent += (now_s - self.now_s) * self.rate
        self.now_s = now_s

    def _sharing_ends_s(self) -> float:
        return max(self.now_s, self.now_s + (self.sharing[0][0] - self.sent) / self.rate)

    def _fill(self) -> None:
        """What each message has from now on."""
        entries, fresh, sharing = self.entries, self.fresh, self.sharing
        fits = len(entries) * self.share <= FULL
        self.rate = self.share if fits else 1 / len(entries)
        if fresh and not fits:
            for alone_s, serial in fresh:
                if (entry := entries.get(serial)) is not None:
                    entry.target = self.sent + (alone_s - self.now_s) * self.share
                    heappush(sharing, (entry.target, serial))
            fresh.clear()
        while fresh and fresh[0][1] not in entries:
            heappop(fresh)
        while sharing and sharing[0][1] not in entries:
            heappop(sharing)
        self.next_s = fresh[0][0] if fresh else inf
        if sharing:
            self.next_s = min(self.next_s, self._sharing_ends_s())
        else:
            self.sent = 0.0

    def state(self) -> Floats:
        rows = [
            (serial, each.alone_s, self.share, each.target is not None, each.target or 0.0)
            for serial, each in self.entries.items()
        ]
        return np.array([(self.now_s, self.sent, 0.0, 0.0, 0.0), *sorted(rows)])

    def restore(self, state: Floats, messages: dict[int, Any]) -> None:
        (self.now_s, self.sent, *_), *rows = state.tolist()
        for number, alone_s, _, is_slowed, target in rows:
            serial = int(number)
            self.entries[serial] = _Entry(messages[serial], alone_s, target if is_slowed else None)
            heappush(self.sharing if is_slowed else self.fresh, (target if is_slowed else alone_s, serial))
        self._fill()


ALONE, SHARE, HELD, PLACE = range(4)
"""Rows of an :class:`UnequalLink`: when a message would end alone; its share; 1 where it gets less; and then what is
left of it, in seconds of the whole link, else when it ends."""


class UnequalLink:
    """A :class:`FairLink` of any messages: a step is a few operations on arrays of those on the way, by share."""

    def __init__(self) -> None:
        self.now_s, self.next_s, self.level = 0.0, inf, inf
        self.rows = np.empty((4, 0))
        self.serials: list[int] = []
        self.messages: list[Any] = []

    def add(self, now_s: float, message: Any, serial: int, alone_s: float, share: float) -> None:
        self._advance(now_s)
        place = int(self.rows[SHARE].searchsorted(share, side="right"))
        self.serials.insert(place, serial)
        self.messages.insert(place, message)
        grown = np.empty((4, len(self.messages)))
        grown[:, :place], grown[:, place + 1 :] = self.rows[:, :place], self.rows[:, place:]
        grown[:, place] = alone_s, share, 0.0, alone_s
        self.rows = grown
        self._fill()

    def remove(self, now_s: float, serial: int) -> float:
        self._advance(now_s)
        place = self.serials.index(serial)
        alone_s, share, is_slowed, left = self.rows[:, place].tolist()
        self._drop([place])
        self._fill()
        return max(0.0, now_s + left / share - alone_s) if is_slowed else max(0.0, left - alone_s)

    def end(self) -> list[Ended]:
        now_s, rows = self.next_s, self.rows
        places = np.flatnonzero(self._ends_s() <= now_s).tolist()
        self._advance(now_s)
        waits_s = np.maximum(0.0, now_s - rows[ALONE, places]).tolist()
        by_serial = sorted((self.serials[place], i) for i, place in enumerate(places))
        endings = [Ended(self.messages[places[i]], waits_s[i]) for _, i in by_serial]
        self._drop(places)
        self._fill()
        return endings

    def _drop(self, places: list[int]) -> None:
        self.rows = np.delete(self.rows, places, axis=1)
        for place in reversed(places):
            del self.serials[place], self.messages[place]

    def _advance(self, now_s: float) -> None:
        if self.level < inf:
            slowed, place = self.rows[HELD], self.rows[PLACE]
            place -= slowed * ((now_s - self.now_s) * self.level)
        self.now_s = now_s

    def _ends_s(self) -> Floats:
        """When each ends if nothing changes."""
        _, _, slowed, place = self.rows
        if self.level == inf:
            return place
        return np.where(slowed > 0, self.now_s + np.maximum(0.0, place) / self.level, place)

    def _fill(self) -> None:
        """The level up to which the link is filled: those with a larger share get this, the others theirs."""
        _, share, slowed, place = self.rows
        n = len(share)
        before = np.cumsum(share)
        slow = np.zeros(n)
        self.level = inf
        if n and before[-1] > FULL:
            before -= share
            first = int(np.argmax(share * np.arange(n, 0, -1) + before > FULL))
            self.level = float((1 - before[first]) / (n - first))
            slow[first:] = 1
        if not np.array_equal(slow, slowed):
            began, ended = slow > slowed, slow < slowed
            place[began] = (place[began] - self.now_s) * share[began]
            place[ended] = self.now_s + np.maximum(0.0, place[ended]) / share[ended]
            slowed[:] = slow
        self.next_s = max(self.now_s, float(self._ends_s().min())) if n else inf

    def state(self) -> Floats:
        serials = np.array(self.serials, dtype=np.float64).reshape(-1, 1)
        return np.vstack([[self.now_s, 0.0, 0.0, 0.0, 0.0], np.hstack([serials, self.rows.T])])

    def restore(self, state: Floats, messages: dict[int, Any]) -> None:
        self.now_s = float(state[0, 0])
        self.serials = [int(serial) for serial in state[1:, 0].tolist()]
        self.messages = [messages[serial] for serial in self.serials]
        self.rows = np.array(state[1:, 1:].T, order="C")
        self._fill()
