"""Several shared links in one direction, and which of them each message crosses.

Which links a message crosses is a *code*, a whole number with the bit ``1 << i`` for link ``i``. What does not matter
for fair sharing is left out first. A link whose messages all cross another one that is no wider, or one of several that
together are no wider, is never full before those. Links that no message crosses together have nothing to do with each
other. What is left are parts: single links, which :mod:`simfl.network.fair_sharing` fills as it does that of a server,
and several at once (:mod:`simfl.network.fair_network`).
"""

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfl.core.types import Bools, Floats, Integers
from simfl.network.fair_link import FULL
from simfl.network.fair_network import FairNetwork
from simfl.network.fair_sharing import waits_s

Codes = Integers

MOST_LINKS = 30
"""Named links of a network: a code has a bit for each of them in both directions."""


class LinkPart(NamedTuple):
    """Links that belong together.

    Attributes:
        links: their numbers.
        bytes_per_s: of each.
        groups: the codes that messages can have on these links, ascending, (groups,).
        group: for each message the place of its code in ``groups``; -1 where it crosses none of the links, (n,).
    """

    links: tuple[int, ...]
    bytes_per_s: tuple[float, ...]
    groups: Codes
    group: Integers

    @property
    def members(self) -> Integers:
        """The messages that cross any of the links."""
        return np.flatnonzero(self.group >= 0)

    def network(self) -> FairNetwork:
        """The links, with no messages yet."""
        crossings = [tuple(i for i, link in enumerate(self.links) if code >> link & 1) for code in self.groups.tolist()]
        return FairNetwork(self.bytes_per_s, crossings)


def parts_of(codes: Codes, bytes_per_s: Floats, together: bool = False) -> list[LinkPart]:
    """The parts of a network, by their first links.

    Args:
        codes: of the messages, (n,).
        bytes_per_s: of the links, (links,).
        together: leave out links, too, that are no narrower than several others together of which each of their
            messages crosses one. What is left has the same rates but for rounding.

    All messages cross link 0, some of them the narrower link 1, others link 2, which is wide; then that is left out:

    >>> [part.links for part in parts_of(np.array([1 | 2, 1 | 4, 1]), np.array([8.0, 4.0, 8.0]))]
    [(0, 1)]
    >>> [part.links for part in parts_of(np.array([2, 4, 2]), np.array([8.0, 4.0, 8.0]))]
    [(1,), (2,)]

    Link 0 is as wide as the two together of which each message crosses one:

    >>> [part.links for part in parts_of(np.array([1 | 2, 1 | 4]), np.array([8.0, 4.0, 4.0]), together=True)]
    [(1,), (2,)]
    """
    kinds, kind = np.unique(codes, return_inverse=True)
    on_link = (kinds >> np.arange(len(bytes_per_s))[:, None] & 1).astype(bool)
    open_ = {link for link in range(len(bytes_per_s)) if on_link[link].any()}
    for link in sorted(open_):
        if _never_fills_first(on_link, bytes_per_s, link, open_ - {link}, together):
            open_.discard(link)
    parts = []
    while open_:
        links, crossed = {first := min(open_)}, on_link[first]
        while more := {link for link in open_ - links if (on_link[link] & crossed).any()}:
            links |= more
            crossed = crossed | on_link[sorted(more)].any(axis=0)
        open_ -= links
        codes_here = kinds & sum(1 << link for link in links)
        groups = np.unique(codes_here[codes_here > 0])
        group = np.where(codes_here > 0, np.searchsorted(groups, codes_here), -1)[kind]
        chosen = tuple(sorted(links))
        parts.append(LinkPart(chosen, tuple(bytes_per_s[list(chosen)].tolist()), groups, group))
    return parts


def _never_fills_first(on_link: Bools, bytes_per_s: Floats, link: int, others: set[int], together: bool) -> bool:
    """Whether whatever crosses a link also crosses another one that is no wider, or one of several that together are
    no wider; those are looked for by their bytes per second for each kind of messages that crosses none yet.
    """
    narrow = [other for other in others if bytes_per_s[other] <= bytes_per_s[link]]
    if any(not (on_link[link] & ~on_link[other]).any() for other in narrow):
        return True
    left_bytes_per_s, uncovered = bytes_per_s[link], on_link[link]
    while together and uncovered.any():
        covers = {other: int((on_link[other] & uncovered).sum()) for other in narrow}
        best = min(covers, key=lambda other: (bytes_per_s[other] / max(covers[other], 1e-9), other), default=None)
        if best is None or not covers[best] or bytes_per_s[best] > left_bytes_per_s:
            return False
        left_bytes_per_s -= bytes_per_s[best]
        uncovered = uncovered & ~on_link[best]
    return together


class NetworkFlows(NamedTuple):
    """Messages as a network of shared links sees them, one an entry.

    Attributes:
        alone_s: seconds on the links if nothing else is on them; 0 for those without bytes, or that cross no link.
        line_bytes_per_s: what each can take at most.
        codes: which links they cross.
        bytes_per_s: of the links, (links,).
    """

    alone_s: Floats
    line_bytes_per_s: Floats
    codes: Codes
    bytes_per_s: Floats

    def waits_s(self, begins_s: Floats) -> Floats:
        """By how many seconds messages end later than they would alone, (n,); exactly 0 for those never held up.

        Four messages of 8 bytes over a link of 8 bytes/s, of which one also crosses a link of 1 byte/s: the others have
        7/3 bytes/s each, and then there is room.

        >>> flows = NetworkFlows(np.array([1.0, 1.0, 1.0, 8.0]), np.array([8.0, 8.0, 8.0, 1.0]),
        ...                      np.array([1, 1, 1, 3]), np.array([8.0, 1.0]))
        >>> flows.waits_s(np.zeros(4)).round(6).tolist()
        [2.428571, 2.428571, 2.428571, 0.0]
        """
        waits = np.zeros(len(begins_s))
        some = np.flatnonzero((self.alone_s > 0) & (self.codes > 0))
        if not some.size or not self._may_wait(some, begins_s):
            return waits
        for part in parts_of(self.codes[some], self.bytes_per_s, together=True):
            of = some[part.members]
            if len(part.links) == 1:
                share = self.line_bytes_per_s[of] / part.bytes_per_s[0]
                waits[of] = waits_s(begins_s[of], self.alone_s[of], np.minimum(share, 1.0))
            else:
                waits[of] = _network_waits_s(
                    part, begins_s[of], self.alone_s[of], self.line_bytes_per_s[of], part.group[part.members]
                )
        return waits

    def _may_wait(self, some: Integers, begins_s: Floats) -> bool:
        """Whether messages that all had their full rate would at some moment need more than a link has."""
        ends_s = begins_s[some] + self.alone_s[some]
        order = np.argsort(np.concatenate([ends_s, begins_s[some]]), kind="stable")  # at one moment ends come first
        for link, capacity in enumerate(self.bytes_per_s.tolist()):
            rate = np.where(self.codes[some] >> link & 1, self.line_bytes_per_s[some], 0.0)
            if rate.sum() > capacity and np.cumsum(np.concatenate([-rate, rate])[order]).max() > capacity * FULL:
                return True
        return False


def _network_waits_s(
    part: LinkPart, begins_s: Floats, alone_s: Floats, line_bytes_per_s: Floats, group: Integers
) -> Floats:
    network, waits = part.network(), np.zeros(len(begins_s))
    order = np.argsort(begins_s, kind="stable").tolist()
    begins, ends, lines = begins_s.tolist(), (begins_s + alone_s).tolist(), line_bytes_per_s.tolist()
    groups, place = group.tolist(), 0
    while (next_s := network.next_s) < inf or place < len(order):
        begin_s = begins[order[place]] if place < len(order) else inf
        if begin_s < next_s:
            while place < len(order) and begins[number := order[place]] == begin_s:
                network.add(begin_s, number, number, ends[number], lines[number], groups[number])
                place += 1
        else:
            for number, wait_s in network.end():
                waits[number] = wait_s
    return waits


class LinkNetwork(NamedTuple):
    """The shared links between server and clients in one direction.

    Attributes:
        bytes_per_s: of each, (links,).
        codes: which of them each client's messages cross, (clients,).
        s_per_byte: of each client's messages alone, (clients,).
    """

    bytes_per_s: Floats
    codes: Codes
    s_per_byte: Floats

    def flows(self, clients: NDArray[np.integer], size_bytes: float | NDArray[np.generic]) -> NetworkFlows:
        """Messages of these clients; sizes in bytes, a number or (n,)."""
        return flows_over(self.codes[clients], self.s_per_byte[clients], size_bytes, self.bytes_per_s)


def flows_over(
    codes: Codes, s_per_byte: Floats, size_bytes: float | NDArray[np.generic], bytes_per_s: Floats
) -> NetworkFlows:
    """Messages by the links that they cross, the seconds a byte takes alone, and their sizes."""
    on_links = codes > 0
    lines = np.divide(1.0, s_per_byte, out=np.zeros(len(codes)), where=on_links)
    alone_s = np.multiply(size_bytes, s_per_byte, dtype=np.float64)
    return NetworkFlows(np.where(on_links, alone_s, 0.0), lines, codes, bytes_per_s)
