"""What was perhaps meant where a key or a value stands in the wrong place or is written in another program's way."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from simfl.core.registration.plugin_data import required_fields
from simfl.core.registration.registry import Registry
from simfl.scenario.fields import keys_of, options, registry_of
from simfl.scenario.messages.suggestions import is_number, same_name
from simfl.scenario.yaml.places import KeyPath, shown

DEEPEST = 4

MOST_KEYS = 20

TABLES = {".csv": "csv", ".npz": "npz", ".parquet": "parquet"}
"""The data that read a file of this kind."""

NOISE = {"epsilon", "dp", "noise", "noise_multiplier", "clip_norm", "sigma", "differential_privacy"}
"""Keys that other programs have for what stages of ``privacy`` do here."""

NOISE_HINT = "; noise is a stage, e.g. privacy.stages=[central_gaussian] (simfl list stage)"

_CALL = re.compile(r"([A-Za-z_]\w*)\((.*)\)")
_FIELDLESS = re.compile(r"([A-Za-z_][\w-]*):([^=\s]+)")
_DOTTED = re.compile(r"([A-Za-z_]\w*(?:\.[a-z_]\w*)*)\.([A-Z]\w*)")


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
