"""A check of a bar: cases that are numbered, and can be played again one by one."""

import resource
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

SIZES = ("smoke", "five-minutes", "nightly")
COMPLETE = frozenset(
    ("traces", "hostile", "hostile-tests", "canaries", "source", "offline", "listening", "every-dropout",
     "protocol-tests", "privacy-tests", "pairs", "lint", "stream-tests", "dask-workers", "sweep-tests", "golden",
     "installed",
     "published-tests")
)  # fmt: skip
"""Checks whose cases are a list that is gone through, and not drawn."""
SHOWN = 20
"""Wrong cases that are printed at most."""


class NotMeasured(Exception):
    """This machine lacks what a check needs; the message says what."""


class Outcome(NamedTuple):
    """What a case has come to.

    Attributes:
        wrong: what failed, in words; nothing where all is well.
        tally: what is counted besides, by its plural name; a check's own unit counts instead of the case itself.
    """

    wrong: tuple[str, ...] = ()
    tally: Mapping[str, int] = {}


def when(bad: object, message: str) -> list[str]:
    """The message, where something is bad."""
    return [message] if bad else []


class Plan(NamedTuple):
    """With what a check begins: a folder of its own, the seed, the size's name."""

    scratch: Path
    seed: int
    size: str


Case = Callable[[int], Outcome]


@dataclass(frozen=True)
class Check:
    """Cases of one kind.

    Args:
        bar: 1 to 12.
        name: for ``--only``.
        what: is done, and what must come out.
        unit: what is counted, in the plural.
        counts: how many of them in each of ``SIZES``.
        begin: makes the function that plays a case by its number; the number and the seed decide all that is drawn.
    """

    bar: int
    name: str
    what: str
    unit: str
    counts: tuple[int, int, int]
    begin: Callable[[Plan], Case]

    def played(self, plan: Plan, only: int | None = None) -> "Figure":
        """Plays as many cases as the size asks for, or just one."""
        found, begin_s = Figure(self, plan.seed), _processor_s()
        wanted = self.counts[SIZES.index(plan.size)]
        plan.scratch.mkdir(parents=True)
        try:
            if not wanted:
                raise NotMeasured(f"not in the size {plan.size}; {self.counts[-1]:,} in the nightly one")
            case, number = self.begin(plan), 0 if only is None else only
            while found.done < wanted:
                found.add(number, _safely(case, number))
                number += 1
                if only is not None:
                    break
        except NotMeasured as reason:
            found.reason = str(reason)
        found.processor_s = _processor_s() - begin_s
        return found


@dataclass
class Figure:
    """A line of the table."""

    check: Check
    seed: int
    done: int = 0
    wrong: dict[int, tuple[str, ...]] = field(default_factory=dict)
    tally: Counter[str] = field(default_factory=Counter)
    reason: str = ""
    processor_s: float = 0.0

    def add(self, number: int, outcome: Outcome) -> None:
        self.done += outcome.tally.get(self.check.unit, 1)
        self.tally.update({name: count for name, count in outcome.tally.items() if name != self.check.unit})
        if outcome.wrong:
            self.wrong[number] = outcome.wrong
            if len(self.wrong) <= SHOWN:
                again = f"python benchmarks/reliability.py --only {self.check.name} --case {number} --seed {self.seed}"
                print(f"FAILED, {self.check.name} {number}: {outcome.wrong[0]}\n  again: {again}", flush=True)

    @property
    def failed(self) -> int:
        return sum(map(len, self.wrong.values()))

    @property
    def limit(self) -> str:
        """Of cases that are drawn at random, none of which has failed: what share may fail at most, with 95 %
        confidence; three divided by their number (1 - (1 - 3 / n)^n is .95).
        """
        return "–" if self.failed or self.done < 30 or self.check.name in COMPLETE else f"1 in {self.done / 3:,.0f}"

    @property
    def cells(self) -> tuple[str, ...]:
        """Bar, check, what, how many, failed, limit, besides, processor seconds."""
        besides = "; ".join(f"{count:,} {name}" for name, count in sorted(self.tally.items()))
        known = self.done > 0
        return (
            str(self.check.bar), self.check.name, self.check.what,
            f"{self.done:,} {self.check.unit}" if known else "not measured",
            str(self.failed) if known else "–",
            self.limit,
            self.reason or besides or "–",
            f"{self.processor_s:.0f}",
        )  # fmt: skip


def _safely(case: Case, number: int) -> Outcome:
    try:
        return case(number)
    except NotMeasured:
        raise
    except Exception as error:  # whatever it is, it is a finding, and the other cases go on
        return Outcome((f"crashed: {type(error).__name__}: {error}",))


def _processor_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
