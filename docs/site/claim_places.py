"""Numbers by their places: what a claim of docs/claims.yaml says is looked up, and not typed.

A place is one of

    results FILE | column=value; column=value | WHAT | FORMAT
    scenario FILE | key.of.the.scenario | FORMAT
    code MODULE:NAME | FORMAT
    script FILE:NAME | FORMAT
    option COMMAND | OPTION | FORMAT
    seeds
    by test

FILE is a CSV of results/ without its ending, a scenario of scenarios/ or results/, or a script. Rows are chosen by
``=`` and ``!=``. WHAT is a column of the one row that is chosen; ``mean``, ``min``, ``max``, ``median``, ``sum`` or
``count`` (of values that differ) and a column, of all rows that are; ``rows``, their number; or, by seed and with
Student's 95 % interval, the paired difference ``gain COLUMN KEY=A over B``, half of its interval ``half ...`` or its
ends ``low ...`` and ``high ...``. ``A / B`` and ``A - B`` of two such are computed, ``A where KEY=VALUE`` chooses
rows for one of them. ``* 100`` after all scales; a format that ends with z leaves out the zero before a point. NAME
is a constant or a part of one (``NAME.key``), of a script one that is written out. ``option`` is the default of an
option of a command, ``seeds`` are those of the study, and ``by test`` is a number that the claim's tests hold. A sign
that stands in the text before a number is that of the value; where words say more or less, no sign does.
"""

import ast
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas
import yaml

from simfl.experiments.compare.intervals import Interval, paired_difference

ROOT = Path(__file__).resolve().parents[2]
PAIRED = re.compile(r"(gain|half|low|high) (\w+) (\w+)=(.+) over (.+)")
TOTALS = {"mean", "min", "max", "median", "sum", "count"}


@cache
def table(name: str) -> pandas.DataFrame:
    """A CSV of results/, also after it was moved there to another folder, if no other has its name."""
    path = ROOT / "results" / f"{name}.csv"
    if not path.is_file():
        (path,) = (ROOT / "results").rglob(path.name)
    return pandas.read_csv(path)


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


def part(whole: Any, names: Sequence[str]) -> Any:
    """What is called so in a mapping, a sequence, a module or an object."""
    for name in names:
        if isinstance(whole, dict | list | tuple):
            whole = whole[int(name) if name.isdigit() else name]
        else:
            whole = getattr(whole, name)
    return whole


def constants(script: Path) -> dict[str, Any]:
    """The constants that are written out in a script, which is not executed."""
    found: dict[str, Any] = {}
    for node in ast.parse(script.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            with suppress(ValueError):
                value = ast.literal_eval(node.value)
                several = isinstance(target, ast.Tuple)
                names = [ast.unparse(name) for name in (target.elts if several else [target])]
                found |= dict(zip(names, value if several else [value], strict=True))
    return found


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
        paths = [ROOT / folder / f"{parts[0]}.yaml" for folder in ("scenarios", "results")]
        (file,) = [path for path in paths if path.is_file()]
        keys, _, factor = parts[1].partition(" * ")
        return float(part(yaml.safe_load(file.read_text()), keys.split("."))) * float(factor or scale), form
    if kind in ("code", "script"):
        module, _, name = parts[0].partition(":")
        name, _, factor = name.partition(" * ")
        whole = import_module(module) if kind == "code" else constants(ROOT / module)
        found = part(whole, name.split("."))
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
    shown = format(int(abs(found) + 0.5) if form.endswith("d") else abs(found), form.removesuffix("z"))
    return shown.removeprefix("0") if form.endswith("z") else shown, found


def texts(places: Sequence[str], seeds: int | None = None) -> list[tuple[str | None, float]]:
    """Those of several."""
    return [text(place, seeds) for place in places]
