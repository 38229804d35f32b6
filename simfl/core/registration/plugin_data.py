"""Plugins as data: their fields, and what YAML and JSON show of them."""

from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from simfl.core.registration.protocol import is_plugin


def default_of(field: "Field[Any]") -> Any:
    """The default of a dataclass field, ``dataclasses.MISSING`` if it has none."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def required_fields(cls: type) -> list[str]:
    """The fields of a dataclass that have no default."""
    return [f.name for f in fields(cls) if f.init and default_of(f) is MISSING]


def summary(cls: type) -> str:
    """The first paragraph of a class's docstring, on one line."""
    return " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())


def plain(value: Any) -> Any:
    """The value as YAML/JSON data: plugins become mappings with their ``name`` first.

    A field with ``metadata={"yaml": False}`` is left out.
    """
    if is_dataclass(value) and not isinstance(value, type):
        named = {"name": value.name} if is_plugin(value) else {}
        shown = (f.name for f in fields(value) if f.metadata.get("yaml", True))
        return named | {name: plain(getattr(value, name)) for name in shown}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value
