"""What was perhaps meant: the nearest valid name or number, for the end of a message."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from simfl.core.errors import nearest
from simfl.core.json_data import JsonObject, number_of
from simfl.core.registration.protocol import required_fields
from simfl.core.registration.registry import Registry
from simfl.scenario.fields import keys_of, options, registry_of
from simfl.scenario.messages.elsewhere import plain
from simfl.scenario.yaml.places import KeyPath, shown

BOOLEANS = {"yes": "true", "on": "true", "no": "false", "off": "false", "1": "true", "0": "false"}
"""What other languages call true and false."""

NAME_KEYS = {"name", "type", "kind", "class"}
"""What other programs call the key that chooses a plugin."""

DEEPEST = 4

MOST_KEYS = 20

TABLES = {".csv": "csv", ".npz": "npz", ".parquet": "parquet"}
"""The data that read a file of this kind."""

_CALL = re.compile(r"([A-Za-z_]\w*)\((.*)\)")

_FIELDLESS = re.compile(r"([A-Za-z_][\w-]*):([^=\s]+)")

_DOTTED = re.compile(r"([A-Za-z_]\w*(?:\.[a-z_]\w*)*)\.([A-Z]\w*)")

SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "sec": 1, "seconds": 1, "min": 60, "minutes": 60,
           "h": 3600, "hours": 3600, "d": 86_400, "days": 86_400}  # fmt: skip

BYTES = {"b": 1, "bytes": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
         "bit": 1 / 8, "bits": 1 / 8, "kbit": 125, "mbit": 125e3, "gbit": 125e6}  # fmt: skip

RATES = {f"{size}{per}s": factor for size, factor in BYTES.items() for per in ("/", "_per_")}

DIMENSIONS = {"seconds": SECONDS, "bytes per second": RATES, "bytes": BYTES}

OWN = {"computation": "seconds", "seconds": "seconds"}
"""Keys that name no unit but have one."""

_QUANTITY = re.compile(r"([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*(%|[A-Za-zµ/_]+)")

_BITS = re.compile(r"^([kMG])b(|/s)$")
"""Mb/s are megabits, MB/s megabytes."""


def name_suggestion(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` with the most similar known name, or nothing."""
    known = list(known)
    near = same_name(word, known) or nearest(word, known)
    return f"; did you mean {near!r}?" if near else ""


def same_name(word: str, known: Iterable[str]) -> str | None:
    """The known name that a word is but for case and punctuation."""
    return {plain(name): name for name in known}.get(plain(word))


def like_name(value: object) -> str | None:
    """The key of a mapping that was to be ``name``."""
    keys = [key for key in value if isinstance(key, str)] if isinstance(value, dict) else []
    words = ((key, key.partition(":")[0]) for key in keys)
    return next((key for key, word in words if plain(word) in NAME_KEYS or nearest(word, ["name"])), None)


def without_space(key: str) -> str:
    """What to write for a key like ``k:4``; nothing for others."""
    return (
        f"; write a space behind the colon, {key.replace(':', ': ', 1)!r}" if 0 < key.find(":") < len(key) - 1 else ""
    )


def nearest_number(kinds: JsonObject, value: float, annotation: Any = Any) -> str:
    """``"; the nearest valid value is 1"``, or nothing where it is not known.

    Args:
        kinds: pydantic's complaints about the value, with their bounds.
        value: what stands there.
        annotation: what may stand there; a whole number beside the value keeps its bounds.
    """
    near: Any = None
    if "greater_than_equal" in kinds:
        near = kinds["greater_than_equal"]["ge"]
    elif "less_than_equal" in kinds:
        near = kinds["less_than_equal"]["le"]
    elif "multiple_of" in kinds:
        near = round(value / kinds["multiple_of"]["multiple_of"]) * kinds["multiple_of"]["multiple_of"]
    elif ("int_type" in kinds or "int_from_float" in kinds) and isinstance(value, float):
        near = _within(round(value), annotation)
    elif "greater_than" in kinds and isinstance(value, int) and isinstance(kinds["greater_than"]["gt"], int):
        near = kinds["greater_than"]["gt"] + 1
    elif "less_than" in kinds and isinstance(value, int) and isinstance(kinds["less_than"]["lt"], int):
        near = kinds["less_than"]["lt"] - 1
    elif "bool_type" in kinds and value in (0, 1):
        return f"; did you mean {BOOLEANS[str(int(value))]}?"
    if isinstance(near, float) and near.is_integer() and abs(near) < 1e15:
        near = int(near)
    return "" if near is None else f"; the nearest valid value is {near}"


def _within(number: int, annotation: Any) -> int:
    """The number itself, or the bound that it violates."""
    try:
        TypeAdapter[Any](annotation).validate_python(number)
    except ValidationError as error:
        for one in error.errors():
            bounds = one.get("ctx", {})
            number = int(bounds.get("ge", bounds.get("le", number)))
    return number


def is_number(text: str) -> bool:
    return number_of(text, None) is not None


def key_in_use(top: object, data: object, word: str) -> KeyPath | None:
    """The shortest place at which the parts that a scenario has chosen have a key of this name."""
    return min(_in_use(top, data, word), key=len, default=None)


def _in_use(annotation: object, data: object, word: str, path: KeyPath = ()) -> Iterator[KeyPath]:
    keys = keys_of(annotation, data)
    key = same_name(word, keys) or next((key for key in keys if key.startswith(f"{word}_")), None)
    if key is not None:
        yield (*path, key)
    if len(path) < DEEPEST:
        for inner, hint in keys.items():
            yield from _in_use(hint, data.get(inner) if isinstance(data, dict) else None, word, (*path, inner))


def plugins_in_reach(top: object, data: object, path: KeyPath) -> tuple[KeyPath, list[str], str] | None:
    """The nearest place at which another plugin than the chosen one has the key with which ``path`` ends.

    Returns:
        the place, the names of these plugins, and their key.
    """
    around = path[:-1]
    places = _in_reach(top, data, str(path[-1]))
    return min(places, key=lambda each: (each[0][: len(around)] != around, len(each[0])), default=None)


def _in_reach(
    annotation: object, data: object, word: str, path: KeyPath = ()
) -> Iterator[tuple[KeyPath, list[str], str]]:
    if (registry := registry_of(annotation)) is not None:
        key_by_plugin = {name: same_name(word, keys_of(annotation, {"name": name})) for name in registry}
        if names := [name for name, key in key_by_plugin.items() if key is not None]:
            yield path, names, key_by_plugin[names[0]] or word
    if len(path) < DEEPEST:
        for inner, hint in keys_of(annotation, data).items():
            yield from _in_reach(hint, data.get(inner) if isinstance(data, dict) else None, word, (*path, inner))


def rewritten(text: str, registry: "Registry[Any]") -> str:
    """``"; did you mean 'batch_partition:T=4'?"`` for a plugin that is written in another way, or nothing."""
    proposal = None
    if match := _CALL.fullmatch(text):
        proposal = f"{match[1]}:{match[2].replace(' ', '')}" if "=" in match[2] else _with_field(match, registry)
    elif match := _FIELDLESS.fullmatch(text):
        proposal = _with_field(match, registry)
    elif (match := _DOTTED.fullmatch(text)) and "python" in registry:
        proposal = f"{match[1]}:{match[2]}"
    elif (kind := TABLES.get(Path(text).suffix)) in registry:
        proposal = f"{kind}:path={text}"
    return f"; did you mean {proposal!r}?" if proposal else ""


def _with_field(match: "re.Match[str]", registry: "Registry[Any]") -> str | None:
    """A plugin whose only field without a default, beside the cohort size, has this value: ``batch_partition:4``."""
    cls = registry.get(match[1])
    needed = [field for field in required_fields(cls) if field != "k"] if cls else []
    return f"{match[1]}:{needed[0]}={match[2]}" if len(needed) == 1 and match[2] else None


def not_one_value(text: str) -> str:
    """Says what a text that should be a number is instead: a range, or several overrides in one; else nothing."""
    first, _, rest = text.partition(",")
    if re.match(r"\s*[A-Za-z_][\w.]*=", rest):
        return f"; overrides are separated by spaces, {shown(f'{first} {rest.strip()}')}"
    ends = text.split("..") if text.count("..") == 1 else text.split(":") if text.count(":") == 1 else []
    if len(ends) == 2 and all(map(is_number, ends)):
        return (
            f"; a range is written {ends[0]}:{ends[1]}:STEP in simfl sweep and compare, {ends[0]}..{ends[1]} in search"
        )
    return ""


def words_at(annotation: object) -> list[str]:
    """The words that may stand at a place of this type."""
    words: list[str] = []
    for option in options(annotation):
        if registry_of(option):
            words += option
        elif get_origin(option) is not None:
            words += [part for part in get_args(option) if isinstance(part, str)]
    return words


def list_keys(known: Iterable[str]) -> str:
    """``"; the keys are a, b"``, or nothing where there are none."""
    names = list(known)
    more = ", ..." if len(names) > MOST_KEYS else ""
    return f"; the keys are {', '.join(names[:MOST_KEYS])}{more}" if names else ""


RATES |= {"bps": 1 / 8, "kbps": 125, "mbps": 125e3, "gbps": 125e6}


def _of_key(key: str) -> tuple[str, str, float] | None:
    """What a key's name says: stem, dimension and factor; ``latency_ms`` -> ("latency", "seconds", 0.001)."""
    parts = key.lower().split("_")
    for cut in range(1, len(parts)):
        unit = "_".join(parts[cut:])
        for dimension, units in DIMENSIONS.items():
            if unit in units:
                return "_".join(parts[:cut]), dimension, units[unit]
    return ("", OWN[key], 1) if key in OWN else None


def as_number(path: KeyPath, text: str) -> float | None:
    """The number meant by a quantity with a unit, in the unit of the nearest key above it that has one; None if none.

    Args:
        path: of the value.
        text: what stands there.
    """
    if not (match := _QUANTITY.fullmatch(text.strip())):
        return None
    number, unit = float(match[1]), _BITS.sub(r"\1bit\2", match[2]).lower()
    keys = (_of_key(key) for key in reversed(path) if isinstance(key, str))
    known = next((key for key in keys if key is not None), None)
    if known is None:
        return _round(number / 100) if unit == "%" else None
    units = DIMENSIONS[known[1]]
    return _round(number * units[unit] / known[2]) if unit in units else None


def key_in_unit(word: str, value: object, known: Iterable[str]) -> str | None:
    """The key that an unknown one means in another unit, with the value in that key's unit: ``latency_s: 0.1``."""
    if (written := _of_key(word)) is None:
        return None
    for key in known:
        meaning = _of_key(key)
        if meaning is not None and meaning[:2] == written[:2]:
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return f"{key}: {_round(value * written[2] / meaning[2])}"
            return f"{key}, in {meaning[1]}"
    return None


def _round(value: float) -> float:
    value = float(f"{value:.12g}")
    return int(value) if value.is_integer() and abs(value) < 1e15 else value
