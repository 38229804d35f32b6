"""What a sweep varies: ``selection=random,batch_partition:T=3;mode=fair training.rounds=10,20``.

Commas separate the values of a key, except inside brackets and quotes. The fields of one plugin, which
``simfl run`` separates by commas, are separated by semicolons here: ``batch_partition:T=3;mode=fair``. A range of
numbers stands for its values (:mod:`simfl.experiments.sweep.ranges`).
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import product
from json import dumps

import numpy as np

from simfl.core.errors import SimflError
from simfl.experiments.sweep.ranges import range_values

_SHORTHAND = re.compile(r"[A-Za-z_][\w-]*:(?=[A-Za-z_][\w.-]*=)")
_FIELD = re.compile(r"[A-Za-z_][\w.-]*=")


@dataclass(frozen=True)
class Axis:
    """A key and the values it takes in turn.

    Attributes:
        key: dotted, e.g. ``training.rounds``.
        values: at least one, each as ``simfl run`` takes it behind ``key=``.
    """

    key: str
    values: tuple[str, ...]


def axes(texts: Iterable[str]) -> tuple[Axis, ...]:
    """The axes of ``key=value,value`` texts.

    Raises:
        SimflError: a text has another form, or a key comes twice.
    """
    return _distinct([_axis(text) for text in texts])


def axes_of(grid: Mapping[str, object]) -> tuple[Axis, ...]:
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
        texts = [text for value in _several(values) for text in range_values(value_text(value))]
        new_axes.append(_check_axis(Axis(key, tuple(texts))))
    return _distinct(new_axes)


def _several(values: object) -> list[object]:
    """The values of a key; a text and a mapping are one."""
    plain = values.tolist() if isinstance(values, (np.ndarray, np.generic)) else values
    if isinstance(plain, Collection) and not isinstance(plain, (str, Mapping)):
        return [*plain]  # columns of pandas are collections, too
    return [plain]


def combinations(axes: Sequence[Axis]) -> Iterable[tuple[str, ...]]:
    """Every choice of one value for each axis, the last axis varying fastest."""
    return product(*(axis.values for axis in axes))


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


def _axis(text: str) -> Axis:
    key, equals, values = text.partition("=")
    if not equals or not key.strip():
        raise SimflError(f"{text}: a sweep takes key=value,value,..., e.g. selection.k=4,8")
    parts = [part.strip() for part in _split(values, ",")]
    for before, part in zip(parts, parts[1:], strict=False):
        if _SHORTHAND.match(before) and _FIELD.match(part):
            raise SimflError(
                f"{text}: a comma begins the next value; inside one value use a semicolon: {key}={before};{part}"
            )
    each = [value for part in parts for value in range_values(_as_override(part))]
    return _check_axis(Axis(key.strip(), tuple(each)))


def _check_axis(axis: Axis) -> Axis:
    if not axis.values:
        raise SimflError(f"{axis.key}: no value")
    if len(axis.values) > 1 and "" in axis.values:
        raise SimflError(f"{axis.key}: an empty value among several; write null for no value")
    twice = next((value for value in axis.values if axis.values.count(value) > 1), None)
    if twice is not None:
        raise SimflError(f"{axis.key}: the value {twice} comes twice")
    return axis


def _distinct(axes: list[Axis]) -> tuple[Axis, ...]:
    keys = [axis.key for axis in axes]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise SimflError(f"{twice}: the key comes twice; write all its values behind one '='")
    return tuple(axes)


def _as_override(value: str) -> str:
    return ",".join(_split(value, ";")) if _SHORTHAND.match(value) else value


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators that stand in no bracket and no quote."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            depth += (character in "[{") - (character in "]}")
        if character == separator and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return parts
