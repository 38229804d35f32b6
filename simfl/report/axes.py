"""What varies between runs, and how to call it."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from simfl.core.json_data import JsonObject, flat
from simfl.report.study import number

UNIMPORTANT = {"seed", "name", "trace"}
"""Keys that do not make two runs different."""


OBJECT = "python"
"""The plugin that stands for a Python object of the user's: a model, data or a partition."""

OBJECT_FIELDS = ("object", "handed_in", "fingerprint", "folder")
"""Its fields, which say which object it is."""

MARK_DIGITS = 4

JOINT = " / "
"""Stands between the values of a name, as in ``simfl compare``."""


def varying(scenarios: Sequence[Mapping[str, object]]) -> tuple[tuple[str, ...], list[dict[str, str]]]:
    """The keys in which scenarios differ, and each one's values.

    Where another plugin was chosen, that is one axis: its value is the plugin's name, with those of its fields in which
    runs with this plugin differ: ``batch_partition:T=3``. A Python object is called by its own name: ``Net``.
    """
    rows = [{key: value for key, value in flat(scenario).items() if key not in UNIMPORTANT} for scenario in scenarios]
    keys = dict.fromkeys(key for row in rows for key in row)
    differing = [key for key in keys if len({row.get(key) for row in rows}) > 1]
    chosen = [key.removesuffix(".name") for key in differing if key.endswith(".name")]
    every = dict.fromkeys([*chosen, *_objects(differing, rows)])
    families = [f for f in every if not any(f.startswith(f"{other}.") for other in every)]  # the outermost
    values: list[dict[str, str]] = [{} for _ in rows]
    owners = (next((f for f in families if key == f or key.startswith(f"{f}.")), key) for key in differing)
    axes = tuple(dict.fromkeys(owners))
    for axis in axes:
        texts = _choices(axis, rows, differing) if axis in families else [row.get(axis, "") for row in rows]
        for value, text in zip(values, texts, strict=True):
            value[axis] = text
    return axes, values


def _objects(differing: Iterable[str], rows: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """The keys at which rows have different Python objects."""
    for key in differing:
        family, _, field = key.rpartition(".")
        if field in OBJECT_FIELDS and any(row.get(f"{family}.name") == OBJECT for row in rows):
            yield family


def _choices(family: str, rows: list[dict[str, str]], differing: list[str]) -> list[str]:
    """What each row chose of a family: the plugin's name, with the fields in which its users differ."""
    names = [_name(family, row, rows) for row in rows]
    naming = {f"{family}.{field}" for field in ("name", *OBJECT_FIELDS)}
    fields = [key for key in differing if key.startswith(f"{family}.") and key not in naming]
    choices = []
    for row, name in zip(rows, names, strict=True):
        same = [other for other, its in zip(rows, names, strict=True) if its == name]
        differing_fields = [field for field in fields if field in row and len({other.get(field) for other in same}) > 1]
        details = ",".join(f"{field.removeprefix(family + '.')}={row[field]}" for field in differing_fields)
        choices.append(f"{name}:{details}" if details else name)
    return choices


def _name(family: str, row: Mapping[str, str], rows: Iterable[Mapping[str, str]]) -> str:
    """What a row chose: a plugin by its name, a Python object by its own, with its mark where others are called so."""
    name, thing = row.get(f"{family}.name", row.get(family, "")), row.get(f"{family}.object")
    if name != OBJECT or thing is None:
        return name
    mark = row.get(f"{family}.fingerprint", "")
    others = {other.get(f"{family}.fingerprint", "") for other in rows if other.get(f"{family}.object") == thing}
    return f"{thing}#{mark[:MARK_DIGITS]}" if len(others) > 1 else thing


def labels(axes: Sequence[str], values: Iterable[Mapping[str, str]]) -> list[str]:
    """A short name for each combination of values.

    The choice of a plugin speaks for itself, other values need their key.
    """
    short = {axis: _short(axis, axes) for axis in axes}
    return [JOINT.join(_word(short[axis], value[axis]) for axis in axes if value[axis] != "") for value in values]


def words(axes: Sequence[str], values: Iterable[Mapping[str, str]]) -> list[str]:
    """Each combination of values as ``key=value key=value``, with the shortest keys that tell the axes apart."""
    short = {axis: _short(axis, axes) for axis in axes}
    return [" ".join(f"{short[axis]}={value[axis]}" for axis in axes if value[axis] != "") for value in values]


def _word(key: str, value: str) -> str:
    speaks = re.match(r"[A-Za-z_]\w*(:|$)", value) and value not in ("true", "false", "null")
    return value if speaks else f"{key}={value}"


def _short(axis: str, axes: Sequence[str]) -> str:
    """The last parts of a dotted key that no other axis ends with."""
    parts = axis.split(".")
    for count in range(1, len(parts)):
        tail = ".".join(parts[-count:])
        if not any(other != axis and (other == tail or other.endswith("." + tail)) for other in axes):
            return tail
    return axis


def natural(text: str) -> list[tuple[int, float, str]]:
    """Sort key: numbers inside a text by their size."""
    return [
        (0, value, "") if (value := number(part)) is not None else (1, 0.0, part)
        for part in re.split(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)", text)
        if part
    ]


def name_runs(paths: Sequence[Path], scenarios: Mapping[Path, JsonObject]) -> list[str]:
    """A name for each run: its scenario's if there are several, what differs between runs of one scenario, its seed.

    The digest is added where that leaves two runs with one name; it stands alone where nothing is known.

    Args:
        paths: the runs' folders, named by their digests.
        scenarios: their resolved scenarios, as far as they are known.
    """
    by_name: dict[str, list[Path]] = {}
    for path in paths:
        if path in scenarios:
            by_name.setdefault(str(scenarios[path].get("name", "")), []).append(path)
    names: dict[Path, str] = {}
    for name, its in by_name.items():
        words = labels(*varying([scenarios[path] for path in its]))
        for path, differs in zip(its, words, strict=True):
            seed = scenarios[path].get("seed")
            parts = (name if len(by_name) > 1 else "", differs, "" if seed is None else f"seed {seed}")
            names[path] = JOINT.join(filter(None, parts))
    named = Counter(names.values())
    unique = {path: name if named[name] == 1 else f"{name} ({path.name})".strip() for path, name in names.items()}
    return [unique.get(path) or path.name for path in paths]
