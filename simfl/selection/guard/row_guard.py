"""Whether a further row keeps a notion of multi-round privacy, whatever reserved rows are played besides."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import PluginError
from simfl.selection.guard.certificates import Certificates
from simfl.selection.guard.light_vectors import keeps_weak
from simfl.selection.guard.span import Span

Notion = Literal["semi_strong", "weak"]


@dataclass(frozen=True)
class Guard:
    """The span of reserved units and of the rows so far, which keeps a notion with T.

    Attributes:
        T: the guarantee.
        notion: of the guarantee.
        span: of the units and rows.
        certificates: of its clients; for the semi-strong notion.
        most_rank: the largest rank that the span may come to; None = any.
    """

    T: int
    notion: Notion
    span: Span
    certificates: Certificates | None = None
    most_rank: int | None = None

    @classmethod
    def of(cls, units: NDArray[np.int32], clients: int, T: int, notion: Notion, most_rank: int | None) -> Self:
        """Around reserved units, (units, size), of so many clients.

        Raises:
            ValueError: not even they keep the notion.
        """
        span, rows = Span.empty(clients, T), list[NDArray[np.bool_]]()
        for unit in units:
            row = _row(unit, clients)
            wider = span.with_row(row)
            if wider is not None and wider is not span:
                span, rows = wider, [*rows, row]
        if notion == "semi_strong":
            return cls(T, notion, span, Certificates.of(np.array(rows), T), most_rank)
        if not keeps_weak(span, T):
            raise ValueError(f"these units do not keep the weak notion with T = {T}")
        return cls(T, notion, span, None, most_rank)

    def with_row(self, clients: NDArray[np.integer]) -> Self | None:
        """With the row of some clients, distinct; itself if the row tells nothing new, None if it is refused."""
        if not len(clients):
            return self
        row = _row(clients, self.span.forms[0].rows.shape[1])
        span = self.span.with_row(row)
        if span is None or span is self.span:
            return None if span is None else self
        if self.most_rank is not None and span.rank > self.most_rank:
            return None
        if self.certificates is None:
            return replace(self, span=span) if keeps_weak(span, self.T) else None
        certificates = self.certificates.with_row(row)
        return None if certificates is None else replace(self, span=span, certificates=certificates)


def _row(clients: NDArray[np.integer], n: int) -> NDArray[np.bool_]:
    row = np.zeros(n, dtype=bool)
    row[clients] = True
    return row


class GuardMemory:
    """The guard after the rows so far, and with each row asked about since: all of it can be computed again.

    Args:
        start: makes the guard before the first row.
    """

    def __init__(self, start: Callable[[], Guard]) -> None:
        self._start = start
        self._rows: list[NDArray[np.integer]] = []
        self._guard: Guard | None = None
        self._guards_with: dict[bytes, Guard | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return GuardMemory, (self._start,)

    def admits(self, history: Sequence[NDArray[np.integer]], clients: NDArray[np.integer]) -> bool:
        """Whether the row of some clients may follow the rows so far.

        Raises:
            PluginError: one of those was not admitted.
        """
        self._replay(history)
        return self._answer(clients) is not None

    def _answer(self, clients: NDArray[np.integer]) -> Guard | None:
        row = np.sort(clients).astype(np.int64)
        if (key := row.tobytes()) not in self._guards_with:
            assert self._guard is not None
            self._guards_with[key] = self._guard.with_row(row)
        return self._guards_with[key]

    def _replay(self, history: Sequence[NDArray[np.integer]]) -> None:
        """Takes in the rows that are new; begins anew where the history is another."""
        done = len(self._rows)
        if self._guard is None or done > len(history) or not all(map(np.array_equal, self._rows, history)):
            self._rows, self._guard, self._guards_with, done = [], self._start(), {}, 0
        for row in history[done:]:
            if (guard := self._answer(row)) is None:
                raise PluginError("selection 'guarded'", f"row {len(self._rows)} was summed, but never admitted")
            if guard is not self._guard:
                self._guard, self._guards_with = guard, {}
            self._rows.append(row)
