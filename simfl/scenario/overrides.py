"""Overrides from the command line: ``training.rounds=50 selection=batch_partition:T=3 learning.partition.alpha=0.1``.

A value is read like an unquoted YAML scalar, or as YAML if it begins with ``[``, ``{`` or a quote. Every key
must exist; a key that the file leaves out starts from its default. Where a plugin takes another's place,
the keys that both have keep what the file gave them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from simfl.core.registration.protocol import Plugin, default_of, plain
from simfl.core.registration.registry import Registry
from simfl.scenario.fields import annotation_at, keys_of, owner, registry_of
from simfl.scenario.yaml.places import KeyPath, Place, Problem, dotted_key, leads_on, shown
from simfl.scenario.yaml.reader import MAX_DEPTH, Document, read, scalar

FORM = "an override has the form key=value without spaces"

_KEY = re.compile(r"[A-Za-z_][\w-]*|[0-9]+")

SHORTHAND = re.compile(r"([A-Za-z_][\w-]*):(?=[A-Za-z_][\w.-]*=)")
"""How a plugin with fields begins: its name, a colon, and the first field's name and equals sign behind it."""

_FIELD = re.compile(r"\s*[A-Za-z_][\w.-]*=")


class _Bad(Exception):
    """An override that cannot be applied; the message says why."""


def apply(document: Document, overrides: Iterable[str], top: object) -> None:
    """Changes the document's data by each override in turn; what cannot be applied becomes a problem.

    Args:
        document: a scenario as read.
        overrides: ``key=value`` texts.
        top: the type of the whole, i.e. Scenario.
    """
    texts = list(overrides)
    if (spaced := spaced_override(texts)) is not None:
        place = Place(f"override {spaced[0]}")
        document.problems.append(Problem(place, "", f"{FORM}, did you mean {shown(spaced[1])}?"))
        return
    for text in texts:
        place = Place(f"override {text if len(text) <= 80 and text.isprintable() else shown(text)}")
        before = document.copy()
        try:
            key, value = _split(text)
            Change(document, place, top).set(key, value)
        except _Bad as error:
            document.value, document.places, document.spoiled = before.value, before.places, before.spoiled
            document.problems.append(Problem(place, "", str(error)))


def spaced_override(texts: Sequence[str]) -> tuple[str, str] | None:
    """An override with spaces around its ``=``, which a shell takes for three words, and how to write it."""
    if "=" not in texts[1:-1]:
        return None
    at = texts.index("=", 1)
    return " ".join(texts[at - 1 : at + 2]), f"{texts[at - 1]}={texts[at + 1]}"


def _split(text: str) -> tuple[KeyPath, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        parts = re.fullmatch(r"([\w.-]+):(\S+)", text)
        example = f"did you mean '{parts[1]}={parts[2]}'?" if parts else "e.g. training.rounds=50"
        raise _Bad(f"{FORM}, {example}")
    return _path(key), value.strip()


def _path(key: str) -> KeyPath:
    parts = key.strip().split(".")
    if len(parts) > MAX_DEPTH:
        raise _Bad(f"the key is nested more than {MAX_DEPTH} deep")
    for part in parts:
        if len(part) > 100 or not _KEY.fullmatch(part):
            raise _Bad(f"{shown(key)} is not a key; keys are names joined by dots, e.g. training.rounds")
    return tuple(int(part) if part.isdecimal() and len(part) < 10 else part for part in parts)


def _value(path: KeyPath, text: str) -> Any:
    if text[:1] in ("[", "{", "'", '"'):
        inner = read(text, "value")
        if inner.problems:
            raise _Bad("; ".join(problem.message for problem in inner.problems[:5]))
        return inner.value
    try:
        text.encode("utf-8")
        value = scalar(text)
    except ValueError as error:
        wrong = "the text is not UTF-8" if isinstance(error, UnicodeError) else f"{error} (got {shown(text)})"
        raise _Bad(f"{dotted_key(path)}: {wrong}") from None
    if isinstance(value, str) and "\0" in value:
        raise _Bad("the text holds a character that is not allowed")
    return value


class Change:
    """A change of a document: which place gets the blame, and what its values mean.

    Args:
        document: a scenario as read.
        place: where what is put stands.
        top: the type of the whole, i.e. Scenario.
    """

    def __init__(self, document: Document, place: Place, top: object) -> None:
        self.document = document
        self.place = place
        self.top = top

    def set(self, path: KeyPath, text: str) -> None:
        if not isinstance(self.document.value, dict):
            self.document.value = {}
        if path[-1] == "name" and registry_of(self.type_at(path[:-1])):
            path = path[:-1]
        parent = self.parent(path)
        registry = registry_of(self.type_at(path))
        fitting = SHORTHAND.match(text) if registry else None
        inner = split_fields(text[fitting.end() :]) if fitting else []
        value = fitting[1] if fitting else _value(path, text)
        current = parent[path[-1]] if leads_on(parent, path[-1]) else None
        if registry and (isinstance(value, str) or isinstance(value, dict) and "name" in value):
            self.choose(parent, path, registry, current, value)
        else:
            self.put(parent, path, value)
        for item in inner:
            if "=" not in item:
                raise _Bad(f"{shown(item)} behind a comma is another value; simfl sweep and simfl compare take several")
            key, part = _split(item)
            self.set((*path, *key), part)

    def choose(self, parent: object, path: KeyPath, registry: Registry[Plugin], current: object, value: object) -> None:
        """Puts a plugin where another (or the same) stands; keys that both have stay."""
        wanted = registry.normalise(value)
        known = keys_of(self.type_at(path), wanted)
        before = registry.normalise(current) if current is not None else {}
        if not known or not isinstance(before, dict):
            self.put(parent, path, value)
            return
        kept_keys = {key: item for key, item in before.items() if key in known and key not in wanted}
        places = self.document.places
        stay = [
            {
                where: spot
                for where, spot in spots.items()
                if where[: len(path)] == path != where and where[len(path)] in kept_keys
            }
            for spots in (places.keys, places.values)
        ]
        self.put(parent, path, {"name": wanted["name"], **kept_keys, **wanted})
        places.keys.update(stay[0])
        places.values.update(stay[1])

    def put(self, parent: Any, path: KeyPath, value: Any) -> None:
        parent[path[-1]] = value
        self.document.places.replace(path, self.place)
        spoiled = self.document.spoiled
        spoiled -= {bad for bad in spoiled if bad[: len(path)] == path}

    def parent(self, path: KeyPath) -> Any:
        """The mapping or list that holds the last key of ``path``; what is short or missing on the way is opened."""
        data = self.document.value
        for depth in range(1, len(path)):
            here = path[:depth]
            self.step(here, data)
            inner = data[here[-1]] if leads_on(data, here[-1]) else None
            if not isinstance(inner, (dict, list)):
                inner = self.open_mapping(here, inner)
                self.put(data, here, inner)
            data = inner
        self.step(path, data)
        return data

    @staticmethod
    def step(path: KeyPath, data: object) -> None:
        """Refuses a last key that cannot be one of ``data``."""
        key, holder = path[-1], f"'{dotted_key(path[:-1])}'" if path[:-1] else "the scenario"
        if isinstance(data, dict) and not isinstance(key, str):
            raise _Bad(f"{holder} is not a list; {key} is no key of it")
        if isinstance(data, list) and not leads_on(data, key):
            valid = f"its indices are 0 to {len(data) - 1}" if data else "it is empty"
            raise _Bad(f"{holder} is a list; {valid} (got {shown(key)})")

    def open_mapping(self, path: KeyPath, value: object) -> Any:
        """What a value is short for, or stands there by default, as a mapping or list that can be changed."""
        if value is None:
            cls = owner(self.type_at(path[:-1]), self.value_at(path[:-1]))
            default = {field.name: default_of(field) for field in fields(cls)}.get(path[-1]) if cls else None
            value = {} if default is None or default is MISSING else brief(default)
        registry = registry_of(self.type_at(path))
        value = registry.normalise(value) if registry else value
        if isinstance(value, str) and "name" in keys_of(self.type_at(path), {}):  # a name is short for its mapping
            value = {"name": value}
        if not isinstance(value, (dict, list)):
            raise _Bad(f"'{dotted_key(path)}' is {shown(value)} and has no keys")
        return value

    def type_at(self, path: KeyPath) -> Any:
        return annotation_at(self.top, self.document.value, path)

    def value_at(self, path: KeyPath) -> Any:
        data = self.document.value
        for key in path:
            data = data[key] if leads_on(data, key) else None
        return data


def brief(value: object) -> Any:
    """A default as data, without the fields that are themselves at their default."""
    data = plain(value)
    if is_dataclass(value):
        for field in fields(value):
            if getattr(value, field.name) == default_of(field):
                data.pop(field.name, None)
    return data


def split_values(text: str) -> list[str]:
    """The values of a key, each as ``simfl run`` takes it, fields separated by commas.

    One rule for ``run``, ``sweep``, ``compare`` and ``search``, in a shell, in files, in Python. A comma separates
    values, but not inside brackets and quotes. The fields of a plugin follow its name and a colon; what reads
    ``field=value`` behind such a plugin is another field of it, not a value. A semicolon separates fields, too.

    >>> split_values("random,batch_partition:T=4;mode=fair,[1, 2]")
    ['random', 'batch_partition:T=4,mode=fair', '[1, 2]']
    """
    values: list[str] = []
    for part in _outside_brackets(text, ","):
        if values and SHORTHAND.match(values[-1]) and _FIELD.match(part):
            values[-1] += f",{part.strip()}"
        else:
            values.append(part.strip())
    return [_with_commas(value) for value in values]


def split_fields(text: str) -> list[str]:
    """The fields of a plugin, from the text behind its colon.

    >>> split_fields("T=4,mode=fair;weights=[1, 2]")
    ['T=4', 'mode=fair', 'weights=[1, 2]']
    """
    return [field for part in _outside_brackets(text, ",") for field in _at_semicolons(part)]


def _with_commas(value: str) -> str:
    match = SHORTHAND.match(value)
    return value[: match.end()] + ",".join(split_fields(value[match.end() :])) if match else value


def _at_semicolons(text: str) -> list[str]:
    """The parts before and behind semicolons that a field follows."""
    fields: list[str] = []
    for part in _outside_brackets(text, ";"):
        if fields and not _FIELD.match(part):
            fields[-1] += f";{part}"
        else:
            fields.append(part)
    return fields


def _outside_brackets(text: str, separator: str) -> list[str]:
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
