"""Ranges of numbers in sweeps: ``0:0.5:0.1`` for 0, 0.1, ..., 0.5 and ``log:0.001:1:4`` for 0.001, 0.01, 0.1, 1."""

import re
from decimal import Decimal
from math import inf

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


def range_values(text: str) -> list[str]:
    """The numbers that a range stands for, as texts; any other text alone.

    ``first:last:step`` counts in decimal numbers and includes ``last`` where a step meets it. ``log:first:last:count``
    has equal ratios between neighbours; all but the two ends are rounded to six digits.

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
        low, high = map(float, match.groups()[:2])
        if not (
            0 < low < inf and 0 < high < inf and match[3].isdigit() and len(match[3]) < DIGITS and int(match[3]) > 1
        ):
            raise SimflError(f"{text}: log: takes two positive numbers and how many values, e.g. log:0.001:1:4")
        between = np.geomspace(low, high, _count(text, int(match[3])))[1:-1]
        inner = [f"{value:.6g}" for value in between]
        return [match[1], *(_plain(Decimal(each)) if float(each) >= 1 else each for each in inner), match[2]]
    if _LOG_WITHOUT_COUNT.fullmatch(text):
        raise SimflError(f"{text}: how many values? write {text}:COUNT, e.g. {text}:4")
    return [text]


def _count(text: str, count: int) -> int:
    if count > MOST:
        raise SimflError(f"{text}: {count} values; at most {MOST} are swept")
    return count


def _plain(number: Decimal) -> str:
    """Without an exponent and without zeros that say nothing: 20 stays a whole number."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
