"""Whether a further row keeps a notion of multi-round privacy, whatever reserved rows are simulated besides."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from simfl.core.errors import PluginError
from simfl.core.types import Bools, Floats
from simfl.selection.guard.certificates import NO_UNITS, Certificates
from simfl.selection.guard.span import Span, keeps_weak

Notion = Literal["semi_strong", "weak"]

ALIKE = 1e-6
"""Relative difference of two guarantees that solvers may leave between equal ones."""


@dataclass(frozen=True)
class Guard:
    """The span of reserved units and of the rows so far, which keeps a notion with T.

    Attributes:
        T: the guarantee.
        notion: of the guarantee.
        span: of the units and rows.
        certificates: of its clients; for the semi-strong notion.
        most_rank: the largest rank that the span may come to; None = any.
        exposed: clients whom the weak notion no longer speaks of, bool (clients,); None = there are none.
        reserved: clients of reserved units, bool (clients,); None = all.
    """

    T: int
    notion: Notion
    span: Span
    certificates: Certificates | None = None
    most_rank: int | None = None
    exposed: Bools | None = None
    reserved: Bools | None = None

    @classmethod
    def of(cls, units: NDArray[np.int32], clients: int, T: int, notion: Notion, most_rank: int | None) -> Self:
        """Around reserved units, (units, size), of so many clients.

        Raises:
            ValueError: not even they keep the notion.
        """
        span, rows = _independent([_row(unit, clients) for unit in units], clients, T)
        if notion == "semi_strong":
            return cls(T, notion, span, Certificates.of(rows, T, _disjoint(units, T)), most_rank)
        if not keeps_weak(span, T):
            raise ValueError(f"these units do not keep the weak notion with T = {T}")
        return cls(T, notion, span, None, most_rank)

    @classmethod
    def after(cls, past: Bools, units: NDArray[np.int32], T: int, notion: Notion, most_rank: int | None) -> Self:
        """Around sums that nobody has guarded, (sums, clients), and reserved units, (units, size), that take no more.

        What the sums have left of T is kept: semi-strong, of each client; weak, of all together who are not exposed. A
        unit is not reserved where its sum, with those before it, would take more than that.
        """
        n = past.shape[1]
        span, rows = _independent([*past], n, T)
        exposed = span.exposed if notion == "weak" else np.zeros(n, dtype=bool)
        if notion == "semi_strong":
            guard = cls(T, notion, span, Certificates.left(rows, T))
            more, wider = _independent([*rows, *(_row(unit, n) for unit in units)], n, T)
            with_all = Certificates.left(wider, T, _disjoint(units, T))
            if (with_all.T >= guard.client_guarantees * (1 - ALIKE)).all():
                return cls(T, notion, more, with_all, most_rank, reserved=np.isin(np.arange(n), units))
        else:
            span, _ = _independent([*(past & ~exposed)], n, T)
            guard = cls(next(t for t in range(T, 0, -1) if keeps_weak(span, t)), notion, span, exposed=exposed)
        admitted = list[NDArray[np.int32]]()
        for unit in units:
            if (wider_guard := guard.with_row(unit)) is not None:
                guard, admitted = wider_guard, [*admitted, unit]
        some = np.array(admitted, dtype=np.int32).reshape(-1, units.shape[1])
        certificates = guard.certificates and replace(guard.certificates, units=_disjoint(some, T))
        return replace(guard, certificates=certificates, most_rank=most_rank, reserved=np.isin(np.arange(n), some))

    @property
    def client_guarantees(self) -> Floats:
        """What is guaranteed to each client, (clients,)."""
        if self.certificates is None:
            n = self.span.forms[0].rows.shape[1]
            return np.where(np.zeros(n, bool) if self.exposed is None else self.exposed, 1.0, float(self.T))
        return self.certificates.T

    def with_row(self, clients: NDArray[np.integer]) -> Self | None:
        """With the row of some clients, distinct; itself if the row tells nothing new, None if it is refused."""
        if not len(clients):
            return self
        row = _row(clients, self.span.forms[0].rows.shape[1])
        if self.exposed is not None:
            row &= ~self.exposed
        span = self.span.with_row(row)
        if span is None or span is self.span:
            return None if span is None else self
        if self.most_rank is not None and span.rank > self.most_rank:
            return None
        if self.certificates is None:
            return replace(self, span=span) if keeps_weak(span, self.T) else None
        certificates = self.certificates.with_row(row)
        return None if certificates is None else replace(self, span=span, certificates=certificates)


def _row(clients: NDArray[np.integer], n: int) -> Bools:
    row = np.zeros(n, dtype=bool)
    row[clients] = True
    return row


def _independent(rows: Sequence[Bools], clients: int, seed: int) -> tuple[Span, Bools]:
    """The span of some rows, and those of them that make it wider, (rank, clients)."""
    span, independent = Span.empty(clients, seed), list[Bools]()
    for row in rows:
        wider = span.with_row(row)
        if wider is not None and wider is not span:
            span, independent = wider, [*independent, row]
    return span, np.array(independent, dtype=bool).reshape(-1, clients)


def _disjoint(units: NDArray[np.int32], T: int) -> NDArray[np.int32]:
    """Units of T clients that have none in common; else none."""
    return units if units.shape[1] == T and len(np.unique(units)) == units.size else NO_UNITS


class GuardMemory:
    """The guard after the rows so far, and with each row asked about since: all of it can be computed again.

    Args:
        start: makes the guard before the first row.
    """

    def __init__(self, start: Callable[[], Guard]) -> None:
        self._start = start
        self._rows: list[NDArray[np.integer]] = []
        self._first: Guard | None = None
        self._guard: Guard | None = None
        self._guards_with: dict[bytes, Guard | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return GuardMemory, (self._start,)

    @property
    def first(self) -> Guard:
        """The guard before the first row."""
        if self._first is None:
            self._first = self._start()
        return self._first

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
        if self._guard is None or done > len(history) or not all(map(_same, self._rows, history)):
            self._rows, self._guard, self._guards_with, done = [], self.first, {}, 0
        for row in history[done:]:
            if (guard := self._answer(row)) is None:
                raise PluginError("selection 'guarded'", f"row {len(self._rows)} was summed, but never admitted")
            if guard is not self._guard:
                self._guard, self._guards_with = guard, {}
            self._rows.append(row)


def _same(row: NDArray[np.integer], other: NDArray[np.integer]) -> bool:
    return row is other or np.array_equal(row, other)
