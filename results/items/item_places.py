"""Values of the items: places in tables of results/, with the interval and the seeds that a table has for them.

A place is ``folder/file|column=value;column=value|COLUMN|format``, where COLUMN is

    value±half            with a stored half of a 95 % interval
    value[low,high]       with a stored 95 % interval
    value±se(column)      with a stored standard error, of as many degrees of freedom as there are seeds less one
    value±fisher          a squared correlation of as many pairs as there are seeds: Fisher's interval
    mean value            of rows with a seed each: its mean (of rows of one seed first) and interval are computed here
    max value, median value, value    without an interval: exact, or nothing can be concluded
"""

import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas
from scipy import stats

RESULTS = Path(__file__).resolve().parents[1]
COUNTS = ("seeds", "count", "draws")
EXACT = {
    "bound": "a formula of the setting",
    "bound_updates": "a formula of the setting",
    "equation_52": "a formula of the setting",
    "expected": "an expectation by enumeration",
    "expected_cardinality": "an expectation by enumeration",
    "laplaces_predicted": "a formula of the setting",
    "proven_gap": "a lower bound of a limit, by enumeration",
    "wrong": "a share of field elements that are not identical",
}
"""Columns beside simulated ones that hold exact numbers, and why they are exact."""


@dataclass(frozen=True)
class Quantity:
    """An estimate, its 95 % interval (NaN: none), the seeds behind it (None: exact), and its values by seed if any."""

    estimate: float
    low: float
    high: float
    seeds: int | None = None
    samples: pandas.Series | None = None

    @property
    def exact(self) -> bool:
        return self.seeds is None

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2


def number(value: float) -> Quantity:
    return Quantity(value, value, value)


def sampled(samples: pandas.Series) -> Quantity:
    """Mean of values by seed, and its t interval."""
    count, mean = len(samples), float(samples.mean())
    half = stats.t.ppf(0.975, count - 1) * samples.std(ddof=1) / math.sqrt(count) if count > 1 else math.nan
    return Quantity(mean, mean - half, mean + half, count, samples)


@cache
def table(name: str) -> pandas.DataFrame:
    """A table of results/, all cells as texts."""
    return pandas.read_csv(RESULTS / f"{name}.csv", dtype=str, keep_default_na=False)


def same(column: pandas.Series, value: str) -> pandas.Series:
    """Whether cells are this text or this number."""
    try:
        return (column == value) | (pandas.to_numeric(column, errors="coerce") == float(value))
    except ValueError:
        return column == value


def rows(name: str, where: str) -> pandas.DataFrame:
    """The rows of a table that meet all conditions."""
    chosen = table(name)
    for condition in filter(None, where.split(";")):
        key, value = condition.split("=", 1)
        chosen = chosen[same(chosen[key], value)]
    return chosen


def quantity(place: str, seeds: str = "", exact: bool = False) -> Quantity:
    """The value of a place; ``seeds``: the column that counts the runs; ``exact``: its numbers come from no runs.

    Raises:
        LookupError: not exactly one row, where one value is meant, or a number of runs is called exact.
    """
    name, where, column, _ = place.split("|")
    chosen = rows(name, where)
    if statistic := re.fullmatch(r"(mean|median|max|min) (\w+)", column):
        return aggregate(place, chosen, *statistic.groups())
    if len(chosen) != 1:
        raise LookupError(f"{place}: {len(chosen)} rows")
    row = chosen.iloc[0]
    form = re.fullmatch(r"(\w+)(?:±se\((\w+)\)|±(\w+)|\[(\w+),(\w+)\])?", column)
    if form is None:
        raise LookupError(f"{place}: no column {column}")
    value, error, half, low, high = form.groups()
    estimate = cell(row, value)
    if exact:
        if value not in EXACT and {"seed", "trial", *COUNTS} & set(chosen.columns):
            raise LookupError(f"{place}: the table counts runs, and {value} is none of its exact columns")
        return number(estimate)
    counts = [row[each] for each in ((seeds,) if seeds else COUNTS) if each in row]
    count = int(counts[0]) if counts else 0
    if low:
        return Quantity(estimate, cell(row, low), cell(row, high), count)
    if half == "fisher":
        ends = np.arctanh(math.sqrt(estimate)) + np.array([-1, 1]) * stats.norm.ppf(0.975) / math.sqrt(count - 3)
        return Quantity(estimate, *(float(each) for each in np.tanh(np.maximum(ends, 0)) ** 2), count)
    width = cell(row, half) if half else math.nan
    if error:
        width = float(stats.t.ppf(0.975, count - 1)) * cell(row, error)
    return Quantity(estimate, estimate - width, estimate + width, count)


def cell(row: pandas.Series, column: str) -> float:
    """A number of a row, NaN where it is empty."""
    return float(row[column] or "nan")


def aggregate(place: str, chosen: pandas.DataFrame, statistic: str, column: str) -> Quantity:
    """A statistic of several rows: a mean has an interval over the seeds."""
    if chosen.empty:
        raise LookupError(f"{place}: 0 rows")
    values = chosen[column].astype(float)
    if statistic == "mean" and "seed" in chosen:
        return sampled(values.groupby(chosen["seed"]).mean())
    return Quantity(float(values.agg(statistic)), math.nan, math.nan, 0)


def shown(found: Quantity, form: str) -> str:
    """An estimate with its interval, as the page has it."""
    estimate = format(int(found.estimate), form) if form.endswith("d") else format(found.estimate, form)
    if found.exact or math.isnan(found.half):
        text = estimate
    elif math.isclose(found.high - found.estimate, found.estimate - found.low, rel_tol=1e-2, abs_tol=1e-9):
        text = f"{estimate}±{format(found.half, form)}"
    else:
        text = f"{estimate} ({format(found.low, form)}, {format(found.high, form)})"
    return text.replace("-", "−")
