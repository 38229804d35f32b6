"""The JSON Schema of scenario files, for completion, hover text and checks in editors."""

from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import TypeAdapter

from simfl.core.json_data import JsonObject
from simfl.core.registration.family_index import FAMILIES
from simfl.core.registration.protocol import default_of, plain, summary
from simfl.scenario.extends import EXTENDS
from simfl.scenario.fields import describe, keys_of, options, registry_of
from simfl.scenario.model import Scenario

_EXTENDS = {
    "type": "string",
    "minLength": 1,
    "title": EXTENDS,
    "description": "a scenario file beside this one, or a built-in scenario: what is not said here is as there",
}


def schema() -> JsonObject:
    """The schema, JSON Schema draft 7; each family of plugins stands once, under ``definitions``.

    What only the whole scenario shows (the plugins' checks) is not in it: ``simfl validate`` decides.
    """
    document = TypeAdapter(Scenario).json_schema(ref_template="#/definitions/{model}")
    document["properties"].pop("source")
    families: JsonObject = {}
    body, classes = _for_editors(document, families), _for_editors(document.get("$defs", {}), families)
    body["properties"]["name"].pop("default")  # it is the file's name
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "simfl scenario",
        "description": "One simulated federated training run.",
        "type": "object",
        **_either(body["properties"], body["required"]),
        "definitions": classes | dict(sorted(families.items())),
    }


def _either(keys: JsonObject, required: list[str]) -> JsonObject:
    """A scenario with all its keys, or what differs from another: there, a section may be a part of one."""
    about = {key: {"title": key, "description": body["description"]} for key, body in keys.items()}
    return {
        "properties": {EXTENDS: _EXTENDS, **about},
        "additionalProperties": False,
        "if": {"required": [EXTENDS]},
        "then": {"properties": {key: {"anyOf": [body, {"type": "object"}]} for key, body in keys.items()}},
        "else": {"properties": keys, "required": required},
    }


def _for_editors(value: object, families: JsonObject) -> Any:
    """``value`` for editors of draft 7, with the alternatives of each family moved to ``families``."""
    if isinstance(value, list):
        return [_for_editors(item, families) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: _for_editors(item, families) for key, item in value.items() if key != "discriminator"}
    for key, body in value.get("properties", {}).items():
        if isinstance(body, dict):
            body["title"] = key
    if isinstance(value.get("oneOf"), list):
        value["anyOf"] = _alternatives(value.pop("oneOf"))
    if "prefixItems" in value:
        value["items"] = value.pop("prefixItems")
    reference = value.pop("$ref", None)
    if family := value.pop("x-family", None):
        if "anyOf" in value:  # a plugin within one of its own family only refers to it
            families[family] = {"title": family, "anyOf": value.pop("anyOf")}
        reference = f"#/definitions/{family}"
        if "name" not in (value.get("default") or {"name": ""}):  # pydantic leaves the plugin's name out
            del value["default"]
    if reference is None:
        return value
    return value | {"allOf": [{"$ref": reference}]} if value else {"$ref": reference}  # draft 7 sees $ref alone


def _alternatives(options: list[Any]) -> list[Any]:
    """Of a number and a family: the number's own bounds decide, not those of the plugin that it could be short for."""
    if not any(option.get("type") in ("number", "integer") for option in options):
        return options
    return [{"allOf": [option, {"not": {"type": "number"}}]} if "$ref" in option else option for option in options]


def hints() -> JsonObject:
    """``keys``: those of a scenario; ``families``: their plugins, each with ``about`` and ``keys``.

    A key has ``about`` and, where they are known, the ``values`` that fit, the ``family`` whose plugins fit (then
    ``default`` is the plugin that stands there) or the ``keys`` inside.
    """
    families = {
        family: {name: {"about": summary(cls), "keys": _keys(cls)} for name, cls in registry.items()}
        for family, registry in FAMILIES.items()
    }
    return {"keys": _keys(Scenario), "families": families}


def _keys(cls: type) -> JsonObject:
    defaults = {f.name: default_of(f) for f in fields(cls)}
    about = {field.name: field.description or field.type for field in describe(cls)}
    hints = keys_of(cls, {}) if is_dataclass(cls) else {}
    return {key: {"about": about[key]} | _inside(hint, defaults[key]) for key, hint in hints.items()}


def _inside(annotation: object, default: object) -> JsonObject:
    if (registry := registry_of(annotation)) is not None:
        chosen = None if default is MISSING else registry.normalise(plain(default))
        name = chosen.get("name") if isinstance(chosen, dict) else None
        return {"family": registry.family, "default": name or registry.default}
    for option in options(annotation):
        if is_dataclass(option) and isinstance(option, type):
            return {"keys": _keys(option)}
        if option is bool:
            return {"values": ["true", "false"]}
        if get_origin(option) is Literal:
            return {"values": [str(value) for value in get_args(option)]}
    return {}
