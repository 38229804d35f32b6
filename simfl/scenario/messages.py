"""What pydantic found, in plain words and with places: one problem a mistake, with the nearest valid name or value."""

import re
from collections.abc import Iterable
from typing import Any, get_args, get_origin

from simfl.errors import nearest
from simfl.scenario.extending import EXTENDS
from simfl.scenario.fields import annotation_at, describe, homes, keys_of, options, owner, registry_of
from simfl.scenario.findings import TYPES, UNKNOWN_KEY, Found, alternatives, leads_on, translate
from simfl.scenario.places import KeyPath, Place, Problem, dotted, shown
from simfl.scenario.reader import Document
from simfl.scenario.units import as_number, key_in_unit

__all__ = ["in_order", "problems"]

EXPLAINED = 1000
"""A file with more mistakes than this is not a scenario; further ones are not looked at."""

ALSO_CALLED = {
    "lr": ("learning_rate",),
    "eta": ("learning_rate",),
    "alpha": ("beta",),
    "epochs": ("local_epochs",),
    "batch": ("batch_size",),
    "wd": ("weight_decay",),
    "nrounds": ("rounds",),
    "numrounds": ("rounds",),
    "nclients": ("clients",),
    "numclients": ("clients",),
    "randomseed": ("seed",),
    "dataset": ("data",),
    "type": ("name",),
}
"""What other programs and papers call a key."""

_WORDS = {"yes": "true", "on": "true", "no": "false", "off": "false", "1": "true", "0": "false"}


def meant(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` with the most similar known name, or nothing."""
    near = _nearest(word, known)
    return f"; did you mean {near!r}?" if near else ""


def _nearest(word: str, known: Iterable[str]) -> str | None:
    known = list(known)
    if same := _same(word, known):
        return same
    return nearest(word, known)


def _same(word: str, known: Iterable[str]) -> str | None:
    """The known name that a word is but for case and punctuation, or what it is called elsewhere."""
    plainly = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in known}
    word = re.sub(r"[^a-z0-9]", "", word.lower())
    return plainly.get(word) or next((name for name in known if name in ALSO_CALLED.get(word, ())), None)


def _like_name(value: Any) -> str | None:
    """The key of a mapping that was to be ``name``."""
    keys = [key for key in value if isinstance(key, str)] if isinstance(value, dict) else []
    return next((key for key in keys if _same(key, ("name",)) or nearest(key, ["name"])), None)


def problems(errors: list[Any], document: Document, top: Any) -> list[Problem]:
    """pydantic's errors about a document's data as problems, without those that repeat what reading found.

    Args:
        errors: ``ValidationError.errors()``.
        document: the data that was validated, with its places.
        top: its type, i.e. Scenario.
    """
    translated = [translate(error, document.value, top) for error in errors[:EXPLAINED]]
    explained = _Explained(document, top)
    unknown = [one.path for one in translated if one.error["type"] == UNKNOWN_KEY]
    mistyped = {(*path[:-1], explained.nearest_key(path)) for path in unknown}
    for group in alternatives(translated):
        path = group[0].path
        repeats = group[0].error["type"] == "missing" and path in mistyped
        if not repeats and not any(path[: len(bad)] == bad for bad in document.spoiled):
            explained.add(group)
    return explained.problems


class _Explained:
    def __init__(self, document: Document, top: Any) -> None:
        self.document = document
        self.top = top
        self.problems: list[Problem] = []

    def add(self, group: list[Found]) -> None:
        one = group[0]
        kind = one.error["type"]
        if (number := self.quantity(group)) is not None:
            text = f"a number without a unit is needed (got {shown(self.at(one.path, None))}); write {number}"
            self.note(one.path, text)
        elif kind == UNKNOWN_KEY:
            self.note(one.path, self.unknown_key(one.path), key=True)
        elif kind == "missing":
            self.note(one.path, self.missing(one.path))
        elif kind == "plugin_name" and (key := _like_name(self.at(one.path, None))):
            self.note((*one.path, key), f"unknown key {shown(key)}; did you mean 'name'?", key=True)
        elif kind == "plugin_unknown" and len(group) == 1:
            self.unknown_plugin(one)
        elif kind == "plugin_broken":
            self.note(one.path, one.error["msg"])
        else:
            value = one.error["input"] if kind == "plugin_name" else self.at(one.path, one.error["input"])
            words = list(dict.fromkeys(self.wanted(each) for each in group))
            text = " or ".join([words[0], *(other.removeprefix("Input should be ") for other in words[1:])])
            got = "" if kind == "plugin_name" else f" (got {shown(value)})"
            self.note(one.path, text + got + self.nearest(group, value))

    def note(self, path: KeyPath, message: str, key: bool = False) -> None:
        self.problems.append(Problem(self.document.places.of(path, key), dotted(path), message))

    def at(self, path: KeyPath, default: Any) -> Any:
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

    def nearest_key(self, path: KeyPath) -> str | None:
        return nearest(str(path[-1]), keys_of(*self.around(path[:-1])))

    def unknown_key(self, path: KeyPath) -> str:
        annotation, value = self.around(path[:-1])
        known = keys_of(annotation, value) | ({} if path[:-1] else {EXTENDS: str})
        word = str(path[-1])
        given = value.get(word) if isinstance(value, dict) else None
        if (converted := key_in_unit(word, given, known)) is not None:
            guess = f"; did you mean {converted!r}?"
        else:
            guess = meant(word, known) or self.elsewhere(word, path)
        return f"unknown key {shown(word)}{self.of(path)}{guess or self.listed(known)}"

    def elsewhere(self, word: str, path: KeyPath) -> str:
        """A key of one of the sections that was written at the top."""
        if len(path) > 1:
            return ""
        for section, annotation in keys_of(self.top, self.document.value).items():
            if (key := _same(word, keys_of(annotation, self.at((section,), {})))) is not None:
                return f"; did you mean {f'{section}.{key}'!r}?"
        return ""

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

    @staticmethod
    def listed(known: Iterable[str]) -> str:
        names = list(known)
        more = ", ..." if len(names) > 20 else ""
        return f"; the keys are {', '.join(names[:20])}{more}" if names else ""

    def inside(self, path: KeyPath, name: str) -> str:
        """Where in this section, or elsewhere, a plugin of this name may stand."""
        found = [where for where in homes(self.top, name) if where != path]
        found.sort(key=lambda where: (where[: len(path)] != path, len(where)))
        return f"; did you mean {f'{dotted(found[0])}: {name}'!r}?" if found else ""

    # -- values --------------------------------------------------------------------------------

    def unknown_plugin(self, one: Found) -> None:
        annotation, value = self.around(one.path)
        registry = registry_of(annotation)
        inside = isinstance(value, dict)
        name = value.get("name", registry.default if registry else None) if inside else value
        known = one.error["ctx"]["known"]
        guess = ""
        if registry and isinstance(name, str):
            guess = (
                meant(name, registry) if _same(name, registry) else self.inside(one.path, name) or meant(name, registry)
            )
        message = f"unknown {one.error['ctx']['family']} {shown(name)} (one of {known}){guess}"
        place = self.document.places.of((*one.path, "name") if inside else one.path)
        self.problems.append(Problem(place, dotted(one.path), message))

    def wanted(self, one: Found) -> str:
        error = one.error
        kind, context = error["type"], error.get("ctx", {})
        if kind in TYPES:
            return f"Input should be {TYPES[kind]}"
        if kind == "plugin_unknown":
            return f"Input should be one of {context['known']}"
        if kind in ("too_short", "too_long"):
            bound = context.get("min_length", context.get("max_length"))
            return f"Input should have at {'least' if kind == 'too_short' else 'most'} {bound} item{'s'[: bound != 1]}"
        if kind == "string_pattern_mismatch":
            rule = next((field.description for field in self.siblings(one.path) if field.name == one.path[-1]), "")
            return f"Input does not fit ({rule})" if rule else error["msg"]
        return str(error["msg"]).removeprefix("Value error, ")

    def quantity(self, group: list[Found]) -> float | None:
        """The number that a text with a unit stands for, where a number may stand."""
        kinds = {one.error["type"] for one in group}
        if not kinds & {"float_type", "int_type", "plugin_unknown"}:
            return None
        path = group[0].path
        annotation, value = self.around(path)
        registry = registry_of(annotation)
        takes = "plugin_unknown" not in kinds or registry is not None and registry.number is not None
        return as_number(path, value) if takes and isinstance(value, str) else None

    def siblings(self, path: KeyPath) -> list[Any]:
        annotation, value = self.around(path[:-1])
        cls = owner(annotation, value) or annotation
        return describe(cls) if path and isinstance(cls, type) else []

    def nearest(self, group: list[Found], value: Any) -> str:
        """The valid value that lies nearest, where there is one."""
        kinds = {one.error["type"]: one.error.get("ctx", {}) for one in group}
        if not isinstance(value, bool) and isinstance(value, (int, float)):
            return _nearest_number(kinds, value)
        if isinstance(value, str):
            if kinds.keys() & {"int_type", "float_type"} and _is_number(value):
                return "; remove the quotes"
            if "bool_type" in kinds and value.lower() in _WORDS:
                return f"; did you mean {_WORDS[value.lower()]}?"
            annotation, _ = self.around(group[0].path)
            return meant(value, _words_of(annotation))
        return ""


def _nearest_number(kinds: dict[str, Any], value: float) -> str:
    near: Any = None
    if "greater_than_equal" in kinds:
        near = kinds["greater_than_equal"]["ge"]
    elif "less_than_equal" in kinds:
        near = kinds["less_than_equal"]["le"]
    elif "multiple_of" in kinds:
        near = round(value / kinds["multiple_of"]["multiple_of"]) * kinds["multiple_of"]["multiple_of"]
    elif ("int_type" in kinds or "int_from_float" in kinds) and isinstance(value, float):
        near = round(value)
    elif "greater_than" in kinds and isinstance(value, int) and isinstance(kinds["greater_than"]["gt"], int):
        near = kinds["greater_than"]["gt"] + 1
    elif "less_than" in kinds and isinstance(value, int) and isinstance(kinds["less_than"]["lt"], int):
        near = kinds["less_than"]["lt"] - 1
    elif "bool_type" in kinds and value in (0, 1):
        return f"; did you mean {_WORDS[str(int(value))]}?"
    if isinstance(near, float) and near.is_integer() and abs(near) < 1e15:
        near = int(near)
    return "" if near is None else f"; the nearest valid value is {near}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _words_of(annotation: Any) -> list[str]:
    """The words that may stand at a place of this type."""
    words: list[str] = []
    for option in options(annotation):
        if registry_of(option):
            words += option
        elif get_origin(option) is not None:
            words += [part for part in get_args(option) if isinstance(part, str)]
    return words


def in_order(found: Iterable[Problem]) -> list[Problem]:
    """Without repetitions, in the order of the file; overrides last."""

    def position(problem: Problem) -> tuple[Any, ...]:
        place: Place = problem.place
        return (place.source.startswith("override "), place.line, place.column)

    return sorted(dict.fromkeys(found), key=position)
