"""Guarded selection: any policy, as long as a multi-round guarantee holds for all rows together."""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.columns import REFUSED
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Units, View
from simfl.selection.asking import Around, ask
from simfl.selection.base import POLICIES, Guarantee, Mode, Policy, Shuffle, nobody, resolve_mode
from simfl.selection.guard.row_guard import Guard, GuardMemory, Notion
from simfl.selection.guard.span import LARGEST
from simfl.selection.units.sizes import Problem, order_problems, unit_problems

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


def _same(one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))
