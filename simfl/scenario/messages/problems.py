"""What pydantic found, in plain words and with places: one problem a mistake, with the nearest valid name or value."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Any

from simfl.core.errors import nearest
from simfl.core.registration.protocol import required_fields
from simfl.scenario.extends import EXTENDS
from simfl.scenario.fields import annotation_at, describe, homes, key_homes, keys_of, options, owner, registry_of
from simfl.scenario.messages.elsewhere import Counterpart, counterparts, explanation, in_clients
from simfl.scenario.messages.suggestions import (
    BOOLEANS,
    as_number,
    is_number,
    key_in_unit,
    key_in_use,
    like_name,
    list_keys,
    name_suggestion,
    nearest_number,
    not_one_value,
    plugins_in_reach,
    rewritten,
    same_name,
    without_space,
    words_at,
)
from simfl.scenario.yaml.places import KeyPath, Problem, dotted_key, leads_on, shown
from simfl.scenario.yaml.reader import Document

MISTYPED = 0.8
"""Likeness from which on a key at the top is a mistyped one, and not one of a section."""

MEANT = "; did you mean "
SEVERAL = "; simfl sweep and simfl compare take several values"
EXPLAINED = 1000
"""A file with more mistakes than this is not a scenario; further ones are not looked at."""
UNKNOWN_KEY = "unexpected_keyword_argument"

TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "dataclass_type": "a mapping",
    "dataclass_exact_type": "a mapping",
    "none_required": "null",
}
"""pydantic's complaints about the kind of a value, and what is wanted instead."""

MAPPINGS = {"dict_type", "dataclass_type", "dataclass_exact_type"}

NUMBERS = ("int_type", "int_from_float", "float_type")


@dataclass(frozen=True)
class TranslatedError:
    """One of pydantic's errors, its ``loc`` translated: ``branch`` is the alternative of a union it belongs to."""

    path: KeyPath
    union: KeyPath | None
    branch: str
    error: Any


def problems(errors: list[Any], document: Document, top: object) -> list[Problem]:
    """pydantic's errors about a document's data as problems, without those that repeat what reading found.

    Args:
        errors: ``ValidationError.errors()``.
        document: the data that was validated, with its places.
        top: its type, i.e. Scenario.
    """
    translated = [translate(error, document.value, top) for error in errors[:EXPLAINED]]
    explained = _Explained(document, top)
    unknown = [one.path for one in translated if one.error["type"] == UNKNOWN_KEY]
    mistyped = {(*path[:-1], nearest(str(path[-1]), keys_of(*explained.around(path[:-1])))) for path in unknown}
    for group in alternatives(translated):
        path = group[0].path
        repeats = group[0].error["type"] == "missing" and path in mistyped or explained.long_enough(group[0])
        if not repeats and not any(path[: len(bad)] == bad for bad in document.spoiled):
            explained.add(group)
    return explained.problems


class _Explained:
    def __init__(self, document: Document, top: object) -> None:
        self.document = document
        self.top = top
        self.problems: list[Problem] = []

    def add(self, group: list[TranslatedError]) -> None:
        one = group[0]
        kind = one.error["type"]
        if (number := self.quantity(group)) is not None:
            written = self.at(one.path, None)
            written = written["name"] if isinstance(written, dict) else written
            text = f"a number without a unit is needed (got {shown(written)}); write {number}"
            self.note(one.path, text)
        elif kind == UNKNOWN_KEY:
            self.note(one.path, self.unknown_key(one.path), key=True)
        elif kind == "missing":
            self.note(one.path, self.missing(one.path))
        elif kind == "plugin_name" and (key := like_name(self.at(one.path, None))):
            guess = without_space(key) or "; did you mean 'name'?"
            self.note((*one.path, key), f"unknown key {shown(key)}{guess}", key=True)
        elif kind == "plugin_unknown" and len(group) == 1:
            self.unknown_plugin(one)
        elif kind == "plugin_broken":
            self.note(one.path, one.error["msg"])
        else:
            value = one.error["input"] if kind == "plugin_name" else self.at(one.path, one.error["input"])
            words = list(dict.fromkeys(self.expectation(each) for each in group))
            text = " or ".join([words[0], *(other.removeprefix("Input should be ") for other in words[1:])])
            got = "" if kind == "plugin_name" else f" (got {shown(value)})"
            self.note(one.path, text + got + self.nearest(group, value))

    def long_enough(self, one: TranslatedError) -> bool:
        """Whether a list is only called short because items of it are wrong, which are not counted."""
        return one.error["type"] == "too_short" and len(self.at(one.path, ())) >= one.error["ctx"]["min_length"]

    def note(self, path: KeyPath, message: str, key: bool = False) -> None:
        self.problems.append(Problem(self.document.places.of(path, key), dotted_key(path), message))

    def at(self, path: KeyPath, default: object) -> Any:
        """The value as the user wrote it."""
        data = self.document.value
        for step in path:
            if not leads_on(data, step):
                return default
            data = data[step]
        return data

    def around(self, path: KeyPath) -> tuple[Any, Any]:
        return annotation_at(self.top, self.document.value, path), self.at(path, None)

    # -- keys ----------------------------------------------------------------------------------

    def unknown_key(self, path: KeyPath) -> str:
        annotation, value = self.around(path[:-1])
        word = str(path[-1])
        if path == (EXTENDS,) and self.document.places.of(path).source.startswith("override "):
            return f"{shown(EXTENDS)} stands in files only; no override changes it"
        known = keys_of(annotation, value) | ({} if path[:-1] else {EXTENDS: str})
        written = value.get(word) if isinstance(value, dict) else None
        if written is None and without_space(word):
            guess = without_space(word)
        elif (converted := key_in_unit(word, written, known)) is not None:
            guess = f"; did you mean {converted!r}?"
        else:
            guess = "" if word == "name" else self.key_meant(path, written, known)
        return f"unknown key {shown(word)}{self.of(path)}{guess or list_keys(known)}"

    def key_meant(self, path: KeyPath, written: object, known: Iterable[str]) -> str:
        """The nearest key of the same name or meaning: here, elsewhere in what is chosen, or of another plugin."""
        word = str(path[-1])
        longer = [key for key in known if key.startswith(f"{word}_")]
        if same_name(word, known) or len(longer) == 1:
            return f"; did you mean {same_name(word, known) or longer[0]!r}?"
        meanings = [parts for parts in counterparts(word) if parts[0].key] or counterparts(word)
        if word in (key_in_use(self.top, self.document.value, word) or ())[-1:]:
            meanings = [parts for parts in meanings if self.stands(path, parts[0])]
        if hint := self.elsewhere(path, meanings):
            return hint + in_clients(word, written, self.at(("clients",), None))
        if sentence := explanation(word) if len(path) == 1 else "":
            return sentence
        if not get_close_matches(word, list(known), cutoff=MISTYPED):
            if others := self.other_plugins(path, written):
                return others
            if (place := key_in_use(self.top, self.document.value, word)) is not None:
                return f"; did you mean {dotted_key(place)!r}?"
        near = plugins_in_reach(self.top, self.document.value, path)
        reached = self.with_plugin(path, near[0], near[2], near[1], written) if near else ""
        if near and len(path) > 1 and near[0][:1] == path[:1]:
            return reached
        near_key = self.other_section(path, written) or name_suggestion(word, known)
        return near_key or (reached if len(path) == 1 else explanation(word))

    def other_plugins(self, path: KeyPath, written: object) -> str:
        """Plugins of the same family that have the key."""
        registry, word = registry_of(self.around(path[:-1])[0]), str(path[-1])
        names = [name for where, name in key_homes(registry, word) if not where] if registry else []
        return self.with_plugin(path, path[:-1], word, names, written) if names else ""

    def other_section(self, path: KeyPath, written: object) -> str:
        """For a key at the top, one of the sections that has it, or a plugin that may stand there."""
        top, word = keys_of(self.top, self.document.value), str(path[-1])
        places = sorted(key_homes(self.top, word), key=lambda home: len(home[0]))
        if not places or len(path) > 1 or same_name(word, top) or get_close_matches(word, top, cutoff=MISTYPED):
            return ""
        names = [name for where, name in places if where == places[0][0]]
        return self.with_plugin(path, places[0][0], word, names, written)

    def elsewhere(self, path: KeyPath, meanings: list[tuple[Counterpart, ...]]) -> str:
        """How a word of other tools is written here: at this place, else every way."""
        here = [parts for parts in meanings if self.stands(path, parts[0])]
        texts = (" with ".join(repr(self.counterpart(path, part)) for part in parts) for parts in here or meanings)
        return f"{MEANT}{' or '.join(dict.fromkeys(texts))}?" if meanings else ""

    def stands(self, path: KeyPath, part: Counterpart) -> bool:
        """Whether a counterpart may stand where a word of another tool stands now."""
        if not part.key:
            return part.place == path
        around = self.around(path[:-1])
        return part.key in keys_of(*around) and part.plugin in ("", _tag(*around))

    def counterpart(self, path: KeyPath, part: Counterpart) -> str:
        place, name, key, fields = part
        if not key:
            return self.plugin_here(path, place, name, fields)
        if self.stands(path, part):
            return key
        value = self.at(place, None)
        known = keys_of(annotation_at(self.top, self.document.value, place), value)
        if not name and (value is None or key in known) or self.stands((*place, ""), part):
            return dotted_key((*place, key))
        names = [name] if name else [each for where, each in key_homes(self.top, key) if where == place]
        return self.example(path, place, names[0], {key: self.at(path, None)}) if names else dotted_key((*place, key))

    def plugin_here(self, path: KeyPath, place: KeyPath, name: str, fields: Mapping[str, object]) -> str:
        """A plugin with the fields that it needs, as it is written where the mistake is."""
        there = self.at(place, None)
        for cls in (cls for where, cls in homes(self.top, name) if where == place):
            known = {*fields, *(there if isinstance(there, dict) else ())}
            needed = {field: cls.example[field] for field in required_fields(cls) if field in {*cls.example} - known}
            fields = needed | dict(fields)
        text = self.example(path, place, name, fields)
        return text.removeprefix(dotted_key(place)).lstrip("=: ") if place == path else text

    def with_plugin(self, path: KeyPath, home: KeyPath, word: str, names: list[str], written: object) -> str:
        """How to choose a plugin that has the key, as it is written where the mistake is."""
        if isinstance(written, (dict, list)) or written is None:
            return f"; it is a key of {', '.join(names)}"
        others = f" (or with {', '.join(names[1:])})" if len(names) > 1 else ""
        return f"{MEANT}{self.example(path, home, names[0], {word: written})!r}?{others}"

    def example(self, path: KeyPath, home: KeyPath, name: str, fields: Mapping[str, object]) -> str:
        """A plugin with fields as it is written where the mistake is: in a file, or in an override."""
        if self.document.places.of(path).source.startswith("override "):
            values = (f"{key}={'...' if value is self.at(path, None) else value}" for key, value in fields.items())
            return f"{dotted_key(home)}={name}{':' if fields else ''}{','.join(values)}"
        inside = (f", {key}: {one if isinstance(one, str) else json.dumps(one)}" for key, one in fields.items())
        return f"{dotted_key(home)}: " + (f"{{name: {name}{''.join(inside)}}}" if fields else name)

    def missing(self, path: KeyPath) -> str:
        annotation, value = self.around(path[:-1])
        if isinstance(path[-1], int):
            count = len(value) if isinstance(value, list) else 0
            return f"has too few items (got {count})"
        cls = owner(annotation, value)
        about = {field.name: field.description or field.type for field in describe(cls)} if cls else {}
        text = f" ({about[path[-1]]})" if about.get(path[-1]) else ""
        return f"key {path[-1]!r}{self.of(path)} is missing{text}"

    def of(self, path: KeyPath) -> str:
        """The plugin that a key belongs to, in words."""
        annotation, value = self.around(path[:-1])
        registry = registry_of(annotation)
        cls = registry.chosen(value) if registry else None
        return f" of {registry.family} {cls.name!r}" if registry and cls else ""

    def inside(self, path: KeyPath, name: str) -> str:
        """Where in this section, or elsewhere, a plugin of this name may stand."""
        others = [(where, cls.name) for each in (name, name.lower()) for where, cls in homes(self.top, each)]
        places = sorted(
            (where[: len(path)] != path, len(where), where, each) for where, each in others if where != path
        )
        return f"{MEANT}{self.plugin_here(path, *places[0][2:], {})!r}?" if places else ""

    # -- values --------------------------------------------------------------------------------

    def unknown_plugin(self, one: TranslatedError) -> None:
        annotation, value = self.around(one.path)
        registry = registry_of(annotation)
        inside = isinstance(value, dict)
        name = value.get("name", registry.default if registry else None) if inside else value
        known = one.error["ctx"]["known"]
        guess = ""
        if registry and isinstance(name, str):
            plugins = [parts for parts in counterparts(name) if not parts[0].key]
            hint = self.elsewhere(one.path, plugins) or explanation(name)
            near = name_suggestion(name, registry)
            guess = near if same_name(name, registry) else hint or self.inside(one.path, name) or near
            names = {part.partition(":")[0] for part in re.split("[,;]", name)}
            guess = rewritten(name, registry) or (SEVERAL if names <= {*registry} else not_one_value(name) or guess)
        message = f"unknown {one.error['ctx']['family']} {shown(name)} (one of {known}){guess}"
        place = self.document.places.of((*one.path, "name") if inside else one.path)
        self.problems.append(Problem(place, dotted_key(one.path), message))

    def expectation(self, one: TranslatedError) -> str:
        error = one.error
        kind, context = error["type"], error.get("ctx", {})
        if kind in TYPES:
            nullable = kind in NUMBERS and type(None) in options(self.around(one.path)[0])
            return f"Input should be {TYPES[kind]}{' or null' if nullable else ''}"
        if kind == "plugin_unknown":
            return f"Input should be one of {context['known']}"
        if kind in ("too_short", "too_long"):
            bound = context.get("min_length", context.get("max_length"))
            return f"Input should have at {'least' if kind == 'too_short' else 'most'} {bound} item{'s'[: bound != 1]}"
        if kind == "string_pattern_mismatch":
            path = one.path[:-1] if isinstance(one.path[-1], int) else one.path
            rule = next((field.description for field in self.siblings(path) if field.name == path[-1]), "")
            return f"Input does not fit ({rule})" if rule else error["msg"]
        return str(error["msg"]).removeprefix("Value error, ")

    def quantity(self, group: list[TranslatedError]) -> float | None:
        """The number that a text with a unit stands for, where a number may stand."""
        kinds = {one.error["type"] for one in group}
        if not kinds & {"float_type", "int_type", "plugin_unknown"}:
            return None
        path = group[0].path
        annotation, value = self.around(path)
        registry = registry_of(annotation)
        if isinstance(value, dict) and value.keys() == {"name"}:  # as overrides write what may be a plugin
            value = value["name"]
        takes = "plugin_unknown" not in kinds or registry is not None and registry.number is not None
        takes = takes or float in options(annotation)
        number = as_number(path, value) if takes and isinstance(value, str) else None
        whole = "int_type" in kinds and "float_type" not in kinds
        return None if whole and (not float(number or 0).is_integer() or "%" in str(value)) else number

    def siblings(self, path: KeyPath) -> list[Any]:
        annotation, value = self.around(path[:-1])
        cls = owner(annotation, value) or annotation
        return describe(cls) if path and isinstance(cls, type) else []

    def nearest(self, group: list[TranslatedError], value: object) -> str:
        """The valid value that lies nearest, where there is one."""
        kinds = {one.error["type"]: one.error.get("ctx", {}) for one in group}
        if kinds.keys() & MAPPINGS and not isinstance(value, (dict, list)):
            return list_keys(keys_of(self.around(group[0].path)[0], {}))
        if not isinstance(value, bool) and isinstance(value, (int, float)):
            return nearest_number(kinds, value, self.around(group[0].path)[0])
        if isinstance(value, str):
            if kinds.keys() & {"int_type", "float_type"}:
                if is_number(value):
                    return "; remove the quotes" if isfinite(float(value)) else "; it must be finite"
                if all(map(is_number, re.split("[,;]", value))):
                    return SEVERAL
                if hint := not_one_value(value):
                    return hint
                if all(map(is_number, value.removeprefix("log:").split(":"))):
                    return SEVERAL
            if "bool_type" in kinds and value.lower() in BOOLEANS:
                return f"; did you mean {BOOLEANS[value.lower()]}?"
            annotation, _ = self.around(group[0].path)
            return name_suggestion(value, words_at(annotation))
        return ""


def translate(error: Any, data: Any, top: Any) -> TranslatedError:
    """Follows ``loc`` through the data: it also names the plugins and the alternatives of unions on its way."""
    path: KeyPath = ()
    union, branch = None, ""
    annotation, tag = top, _tag(top, data)
    for step in error["loc"]:
        if tag is not None and step == tag:
            tag = None
        elif leads_on(data, step) or step == error["loc"][-1] and error["type"] == "missing":
            annotation = annotation_at(annotation, data, (step,))
            data = data[step] if leads_on(data, step) else None
            path, tag = (*path, step), _tag(annotation, data)
        else:
            union, branch = path, str(step)
    return TranslatedError(path, union, branch, error)


def _tag(annotation: object, data: object) -> str | None:
    registry = registry_of(annotation)
    cls = registry.chosen(data) if registry else None
    return cls.name if cls else None


def alternatives(errors: list[TranslatedError]) -> list[list[TranslatedError]]:
    """Groups of errors that are one mistake: of a union, those alternatives that fit best."""
    groups: dict[KeyPath, list[TranslatedError]] = {}
    single = []
    for one in errors:
        if one.union is None:
            single.append([one])
        else:
            groups.setdefault(one.union, []).append(one)
    for union, members in groups.items():
        wrong_kind = {one.branch for one in members if one.path == union and one.error["type"] in {*TYPES, "plugin"}}
        fitting = [one for one in members if one.branch not in wrong_kind]
        words = ("literal_error", "plugin_unknown")
        if fitting and all(one.path == union and one.error["type"] in words for one in fitting):
            fitting = []  # a word that is none of the names, where other kinds of value are possible too
        single += [[one] for one in fitting] if fitting else [members]
    return single
