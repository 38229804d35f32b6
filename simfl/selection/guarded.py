"""Guarded selection: any policy, as long as a multi-round guarantee holds for all rows together, whatever reserved rows
are simulated besides.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.columns import REFUSED
from simfl.core.errors import PluginError
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Bools, Floats, Units, View
from simfl.selection.asking import Around, ask
from simfl.selection.base import POLICIES, Guarantee, Mode, Policy, Shuffle, nobody, resolve_mode
from simfl.selection.guard.certificates import NO_UNITS, Certificates
from simfl.selection.guard.span import LARGEST, Span, keeps_weak
from simfl.selection.units.sizes import Problem, order_problems, unit_problems

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


MOST_CLIENTS = 2000
"""For which rows are checked: certificates take the square of it in memory."""


@POLICIES("guarded")
@dataclass(frozen=True)
class GuardedSelection(Around):
    """A reserved family's row where one is available; else a set that another policy proposes, if it is admitted.

    A row is admitted if the span of all rows so far, of it and of the whole reserved family keeps the notion with T. It
    is asked again once it is known who has arrived: a row that is refused then is not recovered, and the round is
    skipped. So the guarantee holds for any number of rounds, whoever is available and whoever fails. What ``inner``
    reads or asks for is read or asked for in every round. After sums that nobody has guarded (``view.before``) each
    client keeps what they have left of T to it; a reserved row that would take more is no longer selected.
    """

    inner: Annotated[Any, POLICIES, Field(description="proposes sets where no reserved row is available; has k")]
    T: Annotated[int, Field(ge=2, description="the privacy guarantee, clients in a reserved unit; divides k, clients")]
    notion: Annotated[Notion, Field(description="of the guarantee; weak: T up to 4")] = "semi_strong"
    reserve: Annotated[
        Literal["batch", "half"], Field(description="the family whose rows are always admitted: batches of T, or pairs "
                                                    "of half-batches")
    ] = "batch"  # fmt: skip
    rank: Annotated[
        int | None, Field(ge=1, description="largest rank of all rows and the reserved family; null = any")
    ] = None
    tries: Annotated[int, Field(ge=1, le=1000, description="sets that inner proposes in a round at most")] = 3
    mode: Annotated[Mode, Field(description="which of the available reserved rows")] = "auto"
    shuffle: Annotated[Shuffle, Field(description="assign clients to reserved units by the seed, or in this order")] = (
        False
    )

    example = {"inner": {"name": "random", "k": 4}, "T": 2}
    reads_history = True
    columns = (REFUSED,)

    @property
    def unit_size(self) -> int:
        return self.T

    @property
    def unit_sizes(self) -> frozenset[int]:
        return frozenset({self.T, self.inner.unit_size})

    @cached_property
    def reserved(self) -> Policy:
        """The policy whose rows are reserved."""
        return POLICIES[f"{self.reserve}_partition"](k=self.k, T=self.T, mode=self.mode)  # type: ignore[call-arg]

    def check(self, setting: ScenarioView) -> list[Problem]:
        halves, n = self.reserve == "half", setting.clients
        problems = [(key.replace("k", "inner.k"), text) for key, text in unit_problems(self.k, self.T, n, halves)]
        least = n * (1 + halves) // self.T - halves if not problems else 0
        if self.rank is not None and self.rank < least:
            why = f"is {self.rank}, but the reserved family alone has rank {least}; the nearest valid value is {least}"
            problems.append(("rank", why))
        if self.notion == "weak" and self.T > LARGEST:
            why = f"is {self.T}, and the weak notion is checked up to {LARGEST}"
            problems.append(("T", f"{why}; use notion: semi_strong, which implies it"))
        if n > MOST_CLIENTS:
            problems.append(("name", f"is guarded, which works for up to {MOST_CLIENTS:,} clients, not {n:,}"))
        problems += order_problems(self.shuffle, n)
        if self.inner.shuffle:
            problems.append(("inner.shuffle", "is true, but units are assigned for both; use shuffle beside inner"))
        if self.inner.reads_history:
            problems.append(("inner", f"is {self.inner.name}, which looks at the rows itself; give the policy in it"))
        rule = setting.training
        if rule.server != "synchronous":
            why = "each client knows its own part of the sums" if rule.many_aggregators else (
                "its rows are known when the buffer is full, with weights by staleness")  # fmt: skip
            problems.append(("name", f"is guarded, but not under training: {rule.name}: {why}; use training: fedavg"))
        if self.notion == "semi_strong" and rule.by_samples and setting.privacy.rows == "weights":
            why = "is semi_strong, but with privacy.rows: weights even the reserved units weigh less than T"
            problems.append(("notion", f"{why}; use privacy.rows: units, or notion: weak"))
        return problems

    def resolve(self, setting: ScenarioView) -> Self:
        return resolve_mode(self, setting)

    def guarantee(self, clients: int) -> Guarantee:
        return Guarantee(semi_strong=self.T if self.notion == "semi_strong" else None, weak=self.T)

    @cached_property
    def _memories(self) -> dict[int, tuple[NDArray[np.bool_] | None, GuardMemory]]:
        return {}

    def select(self, view: View, k: int, rng: np.random.Generator) -> Units:
        """A reserved row, or an admitted set of the inner policy in units of its own, or no row."""
        reserved = None if view.before is None else self._memory(view).first.reserved
        there = view if reserved is None else replace(view, available=view.available & reserved[: len(view.available)])
        units = self.reserved.select(there, k, rng)
        if units.size and (view.before is None or self.admits(view, units.ravel())):
            return units
        for key in rng.integers(0, 2**64, (self.tries, 2), dtype=np.uint64):
            units = ask(self.inner, view, k, np.random.Generator(np.random.Philox(key=key)))
            if units.size and self.admits(view, units.ravel()):
                return units
        return nobody(self.T)

    def admits(self, view: View, clients: NDArray[np.int32]) -> bool:
        return self._memory(view).admits(view.history or (), clients)

    def client_guarantees(self, view: View) -> NDArray[np.float64]:
        """What sums before the first round have left of T to each client."""
        return self._memory(view).first.client_guarantees

    def _memory(self, view: View) -> GuardMemory:
        """One for each number of clients, as long as the sums before the first round are the same."""
        n = len(view.available)
        before, memory = self._memories.get(n, (None, None))
        if memory is None or not _same(before, view.before):
            family = self.reserved.family(n)
            assert family is not None
            rules = self.T, self.notion, self.rank
            start = (partial(Guard.of, family.units(), n, *rules) if view.before is None
                     else partial(Guard.after, view.before, family.units(), *rules))  # fmt: skip
            memory = GuardMemory(start)
            self._memories[n] = view.before, memory
        return memory


def _same(one: NDArray[np.generic] | None, other: NDArray[np.generic] | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))
