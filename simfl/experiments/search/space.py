"""What a search chooses from: ``training.learning_rate=0.01..0.3 selection.k=4..20:4 selection=random,partition``.

``first..last`` is a range of numbers, ``log:first..last`` one of their logarithms, ``first..last:step`` has steps.
Several values (:mod:`simfl.scenario.overrides`) are categories; one alone is fixed.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from simfl.core.errors import SimflError
from simfl.experiments.sweep.grid import MOST_VALUES, NUMBER, Axis, parse, parse_mapping

_RANGE = re.compile(rf"(log:)?({NUMBER})\.\.({NUMBER})(?::({NUMBER}))?")
_SWEPT = re.compile(rf"[\w.]+={NUMBER}:{NUMBER}")
"""A range half-way to that of a sweep."""
_LIKE_A_RANGE = re.compile(r"(log:)?[\w.+-]*\.\.[\w.+-]*(:[\w.+-]*)?")

DIGITS = 4
"""Digits of a drawn number, of its range's width; of its logarithm's, significant ones."""


@dataclass(frozen=True)
class SearchParameter:
    """A key to be searched.

    Attributes:
        key: dotted, e.g. ``selection.k``.
        choices: of categories, as ``simfl run`` takes them; empty for a range.
        low, high: ends of a range, both may be drawn.
        log: equal ratios are equally likely.
        step: between neighbours from ``low`` on; None where every number may be drawn.
        text: what was written.
    """

    key: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    step: float | None = None
    text: str = ""

    @property
    def size(self) -> int | None:
        """How many values there are; None where they are not counted."""
        if self.choices:
            return len(self.choices)
        return None if self.step is None else int((self.high - self.low) / self.step + 1e-9) + 1

    def value_text(self, value: float | str) -> str:
        """A drawn value as ``simfl run`` takes it."""
        if isinstance(value, str):
            return value
        if self.step is not None:
            number = Decimal(str(self.low)) + round((value - self.low) / self.step) * Decimal(str(self.step))
        elif self.log:
            number = Decimal(f"{value:.{DIGITS + 1}g}")
        else:
            number = round(Decimal(repr(value)), DIGITS - math.floor(math.log10(self.high - self.low)))
        bounded = min(max(number, Decimal(str(self.low))), Decimal(str(self.high)))
        text = f"{bounded:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text

    def values(self) -> tuple[str, ...]:
        """All of its values; of a range without steps its ends."""
        if self.choices:
            return self.choices
        if self.step is None:
            return self.value_text(self.low), self.value_text(self.high)
        return tuple(self.value_text(self.low + i * self.step) for i in range(self.size or 0))


@dataclass(frozen=True)
class Space:
    """What a search chooses from.

    Attributes:
        parameters: at least one.
        fixed: further overrides.
    """

    parameters: tuple[SearchParameter, ...]
    fixed: tuple[str, ...] = ()

    @property
    def size(self) -> int | None:
        """How many combinations there are; None where they are not counted."""
        sizes = [parameter.size for parameter in self.parameters]
        return math.prod(size or 0 for size in sizes) if None not in sizes else None

    def overrides(self, values: Sequence[str]) -> list[str]:
        """The overrides of one combination."""
        return [*self.fixed, *(f"{p.key}={value}" for p, value in zip(self.parameters, values, strict=True))]


def space_of(space: Iterable[str] | Mapping[str, object]) -> Space:
    """The space of ``key=...`` texts, or of a mapping from keys to texts and lists.

    Raises:
        SimflError: a text has another form, or nothing is left to choose.
    """
    axes = parse_mapping(space) if isinstance(space, Mapping) else parse(space)
    searched = [axis for axis in axes if len(axis.values) > 1 or _LIKE_A_RANGE.fullmatch(axis.values[0])]
    fixed = tuple(f"{axis.key}={axis.values[0]}" for axis in axes if axis not in searched)
    if not searched:
        near = next((text for text in fixed if _SWEPT.fullmatch(text)), None)
        if near is not None:
            raise SimflError(f"nothing to search: {near} is one value; did you mean {near.replace(':', '..')}?")
        raise SimflError("nothing to search: give a key a range or several values, e.g. selection.k=4..20")
    if any(axis.key == "name" for axis in searched):
        raise SimflError("name: all runs of a search have one name, for they share a folder")
    if any(axis.key == "seed" for axis in searched):
        raise SimflError("seed: the best of several seeds is the luckiest; a search has one, e.g. seed=3")
    return Space(tuple(map(_parameter, searched)), fixed)


def _parameter(axis: Axis) -> SearchParameter:
    text = ",".join(axis.values)
    if not any(_LIKE_A_RANGE.fullmatch(value) for value in axis.values):
        if twice := next((value for value in axis.values if axis.values.count(value) > 1), None):
            raise SimflError(f"{axis.key}: the value {twice} comes twice")
        return SearchParameter(axis.key, axis.values, text=text)
    if len(axis.values) > 1:
        raise SimflError(f"{axis.key}={text}: a range stands alone, or write the values one by one")
    match = _RANGE.fullmatch(text)
    if match is None:
        raise SimflError(f"{axis.key}={text}: a range is first..last, two numbers, e.g. 0.01..0.3 or log:0.001..0.1")
    low, high = float(match[2]), float(match[3])
    step = None if match[4] is None else float(match[4])
    _check(f"{axis.key}={text}", low, high, bool(match[1]), step)
    return SearchParameter(axis.key, (), low, high, bool(match[1]), step, text)


def _check(text: str, low: float, high: float, log: bool, step: float | None) -> None:
    if not (math.isfinite(low) and math.isfinite(high)):
        raise SimflError(f"{text}: the numbers of a range are finite")
    if low == high:
        raise SimflError(f"{text}: the range holds one number; write {text.partition('=')[0]}={low:g}")
    if low > high:
        raise SimflError(f"{text}: the range is reversed; write {high:g}..{low:g}")
    if log and low <= 0:
        raise SimflError(f"{text}: log: needs positive numbers")
    if step is not None and (log or not 0 < step <= high - low):
        raise SimflError(f"{text}: " + ("log: has no steps" if log else "the step leads nowhere"))
    if step is not None and (high - low) / step > MOST_VALUES:
        raise SimflError(f"{text}: more than {MOST_VALUES} steps; write the range without steps, or with longer ones")
