"""Times as logs have them: seconds, milliseconds and the like since 1970 or since the log's beginning, and dates."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from simfl.api.files import number_of
from simfl.plugins import Floats, SimflError

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

CALENDAR_S = 10**8
"""Plain numbers from here on are since 1970: seconds, or of the unit of which there would be that many."""

LATEST_S = 7_258_118_400
"""The year 2200."""


def seconds_of(what: str, name: str, words: Sequence[str]) -> tuple[Floats, bool]:
    """A column's words in seconds, (n,), NaN where there is none; and whether they are since 1970.

    A name that ends in ``_ms`` and the like says the unit of numbers; else their size does.

    Raises:
        SimflError: they are neither seconds nor dates, or not between 1970 and 2200; the message begins with ``what``.
    """
    empty = np.array([not word for word in words])
    numbers = np.array([number_of(word, np.nan) for word in words])
    if not np.isnan(numbers[~empty]).any():
        unit = re.search(r"_(s|ms|us|ns)$", name.lower())
        seconds = numbers * (UNITS[unit[1]] if unit else _unit(numbers))
        if (wrong := ~empty & ~((seconds >= 0) & (seconds < LATEST_S))).any():
            raise SimflError(f"{what} holds '{words[int(wrong.argmax())]}', which is no time from 1970 to 2200")
        return seconds, bool(np.nanmin(seconds, initial=np.inf) >= CALENDAR_S)
    dates = as_dates([word for word in words if word])
    if dates is None:
        raise SimflError(f"{what} holds neither seconds nor dates such as 2026-03-01T14:30:00Z")
    if not ((dates >= 0) & (dates < LATEST_S)).all():
        raise SimflError(f"{what} holds dates that are not from 1970 to 2200")
    seconds = np.full(len(words), np.nan)
    seconds[~empty] = dates
    return seconds, True


def _unit(numbers: Floats) -> float:
    """Of numbers since 1970, by their size; all of a column have one."""
    smallest = np.nanmin(numbers, initial=np.inf)
    fitting = [unit for unit in UNITS.values() if CALENDAR_S <= smallest * unit < LATEST_S]
    return fitting[0] if fitting else 1.0


def as_dates(words: Sequence[str]) -> Any:
    """Words as dates in seconds since 1970, UTC, (n,); None where some are none.

    Raises:
        SimflError: day and month may be one another, which would be another order.
    """
    import warnings

    import pandas

    if not words or not all(re.search(r"\d{1,4}[-/.: ]\d{1,2}[-/.: ]\d", word) for word in words):
        return None
    parsed, year_first = [], all(re.match(r"\d{4}\D", word) for word in words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for options in ({"format": "ISO8601"}, {"format": "mixed"}, {"format": "mixed", "dayfirst": True}):
            try:
                dates = pandas.to_datetime(pandas.Series(list(words)), utc=True, **options)
            except (ValueError, TypeError, OverflowError):
                continue
            stamps = dates.dt.tz_localize(None).to_numpy().astype("datetime64[us]")
            seconds = stamps.astype(np.int64) / 1e6
            if "dayfirst" not in options and options["format"] == "ISO8601":
                return seconds
            parsed.append(seconds)
            if year_first:
                break
    if len(parsed) == 2 and (np.argsort(parsed[0], kind="stable") != np.argsort(parsed[1], kind="stable")).any():
        raise SimflError(f"'{words[0]}' may be day/month or month/day; write dates as 2026-03-01")
    return parsed[0] if parsed else None


def date(seconds: float) -> str:
    """Seconds since 1970 as a date and time of day, UTC."""
    return str(np.datetime64(int(seconds), "s")).replace("T", " ")[:16]
