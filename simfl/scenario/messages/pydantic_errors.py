"""pydantic's errors brought back to the data: which place each is about, and which of them are one mistake."""

from dataclasses import dataclass
from typing import Any

from simfl.scenario.fields import annotation_at, registry_of
from simfl.scenario.yaml.places import KeyPath

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


def leads_on(data: object, step: object) -> bool:
    if isinstance(data, dict):
        return step in data
    return isinstance(data, list) and isinstance(step, int) and 0 <= step < len(data)


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
        if fitting and all(one.path == union and _of_choice(one) for one in fitting):
            fitting = []  # a word that is none of the names, where other kinds of value are possible too
        single += [[one] for one in fitting] if fitting else [members]
    return single


def _of_choice(errors: TranslatedError) -> bool:
    return errors.error["type"] in ("literal_error", "plugin_unknown")
