"""Everything that may be written after KEY= or before it, as plain data, for who completes a command line."""

from dataclasses import MISSING, fields, is_dataclass
from typing import Literal, get_args, get_origin

from simfl.core.json_data import JsonObject
from simfl.core.registration.family_index import FAMILIES
from simfl.core.registration.plugin_data import default_of, plain, summary
from simfl.scenario.fields import describe, keys_of, options, registry_of
from simfl.scenario.model import Scenario


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
