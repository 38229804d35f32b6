"""Named cases of a sweep: each stands for several overrides, and tables and figures show it under its name.

On the command line ``--case 'slow: training.rounds=40 selection.k=4'``, in Python and in files
``cases={"slow": {"training.rounds": 40, "selection.k": 4}}``. A case without overrides is the scenario as it is.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from simfl.core.errors import SimflError
from simfl.experiments.sweep.grid import CASE, Axis, value_text

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
