"""Plugins as data: their fields, and what YAML and JSON show of them."""

from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from simfl.core.registration.protocol import is_plugin

SINCE_LATER = {"omit_default": True}
"""Metadata of a field that plugins and sections did not have when results were published: scenarios that do not use it
keep their resolved form, and with it their digest."""


def default_of(field: "Field[Any]") -> Any:
    """The default of a dataclass field, ``dataclasses.MISSING`` if it has none."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def _is_omitted(field: "Field[Any]", value: Any) -> bool:
    return field.metadata.get("omit_default", False) and getattr(value, field.name) == default_of(field)


def required_fields(cls: type) -> list[str]:
    """The fields of a dataclass that have no default."""
    return [f.name for f in fields(cls) if f.init and default_of(f) is MISSING]


def summary(cls: type) -> str:
    """The first paragraph of a class's docstring, on one line."""
    return " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())


def plain(value: Any) -> Any:
    """The value as YAML/JSON data: plugins become mappings with their ``name`` first.

    A field with ``metadata={"yaml": False}`` is left out; one with :data:`SINCE_LATER` is while it has its default.
    """
    if is_dataclass(value) and not isinstance(value, type):
        named = {"name": value.name} if is_plugin(value) else {}
        shown = (f.name for f in fields(value) if f.metadata.get("yaml", True) and not _is_omitted(f, value))
        return named | {name: plain(getattr(value, name)) for name in shown}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value
