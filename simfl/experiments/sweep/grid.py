"""What a sweep varies: ``selection=random,batch_partition:T=3,mode=fair training.rounds=10,20``.

Values are separated as :mod:`simfl.scenario.overrides` says. A range of numbers stands for its values:
``0:0.5:0.1`` for 0, 0.1, ..., 0.5 and ``log:0.001:1:4`` for 0.001, 0.01, 0.1, 1; ``world=all`` for all named worlds
that need no file. Axes are independent, unless they are
zipped: then they have equally many values, and take the first together, the second together, and so on. The axis
``case`` has named cases as values, each of which stands for several overrides, and tables show it under its name:
``--case 'slow: training.rounds=40 selection.k=4'``, in Python and in files
``cases={"slow": {"training.rounds": 40, "selection.k": 4}}``. One without overrides is the scenario as it is.
"""

import math
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product
from json import dumps
from math import inf, log10

import numpy as np

from simfl.core.errors import SimflError, suggestion
from simfl.scenario.overrides import spaced_override, split_values

MOST_VALUES = 10_000
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


def _parts(key: str, text: str) -> list[str]:
    """The values that one text stands for: a range, all worlds, or itself."""
    return [*WITHOUT_FILE] if (key, text) == (WORLD, "all") else range_values(text)


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
        count = _check_count(text, int((last - first) / step) + 1)
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
    inner = [f"{value:.6g}" for value in np.geomspace(low, high, _check_count(text, count))[1:-1]]
    return [first, *(_plain(Decimal(each)) if float(each) >= 1 else each for each in inner), last]


def _check_count(text: str, count: int) -> int:
    if count > MOST_VALUES:
        raise SimflError(f"{text}: {count} values; at most {MOST_VALUES} are swept")
    return count


def _plain(number: Decimal) -> str:
    """Without an exponent and without zeros that say nothing: 20 stays a whole number."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_CALL = re.compile(r"(np\.|numpy\.)?(range|arange|linspace|logspace)\(.*\)")
"""Ranges as Python writes them."""
_RANGE_TEXT = (
    "a range is written FIRST:LAST:STEP, the last included, e.g. {key}=4:12:4, one with equal ratios "
    "log:FIRST:LAST:COUNT, e.g. {key}=log:0.001:1:4"
)

WORLD, WITHOUT_FILE = "world", ("memoryless", "sticky", "groups", "day_and_night")
"""The key of named worlds, and those that ``all`` stands for: all but the measured trace, which needs a file."""

CASE = "case"
"""The key of the axis of named cases."""


@dataclass(frozen=True)
class Axis:
    """A key and the values it takes in turn.

    Attributes:
        key: dotted, e.g. ``training.rounds``; ``case`` for named cases.
        values: at least one, each as ``simfl run`` takes it behind ``key=``; of ``case``, the names.
        group: axes of one group move together; empty = alone.
        overrides: of ``case``, the overrides of each value.
    """

    key: str
    values: tuple[str, ...]
    group: str = ""
    overrides: tuple[tuple[str, ...], ...] = ()

    def overrides_of(self, value: str) -> tuple[str, ...]:
        """The overrides that one of the values stands for."""
        return self.overrides[self.values.index(value)] if self.overrides else (f"{self.key}={value}",)


def parse(texts: Iterable[str]) -> tuple[Axis, ...]:
    """The axes of ``key=value,value`` texts, not yet :func:`check_axes`: values may come twice, if they move together.

    Raises:
        SimflError: a text has another form, or a key comes twice.
    """
    texts = list(texts)
    if (spaced := spaced_override(texts)) is not None:
        raise SimflError(f"{spaced[0]}: a key and its values are written without spaces, {spaced[1]}")
    return _distinct([_axis(text) for text in texts])


def parse_mapping(grid: Mapping[str, object]) -> tuple[Axis, ...]:
    """The axes of a mapping from keys to values: a list, tuple, range, array or column, or one value alone.

    Raises:
        SimflError: a key has no values.
    """
    if not isinstance(grid, Mapping):
        raise SimflError(f"a grid is a mapping from keys to values, not {type(grid).__name__}")
    new_axes = []
    for key, values in grid.items():
        if not isinstance(key, str) or not key or "=" in key:
            raise SimflError(f"{key!r}: a key of a grid is a text such as 'training.rounds'")
        table = not isinstance(values, (list, tuple)) and np.ndim(values) > 1  # type: ignore[arg-type]  # anything goes
        if table or isinstance(values, (Set, bytes)):
            raise SimflError(f"{key}: {type(values).__name__} gives no list of values; give a list")
        texts = split_values(values) if isinstance(values, str) else [_whole(value) for value in several(values)]
        parts = [part for text in texts for part in _parts(key, text)]
        new_axes.append(_check_axis(Axis(key, tuple(parts))))
    return _distinct(new_axes)


def several(values: object) -> list[object]:
    """The values of a key; a text and a mapping are one."""
    plain = values.tolist() if isinstance(values, (np.ndarray, np.generic)) else values
    if isinstance(plain, Collection) and not isinstance(plain, (str, Mapping)):
        return [*plain]  # columns of pandas are collections, too
    return [plain]


def group_axes(axes: Sequence[Axis], groups: Iterable[Sequence[str]]) -> tuple[Axis, ...]:
    """The axes, those whose keys a group names moving together.

    Raises:
        SimflError: a key is no axis or stands in two groups, or axes of a group have not equally many values.
    """
    named: dict[str, str] = {}
    for keys in groups:
        if len(keys) < 2:
            raise SimflError(f"zip: {','.join(keys) or 'nothing'} is one key; two or more move together")
        for key in keys:
            if key in named:
                raise SimflError(f"zip: {key} stands twice")
            named[key] = ",".join(keys)
    known = [axis.key for axis in axes]
    if missing := next((key for key in named if key not in known), None):
        near = suggestion(missing, known) or f"; give {missing}=..., as {', '.join(known)} has"
        raise SimflError(f"zip: {missing} has no values here{near}")
    broken = {axis.group for axis in axes if axis.group and any(key in named for key in axis.group.split(","))}
    old = {axis.key: "" if axis.group in broken else axis.group for axis in axes}
    return tuple(replace(axis, group=named.get(axis.key, old[axis.key])) for axis in axes)


def check_axes(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The axes, if they fit together.

    Raises:
        SimflError: axes of a group have not equally many values, or take the same ones twice.
    """
    for bundle in _bundles(axes).values():
        counts = {axis.key: len(axis.values) for axis in bundle}
        if len(set(counts.values())) > 1:
            text = ", ".join(f"{key} has {count}" for key, count in counts.items())
            raise SimflError(f"zip: keys that move together have equally many values; {text}")
        steps = [*zip(*(axis.values for axis in bundle), strict=True)]
        if twice := next((step for step in steps if steps.count(step) > 1), None):
            words = "the values {} come twice" if len(counts) > 1 else "the value {} comes twice"
            raise SimflError(f"{','.join(counts)}: {words.format(', '.join(twice))}")
    return tuple(axes)


def count(axes: Sequence[Axis]) -> int:
    """How many combinations there are."""
    return math.prod(len(bundle[0].values) for bundle in _bundles(axes).values())


def combinations(axes: Sequence[Axis]) -> Iterator[tuple[str, ...]]:
    """Every choice of one value for each axis, the last axis (or group of axes) varying fastest."""
    bundles = _bundles(axes)
    keys = [axis.key for axis in axes]
    for steps in product(*(zip(*(axis.values for axis in bundle), strict=True) for bundle in bundles.values())):
        chosen = {
            axis.key: value
            for bundle, step in zip(bundles.values(), steps, strict=True)
            for axis, value in zip(bundle, step, strict=True)
        }
        yield tuple(chosen[key] for key in keys)


def value_text(value: object) -> str:
    """A Python value as text of an override: text stays as it is, anything else is written as JSON.

    Raises:
        SimflError: the value has no such form.
    """
    try:
        return value if isinstance(value, str) else dumps(value, allow_nan=False, default=_of_numpy)
    except (TypeError, ValueError):
        raise SimflError(
            f"{type(value).__name__} cannot stand in a scenario; objects are taken by learning.model, learning.data "
            "and learning.partition (docs/how-to/own-model.md)"
        ) from None


def _of_numpy(value: object) -> object:
    """A number or an array of numpy as Python has it."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError


def _whole(value: object) -> str:
    """One of several values as text; fields of a plugin separated by commas."""
    text = value_text(value)
    return parts[0] if len(parts := split_values(text)) == 1 and isinstance(value, str) else text


def _axis(text: str) -> Axis:
    key, equals, values = text.partition("=")
    if not equals or not key.strip():
        raise SimflError(f"{text}: a sweep takes key=value,value,..., e.g. selection.k=4,8")
    if ":" in key:
        raise SimflError(f"{text}: is no key with values; values of one key are separated by commas, without spaces, "
                         "e.g. selection=random,batch_partition:T=4")  # fmt: skip
    if _CALL.fullmatch(values):
        raise SimflError(f"{text}: {_RANGE_TEXT.format(key=key)}")
    parts = [part for text in split_values(values) for part in _parts(key.strip(), text)]
    return _check_axis(Axis(key.strip(), tuple(parts)))


def _bundles(axes: Sequence[Axis]) -> dict[str, list[Axis]]:
    """The axes that move together, by the name of their group or their own."""
    bundles: dict[str, list[Axis]] = {}
    for axis in axes:
        bundles.setdefault(axis.group or axis.key, []).append(axis)
    return bundles


def _check_axis(axis: Axis) -> Axis:
    if not axis.values:
        raise SimflError(f"{axis.key}: no value")
    if len(axis.values) > 1 and "" in axis.values:
        raise SimflError(f"{axis.key}: an empty value among several; write null for no value")
    return axis


def _distinct(axes: list[Axis]) -> tuple[Axis, ...]:
    keys = [axis.key for axis in axes]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise SimflError(f"{twice}: the key comes twice; write all its values behind one '='")
    return tuple(axes)


_NAME = re.compile(r"\w[\w .+-]*")
FORM = "a case has the form 'NAME: KEY=VALUE KEY=VALUE', e.g. 'slow: training.rounds=40 selection.k=4'"


def case_axis(cases: Mapping[str, Sequence[str]]) -> Axis:
    """The axis of named cases, each with its overrides.

    Raises:
        SimflError: a name is none, or an override has no value or comes twice.
    """
    for name, overrides in cases.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise SimflError(f"case {name!r}: a name has letters, digits, blanks and _ . + -")
        keys = []
        for text in overrides:
            key, equals, _ = text.partition("=")
            if not equals or not key:
                raise SimflError(f"case {name}: {text}: {FORM}")
            if key in keys:
                raise SimflError(f"case {name}: {key} comes twice")
            keys.append(key)
    return Axis(CASE, tuple(cases), overrides=tuple(map(tuple, cases.values())))


def cases_of_texts(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Cases as ``--case`` takes them.

    Raises:
        SimflError: a text has another form, or a name comes twice.
    """
    cases: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, colon, overrides = text.partition(":")
        if not colon or "=" in name:
            raise SimflError(f"--case {text}: {FORM}")
        if name.strip() in cases:
            raise SimflError(f"--case {name.strip()}: the name comes twice")
        try:
            cases[name.strip()] = tuple(shlex.split(overrides))
        except ValueError as error:
            raise SimflError(f"--case {text}: {error}".lower()) from None
    return cases


def cases_of(cases: Mapping[str, Mapping[str, object]]) -> dict[str, tuple[str, ...]]:
    """Cases as Python and files have them: a mapping from names to mappings from keys to values.

    Raises:
        SimflError: they are something else.
    """
    if not isinstance(cases, Mapping):
        raise SimflError(f"cases: a mapping from names to overrides, not {type(cases).__name__}")
    for name, overrides in cases.items():
        if not isinstance(overrides, Mapping):
            raise SimflError(f"case {name}: a mapping from keys to values, not {type(overrides).__name__}")
    return {name: tuple(f"{key}={value_text(value)}" for key, value in overrides.items())
            for name, overrides in cases.items()}  # fmt: skip


def refuse_overlap(axes: Iterable[Axis]) -> None:
    """
    Raises:
        SimflError: a case sets what an axis varies.
    """
    known = {axis.key for axis in axes}
    for axis in axes:
        for name, overrides in zip(axis.values, axis.overrides):
            if both := next((key for text in overrides if (key := text.partition("=")[0]) in known), None):
                raise SimflError(f"case {name}: {both} is varied besides; leave it out of the case or of the grid")
