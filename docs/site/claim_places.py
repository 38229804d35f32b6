"""Numbers by their places: what a claim of docs/claims.yaml says is looked up, and not typed.

A place is one of

    results FILE | column=value; column=value | WHAT | FORMAT
    scenario FILE | key.of.the.scenario | FORMAT
    code MODULE:NAME | FORMAT
    option COMMAND | OPTION | FORMAT
    seeds
    by test

FILE is a CSV of results/ without its ending, or a scenario of scenarios/. Rows are chosen by ``=`` and ``!=``. WHAT is
a column of the one row that is chosen; ``mean``, ``min``, ``max``, ``median``, ``sum`` or ``count`` (of values that
differ) and a column, of all rows that are; ``rows``, their number; or, by seed and with Student's 95 % interval, the
paired difference ``gain COLUMN KEY=A over B``, half of its interval ``half ...`` or its ends ``low ...`` and ``high ...``.
``A / B`` and ``A - B`` of two such are computed, ``A where KEY=VALUE`` chooses rows for one of them. ``* 100`` after all scales.
``option`` is the default of an option of a command, ``seeds`` are those of the study, and ``by test`` is a number that
the claim's tests hold. A sign that stands in the text before a number is that of the value; where words say more or
less, no sign does.
"""

import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

import pandas
import yaml

from simfl.experiments.compare.intervals import Interval, paired_difference

ROOT = Path(__file__).resolve().parents[2]
PAIRED = re.compile(r"(gain|half|low|high) (\w+) (\w+)=(.+) over (.+)")
TOTALS = {"mean", "min", "max", "median", "sum", "count"}


@cache
def table(name: str) -> pandas.DataFrame:
    """A CSV of results/."""
    return pandas.read_csv(ROOT / "results" / f"{name}.csv")


def same(cells: pandas.Series, value: str) -> pandas.Series:
    """Which cells are this text or number."""
    try:
        return pandas.to_numeric(cells, errors="coerce") == float(value)
    except ValueError:
        return cells.astype(str) == value


def chosen(name: str, where: str) -> pandas.DataFrame:
    """The rows of a table that are chosen; ``world`` and the like by their names."""
    rows = table(name)
    for condition in filter(None, (part.strip() for part in where.split(";"))):
        column, sign, value = re.split(r"(!?=)", condition, maxsplit=1)
        rows = rows[same(rows[column], value) ^ (sign == "!=")]
    if rows.empty:
        raise LookupError(f"{name}: no row {where}")
    return rows


def paired(rows: pandas.DataFrame, column: str, key: str, value: str, beside: str) -> Interval:
    """The difference of two configurations, seed by seed."""
    ours, theirs = (rows[same(rows[key], each)].set_index("seed")[column] for each in (value, beside))
    if not ours.index.is_unique or set(ours.index) != set(theirs.index) or len(ours) < 2:
        raise LookupError(f"{column}: {value} and {beside} have not the same seeds, each once")
    return paired_difference(ours.sort_index(), theirs.sort_index())


def value(name: str, where: str, what: str) -> float:
    """One number of a table."""
    for sign in (" / ", " - "):
        first, found, second = what.partition(sign)
        if found:
            a, b = value(name, where, first), value(name, where, second)
            return a / b if sign == " / " else a - b
    column, _, condition = what.partition(" where ")
    if condition:
        return value(name, f"{where};{condition}", column)
    rows = chosen(name, where)
    if match := PAIRED.fullmatch(what):
        interval = paired(rows, *match.groups()[1:])
        ends = {"gain": interval.estimate, "half": interval.half_width, "low": interval.lower, "high": interval.upper}
        return float(ends[match[1]])
    if what == "rows":
        return float(len(rows))
    total, _, column = what.rpartition(" ")
    if total in TOTALS:
        return float(rows[column].nunique() if total == "count" else rows[column].agg(total))
    if total or len(rows) != 1:
        raise LookupError(f"{name}: {len(rows)} rows {where} for {what}")
    return float(rows[column].iloc[0])


def number(place: str, seeds: int | None = None) -> tuple[float, str]:
    """A place's value and format."""
    if place == "seeds":
        return float(seeds or 0), "d"
    kind, _, rest = place.partition(" ")
    *parts, form = (part.strip() for part in rest.split("|"))
    scale = 1.0
    if kind == "results":
        name, where, what = parts
        what, _, factor = what.partition(" * ")
        return value(name, where, what) * float(factor or scale), form
    if kind == "scenario":
        found: object = yaml.safe_load((ROOT / "scenarios" / f"{parts[0]}.yaml").read_text())
        keys, _, factor = parts[1].partition(" * ")
        for key in keys.split("."):
            found = found[int(key) if key.isdigit() else key]
        return float(found) * float(factor or scale), form
    if kind == "code":
        module, _, attribute = parts[0].partition(":")
        attribute, _, factor = attribute.partition(" * ")
        found = import_module(module)
        for name in attribute.split("."):
            found = found[name] if isinstance(found, dict) else getattr(found, name)
        return float(len(found) if hasattr(found, "__len__") else found) * float(factor or scale), form
    if kind == "option":
        from simfl.cli import simfl

        command = simfl.get_command(None, parts[0])
        (found,) = [each.default for each in command.params if each.name == parts[1]]
        return float(found), form
    raise LookupError(f"{place}: neither results, scenario nor code")


def looked_up(place: str, seeds: int | None = None) -> tuple[float, str]:
    """The same.

    Raises:
        LookupError: there is no such number, for whatever reason.
    """
    try:
        return number(place, seeds)
    except (LookupError, ValueError, AttributeError, TypeError, ImportError, OSError) as error:
        raise LookupError(f"no number at {place}: {error}") from error


def text(place: str, seeds: int | None = None) -> tuple[str | None, float]:
    """The number of a place as it stands in a text, without its sign, and its value; None of what tests hold."""
    if place == "by test":
        return None, 0.0
    found, form = looked_up(place, seeds)
    shown = format(int(abs(found) + 0.5) if form.endswith("d") else abs(found), form)
    return shown, found


def texts(places: Sequence[str], seeds: int | None = None) -> list[tuple[str | None, float]]:
    """Those of several."""
    return [text(place, seeds) for place in places]
