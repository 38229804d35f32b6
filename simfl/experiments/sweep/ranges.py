"""Ranges of numbers in sweeps: ``0:0.5:0.1`` for 0, 0.1, ..., 0.5 and ``log:0.001:1:4`` for 0.001, 0.01, 0.1, 1."""

import re
from decimal import Decimal
from math import inf, log10

import numpy as np

from simfl.core.errors import SimflError

MOST = 10_000
"""Values of one range."""

DIGITS = 15
"""Before and behind the point."""

NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
"""A number as text, a regular expression."""
_STEPS = re.compile(rf"({NUMBER}):({NUMBER}):({NUMBER})")
_LOG_WITHOUT_COUNT = re.compile(rf"log:{NUMBER}:{NUMBER}")
_LOG = re.compile(rf"log:({NUMBER}):({NUMBER}):({NUMBER})")
_DECADES = re.compile(rf"({NUMBER}):({NUMBER}):log")

_LOG_NEEDS = "a logarithmic range takes two positive numbers"


def range_values(text: str) -> list[str]:
    """The numbers that a range stands for, as texts; any other text alone.

    ``first:last:step`` counts in decimal numbers and includes ``last`` where a step meets it. ``log:first:last:count``
    has equal ratios between neighbours; all but the two ends are rounded to six digits. ``first:last:log`` is the same
    with ratios as near to ten as equal ratios come.

    Raises:
        SimflError: the range holds no numbers, or too many.
    """
    if match := _STEPS.fullmatch(text):
        first, last, step = map(Decimal, match.groups())
        if any(number and abs(number.adjusted()) > DIGITS for number in (first, last, step)):
            raise SimflError(f"{text}: numbers of a range lie between 1e-{DIGITS} and 1e{DIGITS}")
        if not step or (last - first) / step < 0:
            near = f"; did you mean {first}:{last}:{-step}?" if step else "; a step is not 0"
            raise SimflError(f"{text}: from {first} in steps of {step} nothing leads to {last}{near}")
        count = _count(text, int((last - first) / step) + 1)
        return [_plain(first + i * step) for i in range(count)]
    if match := _LOG.fullmatch(text):
        if not (match[3].isdigit() and len(match[3]) < DIGITS and int(match[3]) > 1):
            raise SimflError(f"{text}: {_LOG_NEEDS} and how many values, e.g. log:0.001:1:4")
        return _equal_ratios(text, match[1], match[2], int(match[3]))
    if match := _DECADES.fullmatch(text):
        return _equal_ratios(text, match[1], match[2])
    if _LOG_WITHOUT_COUNT.fullmatch(text):
        raise SimflError(f"{text}: how many values? write {text}:COUNT, e.g. {text}:4")
    return [text]


def _equal_ratios(text: str, first: str, last: str, count: int | None = None) -> list[str]:
    """Numbers from ``first`` to ``last``; without ``count``, about one for each power of ten."""
    low, high = float(first), float(last)
    if not (0 < low < inf and 0 < high < inf):
        raise SimflError(f"{text}: {_LOG_NEEDS}, e.g. log:0.001:1:4 or 0.001:1:log")
    count = count or max(1, round(abs(log10(high) - log10(low)))) + 1
    inner = [f"{value:.6g}" for value in np.geomspace(low, high, _count(text, count))[1:-1]]
    return [first, *(_plain(Decimal(each)) if float(each) >= 1 else each for each in inner), last]


def _count(text: str, count: int) -> int:
    if count > MOST:
        raise SimflError(f"{text}: {count} values; at most {MOST} are swept")
    return count


def _plain(number: Decimal) -> str:
    """Without an exponent and without zeros that say nothing: 20 stays a whole number."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
